# SPDX-License-Identifier: BSD-3-Clause
"""Parse files of comma-separated identifiers into integer arrays.

The identifier files of HPatches (pairs, queries, rankings, task CSVs, label columns) have rows of words,
numbers, images ``SEQ.IM`` and patches ``SEQ.IM.IDX``. The parser replaces each distinct name by its index in
a table, and reads a million rows in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError

_KINDS = {"w": 0, "n": 1, "i": 2, "p": 3, "l": 4}
_DESCRIPTIONS = {
    "w": "a name without dots or blanks",
    "n": "a non-negative integer",
    "i": "an image SEQ.IM",
    "p": "a patch SEQ.IM.IDX (IDX counts from 0)",
    "l": "a label, 0 or 1",
}


@dataclass(frozen=True)
class FieldTable:
    """Fields of a text file, in reading order.

    `table` has the distinct names in order of first appearance. For field f, ``table[names[f]]`` is the name
    of a word, image or patch, and ``numbers[f]`` the value of a number, label or patch index. Row r has the
    fields ``offsets[r]:offsets[r + 1]``.
    """

    table: tuple[str, ...]
    names: NDArray[np.int32]
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1


def scan_fields(
    data: bytes | memoryview, pattern: str, *, path: str | Path, repeat: bool = False, first_line: int = 1
) -> FieldTable:
    r"""Parse rows whose columns follow `pattern`.

    Args:
        data: Text with LF or CRLF; the last line feed is optional. Blanks around fields are ignored.
        pattern: One letter per column: w word, n number, i image, p patch, l label (0 or 1).
        path: File name for errors.
        repeat: Whether rows may have more fields of the last column's type.
        first_line: Line number of the first row, for errors.

    Raises:
        FormatError: A row does not follow the pattern. The error names its line and column.

    >>> f = scan_fields(b"v_wall.ref.3, v_wall.e1.3\n", "pp", path="x")
    >>> f.table, f.numbers.tolist()
    (('v_wall.ref', 'v_wall.e1'), [3, 3])
    """
    from . import _identifier_loops as kernel

    buf = np.frombuffer(data, np.uint8)
    n_lines = int(np.count_nonzero(buf == 10)) + 1
    n_fields = int(np.count_nonzero(buf == 44)) + n_lines
    kinds = np.array([_KINDS[c] for c in pattern], np.int64)
    capacity = 1 << 14
    while True:
        names = np.empty(n_fields, np.int32)
        numbers = np.empty(n_fields, np.int64)
        offsets = np.zeros(n_lines + 1, np.int64)
        slots = np.full(4 * capacity, -1, np.int32)
        starts, ends = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        rows, n_names, status, col, lo, hi = kernel.scan(
            buf, kinds, repeat, names, numbers, offsets, slots, starts, ends
        )
        if status != kernel.TABLE_FULL:
            break
        capacity *= 4
    if status != kernel.OK:
        found = bytes(buf[lo:hi][:80]).decode("utf-8", "replace")
        count = len(pattern)
        expected = _DESCRIPTIONS[pattern[min(col, count - 1)]]
        reason = {
            kernel.EMPTY_LINE: "empty line; remove it",
            kernel.TOO_FEW: f"expected {count} comma-separated fields, found {col}",
            kernel.TOO_MANY: f"expected {count} comma-separated fields, found more (from {found!r} on)",
            kernel.BAD_FIELD: f"field {col + 1}: expected {expected}, found {found!r}",
        }[status]
        raise FormatError(path, reason, line=first_line + rows)
    try:
        table = tuple(bytes(buf[a:b]).decode() for a, b in zip(starts[:n_names], ends[:n_names], strict=True))
    except UnicodeDecodeError as e:
        raise FormatError(path, "is not a text file (not UTF-8); save it as UTF-8") from e
    n = int(offsets[rows])
    return FieldTable(table, names[:n], numbers[:n], offsets[: rows + 1])


def split_first_line(data: bytes) -> tuple[str, memoryview]:
    r"""Return the first line of a text, stripped, and the bytes after that line.

    >>> split_first_line(b"s,idx\na,1\n")[0]
    's,idx'
    """
    end = data.find(b"\n")
    end = len(data) if end < 0 else end
    return data[:end].decode("utf-8", "replace").strip(), memoryview(data)[end + 1 :]
