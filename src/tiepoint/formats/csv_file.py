# SPDX-License-Identifier: BSD-3-Clause
"""Tables with names as CSV: rows of strangers' files, cells that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..model.errors import FormatError

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins with one of these is run by spreadsheets."""
_MARK = "'"


def defused(cell: Any) -> Any:
    """A cell as it is written: a text that a spreadsheet would run gets an apostrophe before it.

    So does a text that has an apostrophe before such a beginning already: `undefused` takes one away.
    Numbers, also negative ones, and other values stay.

    >>> defused("=1+1"), defused("-0.5"), defused(-0.5), defused("sift"), defused("'=x")
    ("'=1+1", '-0.5', -0.5, 'sift', "''=x")
    """
    if isinstance(cell, str) and cell.lstrip(_MARK).startswith(FORMULA) and not _is_number(cell):
        return _MARK + cell
    return cell


def undefused(text: str) -> str:
    """The text that `defused` was given.

    >>> [undefused(defused(t)) for t in ("=1+1", "'=1", "''@", "'a", "-3", "")]
    ['=1+1', "'=1", "''@", "'a", '-3', '']
    """
    return text[1:] if text.startswith(_MARK) and text.lstrip(_MARK).startswith(FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def csv_rows(lines: Sequence[str], path: str | Path, delimiter: str = ",") -> Iterator[list[str]]:
    """The rows of CSV text; a field of more than 131,072 characters is an error with its line.

    >>> list(csv_rows(["a,b", '"x,y",2'], "x.csv"))
    [['a', 'b'], ['x,y', '2']]
    """
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as e:
            raise FormatError(path, f"is not CSV ({e})", line=reader.line_num) from e
        if row is None:
            return
        yield row
