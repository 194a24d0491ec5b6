# SPDX-License-Identifier: BSD-3-Clause
"""Text of strangers in lines: bounded, and an error with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats import file_io
from tiepoint.formats.file_io import check_lines, lines_of, read_bytes, read_lines
from tiepoint.formats.matches.table import read_table


def test_bytes_that_are_no_text_say_their_line() -> None:
    with pytest.raises(FormatError, match=r"x, line 2: .*not UTF-8"):
        lines_of(b"a\ncaf\xe9\n", "x")


def test_a_long_line_is_refused_before_its_fields_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_io, "MAX_LINE_CHARS", 100)
    path = tmp_path / "a.csv"
    path.write_text("x0,y0,x1,y1\n" + "1,2,3,4\n" * 50)
    check_lines(path)
    assert len(read_table(path)) == 50
    path.write_text("x0,y0,x1,y1\n" + "1,2,3,4\n" * 50 + "1," * 60)
    for read in (check_lines, read_lines, read_table):
        with pytest.raises(FormatError, match=r"line 52: is longer than the limit of 100 bytes"):
            read(path)


def test_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_io, "MAX_LINES", 10)
    with pytest.raises(FormatError, match="more lines than the limit of 10"):
        lines_of(b"\n" * 11, "x")


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, read_lines, check_lines):
        with pytest.raises(FormatError, match="is a pipe"):
            read(tmp_path / "pipe")
