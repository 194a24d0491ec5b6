# SPDX-License-Identifier: BSD-3-Clause
"""The report as one HTML file: no network, no clock, the same bytes for the same store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from ..._version import __version__
from ...model.errors import InputError
from ...run.result import Run
from ..figures.figure import anchor, short
from ..figures.plot import figures_of
from ..runs.card import card_rows
from ..runs.names import distinct_names
from ..runs.sections import Section, sections
from ..tables.conventions import conventions
from ..tables.leaderboard import Leaderboard, cell, heading, leaderboard
from .gallery import gallery
from .match_gallery import match_gallery
from .pair_gallery import pair_gallery

Progress = Callable[[str, int, int], None]
SHOWN_FIGURES = 6
"""Figures of a task that are open; the others wait behind a click."""


MOST_MANIFESTS = 500
"""Runs up to which a page has their whole manifests; of more, the keys of records are left out."""


class Made(Sequence[Any]):
    """A sequence whose members are made when they are looked at, so that no two are in memory at once."""

    def __init__(self, given: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._given, self._make = given, make

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, i: Any) -> Any:
        return self._make(self._given[i])

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._given)


def render(runs: Sequence[Run], *, title: str, progress: Progress | None = None) -> str:
    """The page. Names are escaped wherever they come from; figures are SVG in the page."""
    return "".join(rendered(runs, title=title, progress=progress))


def rendered(runs: Sequence[Run], *, title: str, progress: Progress | None = None) -> Iterator[str]:
    """The page piece by piece."""
    if not runs:
        raise InputError("there are no finished runs to report; run a method on a task first")
    from jinja2 import Environment

    found = sections(runs)
    boards: list[tuple[Section, Leaderboard]] = []
    tasks, explained, missed = [], [], []
    for i, section in enumerate(found):
        if progress:
            progress("report", i, len(found))
        board = leaderboard(section)
        boards.append((section, board))
        tasks.append(_section(section, board))
        if section.more:
            continue
        if tables := conventions(section):
            explained.append({"task": section.title, "tables": tables})
        misses = gallery(section) or match_gallery(section) or pair_gallery(section)
        if misses is not None:
            missed.append(misses)
    if progress:
        progress("report", len(found), len(found))
    templates = files("tiepoint.report") / "templates"
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((templates / "report.html").read_text("utf-8"))
    ordered = sorted(runs, key=lambda r: (r.task, r.method, r.id))
    names = distinct_names(ordered)
    whole = len(ordered) <= MOST_MANIFESTS
    stream = template.stream(
        title=title,
        css=(templates / "report.css").read_text("utf-8"),
        js=(templates / "report.js").read_text("utf-8"),
        overview=_overview(boards) if len(boards) > 1 else [],
        sections=tasks,
        conventions=explained,
        gallery=missed,
        runs=Made(list(zip(ordered, names, strict=True)), lambda given: _run(*given, whole=whole)),
        method_count=len({r.method for r in runs}),
        task_count=len({s.task for s in found}),
        bibtex="\n\n".join(dict.fromkeys(c for s in found for c in s.definition.info.cite)),
        version=__version__,
    )
    stream.enable_buffering(1000)
    return stream


def _overview(boards: Sequence[tuple[Section, Leaderboard]]) -> list[dict[str, Any]]:
    """Headline score of every method on every task, a table a family of tasks."""
    families = dict.fromkeys(s.definition.family for s, _ in boards)
    return [_family([b for b in boards if b[0].definition.family == f]) for f in families]


def _family(tables: Sequence[tuple[Section, Leaderboard]]) -> dict[str, Any]:
    names = dict.fromkeys(r.name for _, t in tables for r in t.rows)
    by = [{r.name: r for r in t.rows} for _, t in tables]
    methods = {r.name: r.method for _, t in tables for r in t.rows}
    rows = [
        {
            "name": short(name, 60),
            "method": methods[name],
            "canary": any(name in t and t[name].canary for t in by),
            "cells": [t[name].cells[0] if name in t else None for t in by],
        }
        for name in names
    ]
    heads = [{"task": s.title, "anchor": anchor(s.title), "score": t.headings[0]} for s, t in tables]
    return {"heads": heads, "rows": sorted(rows, key=lambda r: bool(r["canary"]))}


def _section(section: Section, table: Leaderboard) -> dict[str, Any]:
    drawn = figures_of(section)
    return {
        "task": section.title,
        "anchor": anchor(section.title),
        "protocol": section.protocol,
        "metric": table.columns[0][0],
        "group": table.columns[0][1],
        "about": section.definition.metric(table.columns[0][0]).sentence(table.columns[0][1]),
        "metrics": _metrics(section, table),
        "table": table,
        "short": short,
        "every": _every(section),
        "figures": drawn[:SHOWN_FIGURES],
        "more": drawn[SHOWN_FIGURES:],
    }


def _metrics(section: Section, table: Leaderboard) -> list[tuple[str, str]]:
    """What every metric of a section is, once each; the score it is sorted by stands above its table."""
    shown = [*table.columns[1:], *(c for c in section.columns if c[1] == "all"), *section.columns]
    task, first = section.definition, table.columns[0][0]
    found: dict[str, tuple[str, str]] = {}
    for metric, group in shown:
        if metric != first and metric not in found and (words := task.metric(metric).sentence(group)):
            found[metric] = (heading(task, metric, "all"), words)
    return list(found.values())


def _every(section: Section) -> dict[str, Any]:
    """All scores that are not of one scene: a row a score, a column a method."""
    runs, task = section.runs, section.definition

    def row(column: tuple[str, str]) -> dict[str, Any]:
        info = task.metric(column[0])
        cells = [cell(info, section.score(run, *column)) for run in runs]
        return {"name": heading(task, *column), "cells": cells}

    rows = Made(section.columns, row)
    return {"methods": [(r.method, short(section.names[r.id], 24)) for r in runs], "rows": rows}


def _run(run: Run, name: str, *, whole: bool = True) -> dict[str, Any]:
    manifest = run.manifest.plain()
    if not whole:
        manifest["units"] = (
            f"{len(manifest['units'])} units; their keys are left out of a page of so many runs"
        )
    return {
        "id": run.id,
        "method": run.method,
        "name": name,
        "task": run.task,
        "card": card_rows(run),
        "manifest": json.dumps(manifest, indent=1, sort_keys=True),
    }
