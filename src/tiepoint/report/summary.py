# SPDX-License-Identifier: BSD-3-Clause
"""The first screen of the report: who wins, by how much, is it sure, at what cost; then a card a family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.amounts import count_text
from ..run.result import Run
from ..tasks.titles import FAMILIES
from .figures.figure import anchor, short
from .leaderboard import Leaderboard, value_text
from .runs.card import agrees, duration, times_differ
from .runs.sections import TaskSection

NAME_MOST = 40
MAX_SUMMARY_ROWS = 25
"""Rows of a family's table before it scrolls by itself."""

SURE = {True: "yes", False: "no", None: "not tested"}
Part = tuple[TaskSection, Leaderboard]


@dataclass(frozen=True)
class SummaryLine:
    """A line of the first screen: the best method of a task, its lead, whether that is sure, its cost."""

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
        """Whether the first is separated from the second, in one word."""
        return SURE[self.sure]


def summary_line(section: TaskSection, board: Leaderboard) -> SummaryLine | None:
    """The line of a section; None where no method has a value."""
    found = board.finding
    if found is None:
        return None
    runs = {section.names[r.id]: r for r in section.methods}
    first, second = runs.get(found.first), runs.get(found.second)
    score = None if first is None else section.score(first)
    unit = section.info.scale[1]
    value = found.value if score is None else value_text(section.info, score["value"])
    cost, note = cost_text(first, second, short(found.second, NAME_MOST))
    return SummaryLine(
        section.words,
        anchor(section.title),
        section.score_words,
        short(found.first, NAME_MOST),
        value + (f" {unit}" if unit else ""),
        found.lead,
        short(found.second, NAME_MOST),
        found.sure,
        found.why,
        cost,
        note,
    )


def cost_text(first: Run | None, second: Run | None, other: str) -> tuple[str, str]:
    """Time and bytes of a method in words, and how its time compares with that of another."""
    if first is None:
        return "", ""
    mine = first.manifest.efficiency
    parts = []
    if mine.get("time_s") is not None:
        parts.append(f"{_time(mine)} per {mine['per']}")
    if mine.get("bytes_per_descriptor") is not None:
        parts.append(count_text(mine["bytes_per_descriptor"], "byte"))
    if second is None or not parts:
        return ", ".join(parts), ""
    theirs = second.manifest.efficiency
    apart = times_differ(mine, theirs)
    if apart is None:
        return ", ".join(parts), ""
    if not apart:
        return ", ".join(parts), f"repeats do not tell its time from {other}'s"
    ratio = mine["time_s"] / theirs["time_s"]
    times = f"{ratio:.2g} times" if ratio >= 1 else f"1/{1 / ratio:.2g} of"
    return ", ".join(parts), f"{times} {other}'s time"


def _time(cost: Mapping[str, Any]) -> str:
    """The median time where repeats agree, else the range between the quartiles.

    >>> _time({"time_s": 2e-4, "time_quartiles_s": [1.5e-4, 3.2e-4], "repeats": 9})
    '150 to 320 µs'
    """
    if agrees(cost):
        return duration(cost["time_s"])
    (low, unit), (high, other) = (duration(t).split() for t in cost["time_quartiles_s"])
    if (low, unit) == (high, other):
        return f"{low} {unit}"
    return f"{low} to {high} {unit}" if unit == other else f"{low} {unit} to {high} {other}"


def headline(answers: Sequence[SummaryLine]) -> str:
    """Who leads most often, and in how many of these tasks it is sure; empty for a single task."""
    if len(answers) < 2:
        return ""
    led = Counter(a.first for a in answers)
    most = max(led.values())
    names = [name for name in led if led[name] == most]
    if most == 1 or len(names) > 2:
        sure = sum(a.sure is True for a in answers)
        lead = count_text(len(led), "method leads", "methods lead")
        return f"{lead} {len(answers)} tasks, in {sure} of them separated from the next."
    said = []
    for name in names:
        sure = sum(a.first == name and a.sure is True for a in answers)
        said.append(f"{name} leads {most} of {len(answers)} tasks, in {sure} of them separated from the next")
    return "; ".join(said) + "."


def families(parts: Sequence[Part]) -> list[tuple[str, list[Part]]]:
    """Sections by family, in the order of `FAMILIES`; others by name after them."""
    known = list(FAMILIES)
    names = sorted({s.definition.family for s, _ in parts})
    names.sort(key=lambda f: known.index(f) if f in known else len(known))
    return [(f, [p for p in parts if p[0].definition.family == f]) for f in names]


def family_table(parts: Sequence[Part]) -> Mapping[str, Any]:
    """Headline score of every method on every task of a family."""
    names = dict.fromkeys(r.name for _, t in parts for r in t.rows)
    by = [{r.name: r for r in t.rows} for _, t in parts]
    methods = {r.name: r.method for _, t in parts for r in t.rows}
    rows = [
        {
            "name": short(name, NAME_MOST),
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
