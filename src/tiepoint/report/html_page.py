# SPDX-License-Identifier: BSD-3-Clause
"""Render the report as one self-contained, reproducible HTML file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from .._version import __version__
from ..core.errors import InputError
from ..core.formatting import count_text
from ..run.result import Run
from ..stats.paired import SIGN_FLIP
from ..tasks.info import FAMILIES, metric_info
from .cells import score_cell, value_text
from .convention_tables import conventions
from .figures.figure import anchor, short
from .figures.intervals import intervals_figure
from .figures.plot import figures_of
from .galleries import gallery, match_gallery, pair_gallery
from .leaderboard import Leaderboard, column_title, leaderboard
from .method_pair import best_two
from .paper_latex import paper_texts
from .paper_tables import bibtex, combine_sections, task_table
from .runs.card import card_rows, conditions, duration, times_differ
from .runs.lazy_records import try_part
from .runs.names import DisplayNames, distinct_names
from .runs.sections import TaskSection, sections

MAX_NAME_CHARS = 40
MAX_SUMMARY_ROWS = 25
"""Number of rows from which the table of a task family is scrollable."""

SURE = {True: "yes", False: "no", None: "not tested"}
SCRIPTS = ("tables.js", "copy.js", "report.js")
Part = tuple[TaskSection, Leaderboard]


@dataclass(frozen=True)
class SummaryLine:
    """A row of the summary: the best method of a task, its lead, its significance and its cost."""

    task: str
    anchor: str
    score: str
    first: str
    value: str
    lead: str
    over: str
    sure: bool | None
    why: str
    cost: str
    cost_note: str

    @property
    def verdict(self) -> str:
        """Text that states whether the first method is separated from the second."""
        return SURE[self.sure]


def summary_line(section: TaskSection, board: Leaderboard) -> SummaryLine | None:
    """Return the summary row of a section. None if no method has a value."""
    found = board.finding
    if found is None:
        return None
    runs = {section.names[r.id]: r for r in section.methods}
    first, second = runs.get(found.first), runs.get(found.second)
    score = None if first is None else section.score(first)
    unit = section.info.scale[1]
    value = found.value if score is None else value_text(section.info, score.value)
    cost, note = cost_text(first, second, short(found.second, MAX_NAME_CHARS))
    return SummaryLine(
        section.words,
        anchor(section.title),
        section.score_words,
        short(found.first, MAX_NAME_CHARS),
        value + (f" {unit}" if unit else ""),
        found.lead,
        short(found.second, MAX_NAME_CHARS),
        found.sure,
        found.why,
        cost,
        note,
    )


def cost_text(first: Run | None, second: Run | None, other: str) -> tuple[str, str]:
    """Describe the time and descriptor bytes of a method, and compare its time with another method."""
    if first is None:
        return "", ""
    own = first.manifest.efficiency
    parts = []
    if own.get("time_s") is not None:
        parts.append(f"{duration(own['time_s'])} per {own['per']}")
    if own.get("bytes_per_descriptor") is not None:
        parts.append(count_text(own["bytes_per_descriptor"], "byte"))
    if own.get("time_s") is not None and own.get("peak_memory_bytes"):
        parts.append(f"{own['peak_memory_bytes'] / 2**20:.1f} MiB")
    cost = ", ".join(parts)
    theirs = second.manifest.efficiency if second is not None else {}
    differ = times_differ(own, theirs)
    if differ is None:
        both = own.get("time_s") is not None and theirs.get("time_s") is not None
        other_conditions = both and conditions(own) != conditions(theirs)
        return cost, f"* {other} was timed under other conditions" if other_conditions else ""
    if not differ:
        return cost, f"its times overlap with {other}'s"
    ratio = own["time_s"] / theirs["time_s"]
    times = f"{ratio:.2g} times" if ratio >= 1 else f"1/{1 / ratio:.2g} of"
    return cost, f"{times} {other}'s time"


def headline(answers: Sequence[SummaryLine]) -> str:
    """Describe which method leads most tasks, and how often significantly. Empty for a single task."""
    if len(answers) < 2:
        return ""
    led = Counter(a.first for a in answers)
    most = max(led.values())
    names = [name for name in led if led[name] == most]
    if most == 1 or len(names) > 2:
        sure = sum(a.sure is True for a in answers)
        lead = count_text(len(led), "method leads", "methods lead")
        return f"{lead} {len(answers)} tasks, in {sure} of them separated from the next method."
    texts = []
    for name in names:
        sure = sum(a.first == name and a.sure is True for a in answers)
        texts.append(
            f"{name} leads {most} of {len(answers)} tasks and is separated from the next method in {sure}"
        )
    return "; ".join(texts) + "."


def families(parts: Sequence[Part]) -> list[tuple[str, list[Part]]]:
    """Group sections by family, in the order of `FAMILIES`, then by name."""
    known = list(FAMILIES)
    names = sorted({s.definition.family for s, _ in parts})
    names.sort(key=lambda f: known.index(f) if f in known else len(known))
    return [(f, [p for p in parts if p[0].definition.family == f]) for f in names]


def family_table(parts: Sequence[Part]) -> Mapping[str, Any]:
    """Return a table of the headline score of each method on each task of a family."""
    names = dict.fromkeys(r.name for _, t in parts for r in t.rows)
    by = [{r.name: r for r in t.rows} for _, t in parts]
    methods = {r.name: r.method for _, t in parts for r in t.rows}
    rows = [
        {
            "name": short(name, MAX_NAME_CHARS),
            "method": methods[name],
            "canary": any(name in t and t[name].canary for t in by),
            "cells": [t[name].cells[0] if name in t else None for t in by],
        }
        for name in names
    ]
    heads = [
        {"task": s.words, "anchor": anchor(s.title), "score": t.titles[0], "name": s.metric} for s, t in parts
    ]
    rows.sort(key=lambda r: bool(r["canary"]))
    return {"heads": heads, "rows": rows, "tall": len(rows) > MAX_SUMMARY_ROWS}


Progress = Callable[[str, int, int], None]
MAX_SHOWN_FIGURES = 6
"""Number of figures in the details of a task. Further figures are in a second collapsible section."""

SMALL = "canaries are not tested"
"""Prefix of minor notes, which are printed below the table."""

MAX_SUMMARY_METHODS = 12
"""Maximum number of methods in the summary figure of a task. A figure in the details has all methods."""

MAX_MANIFESTS = 500
"""Number of runs above which the manifests in a page omit the record keys."""


class LazySequence(Sequence[Any]):
    """A sequence that computes its members on access and does not store them."""

    def __init__(self, given: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._given, self._make = given, make

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, i: Any) -> Any:
        return self._make(self._given[i])

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._given)


def render_page(
    runs: Sequence[Run], *, title: str, progress: Progress | None = None, test: str = SIGN_FLIP
) -> str:
    """Return the HTML page. Names are escaped; figures are inline SVG."""
    return "".join(iter_page(runs, title=title, progress=progress, test=test))


def iter_page(
    runs: Sequence[Run], *, title: str, progress: Progress | None = None, test: str = SIGN_FLIP
) -> Iterator[str]:
    """Yield the HTML page in chunks. `test` compares the methods of each task."""
    if not runs:
        raise InputError("there are no finished runs to report; run a method on a task first")
    from jinja2 import Environment, PackageLoader

    found = sections(runs, test=test)
    parts: list[Part] = []
    tasks: dict[str, dict[str, Any]] = {}
    for i, section in enumerate(found):
        if progress:
            progress("report", i, len(found))
        board = leaderboard(section)
        parts.append((section, board))
        tasks[section.title] = _section(section, board)
    if progress:
        progress("report", len(found), len(found))
    templates = files("tiepoint.report") / "templates"
    loader = PackageLoader("tiepoint.report", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    ordered = sorted(runs, key=lambda r: (r.task, r.method, r.id))
    names = distinct_names(ordered)
    whole = len(ordered) <= MAX_MANIFESTS
    by_family = families(parts)
    answers = [a for _, members in by_family for part in members if (a := summary_line(*part)) is not None]
    tables = [
        *combine_sections(found, DisplayNames(), least=2),
        *(table for s, _ in parts if (table := tasks[s.title]["paper_table"]) is not None),
    ]
    stream = environment.get_template("report.html").stream(
        title=title,
        css=(templates / "report.css").read_text("utf-8"),
        js="".join((templates / name).read_text("utf-8") for name in SCRIPTS),
        answers=answers,
        headline=headline(answers),
        families=[_family(name, members, tasks) for name, members in by_family],
        short=short,
        runs=LazySequence(list(zip(ordered, names, strict=True)), lambda given: _run(*given, whole=whole)),
        method_count=len({r.method for r in runs}),
        task_count=len({s.task for s in found}),
        paper=paper_texts(tables, runs),
        bibtex=bibtex(runs),
        version=__version__,
    )
    stream.enable_buffering(1000)
    return stream


def _family(name: str, parts: Sequence[Part], tasks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template data of a family: its tasks, and a table if there are several."""
    return {
        "title": FAMILIES.get(name, name),
        "anchor": anchor(f"family {name}"),
        "headline": headline([a for part in parts if (a := summary_line(*part)) is not None]),
        "table": family_table(parts) if len(parts) > 1 else None,
        "tasks": [tasks[s.title] for s, _ in parts],
    }


