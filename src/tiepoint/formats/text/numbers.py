# SPDX-License-Identifier: BSD-3-Clause
"""Tables of numbers as text: the separator is found, every row must have the same number of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...core.errors import FormatError

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "blanks"}
_HARD_ROWS = 4096


def find_delimiter(line: str) -> str:
    """Separator of a line of numbers: ``;`` before ``,`` before tab, else blanks.

    >>> find_delimiter("0.5; 1.5"), find_delimiter("1 2"), find_delimiter("7")
    (';', ' ', ' ')
    """
    return next((d for d in (";", ",", "\t") if d in line.strip()), " ")


def parse_table(
    data: bytes | memoryview | NDArray[np.uint8],
    *,
    path: str | Path,
    dtype: DTypeLike = np.float32,
    delimiter: str | None = None,
    columns: int | None = None,
    first_line: int = 1,
) -> NDArray[Any]:
    r"""Parse a table of numbers, (rows, columns).

    Args:
        data: Text, perhaps with the mark of UTF-8; LF or CRLF, last line feed optional, blanks around numbers
            ignored, ``nan`` and ``inf`` in any case of letters allowed. No header.
        path: Named in errors.
        dtype: float32 (equal to ``np.float32(float(text))``) or float64 (equal to ``float(text)``).
        delimiter: One of comma, semicolon, tab, blank; None finds it on the first line.
        columns: Expected number of columns; None takes that of the first line.
        first_line: Line number of the first row, for errors.

    Raises:
        FormatError: Empty table, empty line, ragged row or a field that is no number, with its line.

    >>> parse_table(b"1;2.5\n3;-4e-1\n", path="x").tolist()
    [[1.0, 2.5], [3.0, -0.4000000059604645]]
    """
    from . import _number_loops as kernel

    buf = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    buf = buf[3:] if bytes(buf[:3]) == b"\xef\xbb\xbf" else buf
    rows, end, start = kernel.count_rows(buf)
    if rows == 0:
        raise FormatError(path, "the file is empty; expected one row of numbers per line")
    head = _first_line(buf[:end])
    sep = find_delimiter(head) if delimiter is None else delimiter
    if columns is None:
        columns = len(head.split()) if sep == " " else head.count(sep) + 1
    out = np.empty((rows, columns), dtype)
    exact = out.dtype != np.float32
    hard = np.empty((max(_HARD_ROWS, columns), 4), np.int64)
    row = 0
    code = 0 if sep == " " else ord(sep)
    # The last line is read from a copy that surely ends with a line feed.
    for text, last in ((buf, rows - 1), (np.append(buf[start:end], np.uint8(10)), rows)):
        pos = 0
        while True:
            row, pos, n_hard, status, col, lo, hi = kernel.read_rows(
                text, pos, code, row, last, out, exact, hard
            )
            for r, c, a, b in hard[:n_hard].tolist():
                with np.errstate(over="ignore"):
                    out[r, c] = float(bytes(text[a:b]))
            if status != kernel.HARD_FULL:
                break
        if status != kernel.OK:
            break
    if status != kernel.OK:
        found = bytes(text[lo : min(hi, lo + 60)]).decode("utf-8", "replace")
        by = _DELIMITERS.get(sep, repr(sep))
        amount = f"more than {columns}" if col > columns else str(col)
        reason = {
            kernel.EMPTY_LINE: "empty line; remove it",
            kernel.WRONG_COUNT: f"expected {columns} numbers separated by {by}, found {amount}",
            kernel.BAD_NUMBER: f"column {col + 1}: expected a number, then {by}, found {found!r}",
        }[status]
        raise FormatError(path, reason, line=first_line + row)
    return out


def _first_line(buf: NDArray[np.uint8]) -> str:
    size = 1 << 12
    while True:
        part = bytes(buf[:size])
        if b"\n" in part or size >= buf.size:
            return part.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        size *= 4
