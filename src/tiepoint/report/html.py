# SPDX-License-Identifier: BSD-3-Clause
"""The report as one HTML file: no network, no clock, the same bytes for the same store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from .._version import __version__
from ..model.errors import InputError
from ..run.engine import load_task
from ..run.result import Run
from .citations import bibtex
from .collect import LOWER_IS_BETTER, Section, sections
from .compare_runs import compare_runs, unique_names
from .curves import curve_figures
from .figures import Figure, heat_map, leaderboard_figure, scale_of, short
from .gallery import gallery
from .pareto import COSTS, pareto_figure
from .show import card_rows

Progress = Callable[[str, int, int], None]


def anchor(text: str) -> str:
    """A text as an HTML id.

    >>> anchor("a/b <c>")
    'a-b-c'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"


def render(runs: Sequence[Run], *, title: str = "tiepoint report", progress: Progress | None = None) -> str:
    """The page. Names are escaped wherever they come from; figures are SVG in the page."""
    if not runs:
        raise InputError("the store has no finished runs; make some with `tiepoint run` or `tiepoint demo`")
    from jinja2 import Environment

    found = sections(runs)
    shown = []
    for i, section in enumerate(found):
        if progress:
            progress("report", i, len(found))
        shown.append(_section(section))
    if progress:
        progress("report", len(found), len(found))
    templates = files("tiepoint.report") / "templates"
    environment = Environment(autoescape=True)
    template = environment.from_string((templates / "report.html").read_text("utf-8"))
    ordered = sorted(runs, key=lambda r: (r.task, r.method, r.id))
    return template.render(
        title=title,
        css=(templates / "report.css").read_text("utf-8"),
        js=(templates / "report.js").read_text("utf-8"),
        sections=shown,
        conventions=[c for s in found for c in _conventions(s)],
        gallery=[g for s in found if (g := gallery(s)) is not None],
        runs=[_run(r) for r in ordered],
        method_count=len({r.method for r in runs}),
        bibtex=bibtex(r.task for r in runs),
        version=__version__,
    )


def _section(section: Section) -> dict[str, Any]:
    columns = [c for c in section.columns() if c[1] == "all" or c == (section.metric, section.group)]
    columns = sorted(columns, key=lambda c: c != (section.metric, section.group))
    best = {c: _best(section, *c) for c in columns}
    letters, wording, notes = _letters(section)
    names = unique_names(section.runs)
    rows = [
        {
            "method": run.method,
            "shown": short(name, 60),
            "id": run.id,
            "letters": letters.get(name, ""),
            "cells": [_cell(section, run, c, best[c]) for c in columns],
        }
        for name, run in zip(names, section.runs, strict=True)
    ]
    figures: list[Figure | None] = [leaderboard_figure(section), heat_map(section)]
    figures += curve_figures(section, load_task(section.task))
    figures += [pareto_figure(section, cost) for cost in COSTS]
    chance = [_chance(section, c) for c in columns]
    return {
        "task": section.task,
        "anchor": anchor(section.task),
        "protocol": section.protocol,
        "metric": section.metric,
        "group": section.group,
        "columns": [m if g == "all" else f"{m} {g}" for m, g in columns],
        "rows": rows,
        "letters": bool(letters),
        "wording": wording,
        "notes": notes,
        "chance": chance if any(chance) else None,
        "figures": [
            {
                "anchor": anchor(f.name),
                "title": f.title,
                "caption": f.caption,
                "svg": f.svg,
                "csv": f.csv,
            }
            for f in figures
            if f is not None
        ],
    }


def _letters(section: Section) -> tuple[dict[str, str], str, list[str]]:
    """Groups that cannot be told apart, the sentence about them, and why there are none."""
    if len(section.runs) < 2:
        return {}, "", []
    try:
        comparison = compare_runs(
            section.runs, metric=section.metric, group=section.group, protocol=section.protocol
        )
    except InputError as e:
        return {}, "", [f"No groups: {e}"]
    wording = (
        f"Methods that share a letter are not separated by these {comparison.n_scenes} scenes "
        f"({100 * comparison.level:g} %, family-wise). The smallest p these scenes could give is "
        f"{comparison.smallest_p:.2g}."
    )
    return {r.method: " ".join(r.letters) for r in comparison.rows}, wording, list(comparison.notes)


def _cell(section: Section, run: Run, column: tuple[str, str], best: float | None) -> dict[str, Any]:
    score = section.score(run, *column)
    if score is None or score["value"] is None:
        return {"text": "" if score is None else "–", "interval": "", "sort": "", "best": False}
    factor, unit = scale_of(column[0])
    digits = 2 if unit == "%" else 3
    interval = ""
    if score["low"] is not None and score["high"] is not None:
        interval = f"{factor * score['low']:.{digits}f} – {factor * score['high']:.{digits}f}"
    return {
        "text": f"{factor * score['value']:.{digits}f}",
        "interval": interval,
        "sort": repr(float(score["value"])),
        "best": score["value"] == best and run.method != "oracle",
    }


def _best(section: Section, metric: str, group: str) -> float | None:
    values = [
        s["value"]
        for r in section.runs
        if r.method != "oracle"
        and (s := section.score(r, metric, group)) is not None
        and s["value"] is not None
    ]
    if not values:
        return None
    return float(min(values) if metric in LOWER_IS_BETTER else max(values))


def _chance(section: Section, column: tuple[str, str]) -> str:
    factor, _ = scale_of(column[0])
    for run in section.runs:
        s = section.score(run, *column)
        if s is not None and s["chance"] is not None:
            return f"{factor * s['chance']:.2f}"
    return ""


def _conventions(section: Section) -> list[dict[str, Any]]:
    task = load_task(section.task)
    explain = getattr(task, "conventions", None)
    if explain is None:
        return []
    comparison = task.comparison("exact")
    tables: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for run in section.runs:
        records = [by[comparison] for by in run.unit_records.values() if comparison in by]
        if records:
            for title, steps in explain(records):
                tables.setdefault(title, {})[run.method] = list(steps)
    found = []
    for title, by in tables.items():
        steps = list(dict.fromkeys(name for s in by.values() for name, _ in s))
        rows = [
            {
                "step": step,
                "cells": [f"{100 * dict(s)[step]:.2f}" if step in dict(s) else "" for s in by.values()],
            }
            for step in steps
        ]
        found.append(
            {"title": f"{section.task}: {title}", "methods": [short(m, 24) for m in by], "rows": rows}
        )
    return found


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "method": run.method,
        "task": run.task,
        "card": card_rows(run),
        "manifest": json.dumps(run.manifest, indent=1, sort_keys=True),
    }
