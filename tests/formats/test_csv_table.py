# SPDX-License-Identifier: BSD-3-Clause
"""Cells that a spreadsheet would run are written as text, numbers stay numbers, and names come back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.csv_table import FORMULA, csv_rows, escape_formula, frame_csv, to_csv, unescape_formula
from tiepoint.run.importers.hpatches_matlab import read_score_table as read_matlab
from tiepoint.run.importers.workbench.importer import read_workbench

NAMES = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=1",
    "''=1",
    "sift",
    "-",
    "'x",
    "a=b",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_defused_and_come_back(name: str) -> None:
    written = escape_formula(name)
    assert not written.startswith(FORMULA)
    assert unescape_formula(written) == name


def test_control_characters_are_spelled_out() -> None:
    hostile = "a\x1b]0;title\x07\x9b2J\x00b"
    assert escape_formula(hostile) == "a\\x1b]0;title\\x07\\x9b2J\\x00b"
    assert escape_formula("ñ 描述符\tb\nc") == "ñ 描述符\tb\nc"
    frame = pd.DataFrame({"method": [hostile, f"={hostile}"], "value": [1.0, 2.0]})
    for written in (frame_csv(frame), to_csv(["method"], [[hostile], [f"={hostile}"]])):
        assert not [c for c in written if not c.isprintable() and c not in "\n"]
        assert "'=a\\x1b" in written


def test_numbers_stay_numbers() -> None:
    given = [-0.5, 3, None, True, "-0.5", "+1e-3", "-inf"]
    assert [escape_formula(v) for v in given] == given


def test_what_is_written_has_no_formula(tmp_path: Path) -> None:
    text = to_csv(["=head", "value"], [[name, -1.5] for name in NAMES])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["'=head", "value"]
    assert [r[1] for r in rows[1:]] == ["-1.5"] * len(NAMES)
    assert [unescape_formula(r[0]) for r in rows[1:]] == NAMES
    text = frame_csv(pd.DataFrame({"method": NAMES, "value": [-0.25] * len(NAMES)}))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [unescape_formula(r[0]) for r in rows[1:]] == NAMES
    assert not any(r[0].startswith(FORMULA) for r in rows)
    assert [r[1] for r in rows[1:]] == ["-0.25"] * len(NAMES)


def test_importers_take_the_mark_away(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(to_csv(["descriptor_type", "true_map_micro"], [["=1+1", 0.5], ["@x", 0.25]]))
    assert [row["name"] for row in read_workbench(path)[0]] == ["=1+1", "@x"]
    head = ["descriptor", "split", "geom_noise", "method", "mauc", "map"]
    path.write_text(to_csv(head, [["-x", "a", "easy", "m", 0.5, 0.5]]))
    assert [r.name for r in read_matlab(path, split=None, tasks=None)] == ["-x"]


def test_a_field_without_end_says_its_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"line 2: is not CSV"):
        list(csv_rows(["a,b", "x" * 200_000], "x.csv"))
    path = tmp_path / "x.csv"
    path.write_text("descriptor,split,geom_noise,method,mauc,map\nx,a,easy,m,0.5," + "1" * 200_000 + "\n")
    with pytest.raises(FormatError, match=r"line 2: is not CSV"):
        read_matlab(path, split=None, tasks=None)
