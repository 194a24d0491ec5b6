# SPDX-License-Identifier: BSD-3-Clause
"""The score table: columns that do not fit are counted, cells are never wrapped, the best are marked."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from tiepoint.report.cells import ScoreCell
from tiepoint.report.terminal.score_table import ScoreColumn, ScoreTable

NAMES = ["sift", "rootsift", "a much longer name of a method"]


def column(heading: str, *texts: str, marks: bool = False) -> ScoreColumn:
    cells = [ScoreCell(t, "10.0, 20.0") for t in texts]
    marked = [
        ScoreCell(t, "10.0, 20.0", best=k == 0, tied=k == 1, caution=k == 2) for k, t in enumerate(texts)
    ]
    return ScoreColumn(heading, cells, (lambda: (marked, ["a note"])) if marks else None, "1.00")


def table(
    columns: int = 4, *, marks: bool = False, notes: tuple[str, ...] = (), more: bool = False
) -> ScoreTable:
    values = ("12.00", "34.00", "5.00")
    listed = [column(f"metric_{k}", *values, marks=marks) for k in range(columns)]
    keys = [("method", NAMES), ("run", ["0123abcd"] * 3)]
    return ScoreTable("task, protocol exact", keys, listed, ["percent"], notes, more=more)


def printed(thing: ScoreTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(thing)
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [45, 60, 80, 100, 130, 200])
def test_table_of_any_width_never_wraps_and_counts_dropped_columns(width: int) -> None:
    lines = printed(table(), width)
    assert all(cell_len(line) <= width for line in lines)
    rows = lines[2:5]
    shown = rows[0].count("12.00")
    assert shown >= 1
    assert [row.count("10.0, 20.0") for row in rows] == [shown] * 3
    dropped = 4 - shown + ("run" not in lines[1].split())
    count = {0: "", 1: "1 more column:"}.get(dropped, f"{dropped} more columns:")
    assert any(count in line for line in lines[5:])
    assert ("more column" in " ".join(lines)) == bool(dropped)


def test_narrow_table_cuts_names_not_scores() -> None:
    lines = printed(table(), 40)
    assert lines[4].startswith("a much lon")
    assert "…" in lines[4]
    assert "5.00 [10.0, 20.0]" in lines[4]


def test_marks_stand_behind_scores_and_columns_stay_aligned() -> None:
    lines = printed(table(1, marks=True), 100)
    assert lines[2].endswith("12.00 [10.0, 20.0] +")
    assert lines[3].endswith("34.00 [10.0, 20.0] =")
    assert lines[4].endswith("5.00 [10.0, 20.0] *")
    ends = {line.index("]") for line in lines[2:5]}
    assert len(ends) == 1
    assert "+ best, = not separated from the best" in lines[6]
    assert "a note" in lines[7]


def test_notes_take_three_lines_and_all_with_more() -> None:
    notes = tuple(f"note {k}: " + "word " * 30 for k in range(4))
    few = printed(table(9, notes=notes), 100)
    assert len(few) == 1 + 1 + 3 + 1 + 3
    assert few[-3].startswith("percent; ")
    assert few[-3].endswith("more columns: tiepoint show RUN")
    assert few[-1].endswith(" …")
    narrow = printed(table(9, notes=notes), 40)
    assert narrow[-2].endswith(" …")
    assert narrow[-1].endswith("more columns: tiepoint show RUN")
    full = " ".join(printed(table(9, notes=notes, more=True), 100))
    assert "note 3" in full


def test_hostile_names_are_escaped() -> None:
    bad = ScoreTable("x", [("method", ["a\x1b[31mb"])], [column("m", "1.00")])
    assert "a\\x1b[31mb" in printed(bad, 80)[2]
