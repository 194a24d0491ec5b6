# SPDX-License-Identifier: BSD-3-Clause
"""Read and write CSV tables with a header; escape spreadsheet formulas."""

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
"""Characters that make a spreadsheet evaluate the text that they start as a formula."""
_MARK = "'"
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\U0010ffff]")


def escape_formula(cell: Any) -> Any:
    r"""Prefix an apostrophe to text that a spreadsheet would evaluate as a formula.

    Text that starts with apostrophes before a formula gets one more, which `unescape_formula` removes.
    Control characters are escaped because a terminal would interpret them; tabs and line ends are not. All
    other values, including numbers and numeric text, are returned unchanged.

    >>> [escape_formula(cell) for cell in ("=1+1", "-0.5", -0.5, "sift", "'=x")]
    ["'=1+1", '-0.5', -0.5, 'sift', "''=x"]
    >>> escape_formula("a\x1b[2J")
    'a\\x1b[2J'
    """
    if isinstance(cell, str) and not cell.isprintable():
        cell = _CONTROL.sub(lambda match: printable(match[0]), cell)
    if isinstance(cell, str) and cell.lstrip(_MARK).startswith(FORMULA) and not _is_number(cell):
        return _MARK + cell
    return cell


def frame_csv(frame: pd.DataFrame) -> str:
    """Format a data frame as CSV. Numbers have full precision, and text is escaped by `escape_formula`."""
    escaped = frame.rename(columns=escape_formula)
    quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
    for name in escaped.columns:
        if escaped[name].dtype.kind not in "biufc":
            escaped[name] = [escape_formula(cell) for cell in escaped[name]]
            if any(isinstance(cell, str) and "\r" in cell for cell in escaped[name]):
                quoting = csv.QUOTE_NONNUMERIC
    return str(escaped.to_csv(index=False, lineterminator="\n", quoting=quoting))


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Format rows as CSV. Numbers have full precision, and text is escaped by `escape_formula`.

    >>> to_csv(["a", "b"], [[1, 0.5], ["x,y", None]])
    'a,b\n1,0.5\n"x,y",\n'
    """
    buffer = io.StringIO()
    plain = csv.writer(buffer, lineterminator="\n")
    quoted = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in (header, *rows):
        cells = [escape_formula(cell) for cell in row]
        # Python up to 3.12 does not quote a lone carriage return, and readers then end the row there.
        (quoted if any(isinstance(c, str) and "\r" in c for c in cells) else plain).writerow(cells)
    return buffer.getvalue()


def unescape_formula(text: str) -> str:
    """Undo `escape_formula` and return the original text.

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
    """Return the column names of a header row without surrounding spaces.

    Raise a `FormatError` for a duplicate name.

    >>> named_columns(["a", " b"], "x.csv")
    ['a', 'b']
    """
    columns = [name.strip() for name in names]
    if duplicates := [name for name, count in Counter(columns).items() if count > 1]:
        raise FormatError(path, f"duplicate column {duplicates[0]!r}; rename one", line=1)
    return columns


def csv_rows(lines: Sequence[str], path: str | Path, delimiter: str = ",") -> Iterator[list[str]]:
    """Yield the rows of CSV text. Raise a `FormatError` for a field longer than 131,072 characters.

    >>> list(csv_rows(["a,b", '"x,y",2'], "x.csv"))
    [['a', 'b'], ['x,y', '2']]
    """
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            raise FormatError(path, f"is not CSV ({e})", line=reader.line_num) from e