def _section(section: TaskSection, table: Leaderboard) -> dict[str, Any]:
    skipped: list[str] = []
    drawn = figures_of(section, skipped)
    if len(section.methods) <= MAX_SUMMARY_METHODS:
        drawn = [f for f in drawn if f.kind != "scores"]
    # A score at the default threshold duplicates the score without a threshold.
    columns = [i for i, name in enumerate(table.titles) if name not in table.titles[:i]]
    explained, misses, pair = [], None, None
    if not section.more:
        explained = try_part("steps between protocols", partial(conventions, section), skipped) or []
        misses = try_part("pictures of failures", partial(_pictures, section), skipped)
        pair = try_part("two methods", partial(best_two, section), skipped)
    paper = None
    if section.methods and not section.no_ranking:
        paper = try_part("table for the paper", partial(task_table, section, DisplayNames()), skipped)
    metric, group = table.columns[0]
    every = _every(section)
    inside = [f"table of {count_text(len(table.rows), 'run')}"]
    inside += [count_text(len(drawn), "figure")] if drawn else []
    inside += ["protocols"] if explained else []
    inside += ["what most methods miss"] if misses else []
    inside += ["the best two methods"] if pair else []
    return {
        "paper_table": paper,
        "paper": None if paper is None else paper_texts([paper], section.methods),
        "task": section.task,
        "words": section.words,
        "anchor": anchor(section.title),
        "protocol": section.protocol,
        "score": section.score_words,
        "metric": metric,
        "group": group,
        "ranks": not section.no_ranking,
        "question": section.definition.info.sentence,
        "about": metric_info(section.definition.info, metric).sentence(group),
        "metrics": _metrics(section, table),
        "table": table,
        "columns": columns,
        "notes": [*(n for n in table.notes if not n.startswith(SMALL) or not table.wording), *skipped],
        "small_notes": [n for n in table.notes if n.startswith(SMALL)],
        "every": every,
        "inside": ", ".join([*inside, count_text(len(every["rows"]), "score")]),
        "summary": intervals_figure(section, most=MAX_SUMMARY_METHODS),
        "figures": drawn[:MAX_SHOWN_FIGURES],
        "more": drawn[MAX_SHOWN_FIGURES:],
        "conventions": explained,
        "misses": misses,
        "pair": pair,
    }


