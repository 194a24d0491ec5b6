# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that several pages show: the comparison of a section, its sentence, its first methods."""

from __future__ import annotations

from typing import Any

from ..model.errors import InputError
from ..report.compare.result import Comparison
from ..report.compare.runs import compare_runs
from ..report.runs.sections import Section, is_canary
from ..report.tables.leaderboard import value_text
from .library import Library

FIRST = 3


def comparison(library: Library, section: Section) -> tuple[Comparison | None, str]:
    """What `compare` prints for the runs of a section, made once; without one, why."""
    key = (section.task, section.dataset, section.protocol, section.metric, section.group)
    ids = tuple(r.id for r in section.runs)

    def make() -> tuple[Comparison | None, str]:
        words: dict[str, Any] = {"metric": section.metric, "group": section.group}
        try:
            return compare_runs(section.runs, protocol=section.protocol, **words), ""
        except InputError as e:
            return None, e.brief

    return library.made("comparison", (key, ids), make)


def found(library: Library, section: Section) -> str:
    """One sentence of what a section shows: the best method against the next."""
    made, why = comparison(library, section)
    tested = [] if made is None else [r for r in made.rows if r.tested and r.identical_to is None]
    if made is None or len(tested) < 2:
        return f"Methods are not compared: {why}." if why else "One method; nothing to compare it with."
    try:
        return made.answer(tested[0].method, tested[1].method)
    except InputError as e:
        return f"{e.brief}."


def first_rows(section: Section) -> list[dict[str, Any]]:
    """The first methods of a section with their score, and where it lies between 0 and the best, in %."""
    rows = [(r, s) for r in section.runs if not is_canary(r) and (s := section.score(r)) is not None]
    rows = [(r, s) for r, s in rows if s["value"] is not None][:FIRST]
    unit = section.info.scale[1]
    return [
        {
            "name": section.names[r.id],
            "id": r.id,
            "value": f"{value_text(section.info, s['value'])} {unit}".strip(),
            "bar": _bar(float(s["value"])) if unit == "%" else None,
        }
        for r, s in rows
    ]


def _bar(value: float) -> int:
    return round(100 * min(1.0, max(0.0, value)))
