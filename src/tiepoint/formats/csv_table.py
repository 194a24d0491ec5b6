# SPDX-License-Identifier: BSD-3-Clause
"""Tables with names as CSV: rows of strangers' files, cells that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import FormatError
from ..core.formatting import printable

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins with one of these is run by spreadsheets."""
_MARK = "'"
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\U0010ffff]")


def escape_formula(cell: Any) -> Any:
    r"""A cell as it is written: a text that a spreadsheet would run gets an apostrophe before it.

    So does a text that has an apostrophe before such a beginning already: `unescape_formula` takes one away.
    Control characters, which would reach the terminal of whoever looks at the file, are spelled out; tabs and
    ends of lines stay. Numbers, also negative ones, and other values stay.

    >>> escape_formula("=1+1"), escape_formula("-0.5"), escape_formula(-0.5), escape_formula("sift"), escape_formula("'=x")
    ("'=1+1", '-0.5', -0.5, 'sift', "''=x")
    >>> escape_formula("a\x1b[2J")
    'a\\x1b[2J'
    """
    if isinstance(cell, str) and not cell.isprintable():
        cell = _CONTROL.sub(lambda found: printable(found[0]), cell)
    if isinstance(cell, str) and cell.lstrip(_MARK).startswith(FORMULA) and not _is_number(cell):
        return _MARK + cell
    return cell


def frame_csv(frame: pd.DataFrame) -> str:
    """A data frame as CSV: names of columns and cells with text `escape_formula`, numbers with all their digits."""
    made = frame.rename(columns=escape_formula)
    quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
    for name in made.columns:
        if made[name].dtype.kind not in "biufc":
            made[name] = [escape_formula(cell) for cell in made[name]]
            if any(isinstance(cell, str) and "\r" in cell for cell in made[name]):
                quoting = csv.QUOTE_NONNUMERIC
    return str(made.to_csv(index=False, lineterminator="\n", quoting=quoting))


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""CSV text; numbers with all their digits, text that a spreadsheet would run `escape_formula`.

    >>> to_csv(["a", "b"], [[1, 0.5], ["x,y", None]])
    'a,b\n1,0.5\n"x,y",\n'
    """
    buffer = io.StringIO()
    plain = csv.writer(buffer, lineterminator="\n")
    quoted = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in (header, *rows):
        cells = [escape_formula(cell) for cell in row]
        # Python up to 3.12 leaves a lone carriage return without quotes, and readers end the row there.
        (quoted if any(isinstance(c, str) and "\r" in c for c in cells) else plain).writerow(cells)
    return buffer.getvalue()


def unescape_formula(text: str) -> str:
    """The text that `escape_formula` was given.

    >>> [unescape_formula(escape_formula(t)) for t in ("=1+1", "'=1", "''@", "'a", "-3", "")]
    ['=1+1', "'=1", "''@", "'a", '-3', '']
    """
    return text[1:] if text.startswith(_MARK) and text.lstrip(_MARK).startswith(FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def named_columns(names: Sequence[str], path: str | Path) -> list[str]:
    """The names of a first line without blanks around them; one that is there twice is an error.

    >>> named_columns(["a", " b"], "x.csv")
    ['a', 'b']
    """
    found = [name.strip() for name in names]
    if twice := [name for name, count in Counter(found).items() if count > 1]:
        raise FormatError(path, f"has the column {twice[0]!r} twice", line=1)
    return found


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