def _pictures(section: TaskSection) -> dict[str, Any] | None:
    if not section.definition.info.pictures_in_reports:
        return None
    return gallery(section) or match_gallery(section) or pair_gallery(section)


def _metrics(section: TaskSection, table: Leaderboard) -> list[tuple[str, str]]:
    """Return title and explanation of each metric of a section, except the headline metric."""
    shown = [*table.columns[1:], *(c for c in section.columns if c[1] == "all"), *section.columns]
    task, first = section.definition, table.columns[0][0]
    found: dict[str, tuple[str, str]] = {}
    for metric, group in shown:
        if (
            metric != first
            and metric not in found
            and (words := metric_info(task.info, metric).sentence(group))
        ):
            found[metric] = (column_title(task, metric, "all"), words)
    return list(found.values())


def _every(section: TaskSection) -> dict[str, Any]:
    """Return all scores except those of single scenes: one row per score, one column per method."""
    runs, task = section.runs, section.definition

    def row(column: tuple[str, str]) -> dict[str, Any]:
        info = metric_info(task.info, column[0])
        cells = [score_cell(info, section.score(run, *column)) for run in runs]
        return {"words": column_title(task, *column), "name": " ".join(column), "cells": cells}

    rows = LazySequence(section.columns, row)
    return {"methods": [(r.method, short(section.names[r.id], 24)) for r in runs], "rows": rows}


def _run(run: Run, name: str, *, whole: bool = True) -> dict[str, Any]:
    manifest = run.manifest.plain()
    if not whole:
        manifest["units"] = (
            f"{count_text(len(manifest['units']), 'unit')}; keys are omitted on a page of so many runs"
        )
    return {
        "id": run.id,
        "method": run.method,
        "name": name,
        "task": run.task,
        "card": card_rows(run),
        "manifest": json.dumps(manifest, indent=1, sort_keys=True),
    }
