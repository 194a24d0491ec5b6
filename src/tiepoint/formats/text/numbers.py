# SPDX-License-Identifier: BSD-3-Clause
"""Read and write text files of numbers: tables, homographies and frames (affine regions)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...core.errors import FormatError, InputError
from ...core.regular_files import read_regular_file
from ..file_io import write_text

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "blanks"}
_HARD_ROWS = 4096


def find_delimiter(line: str) -> str:
    """Return the separator of a line of numbers: ``;``, ``,``, tab or blank, in order of priority.

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
    r"""Parse a table of numbers and return an array (rows, columns).

    Args:
        data: Text without header. Lines end with LF or CRLF; the last line end is optional. Blanks around
            numbers are ignored, ``nan`` and ``inf`` are accepted in any case, and a byte order mark is
                skipped.
        path: File name for errors.
        dtype: float32 (equal to ``np.float32(float(text))``) or float64 (equal to ``float(text)``).
        delimiter: Comma, semicolon, tab or blank. If None, it is detected in the first line.
        columns: Number of columns. If None, the first line determines it.
        first_line: Line number of the first row, for errors.

    Raises:
        FormatError: The table or a line is empty, rows differ in length, or a field is not a number.

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
    # Read the last line from a copy that ends with a line feed.
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


_MAX_MATRIX_BYTES = 1 << 20
_SINGULAR = 1e-14


def read_homography(path: str | Path) -> NDArray[np.float64]:
    """Read a 3x3 homography (`H_1_2`, `H1to2p`, `H_ref_1`), float64 (3, 3), not rescaled.

    The file has three lines of three numbers, separated by commas, semicolons or blanks. Empty lines are
    skipped.

    Raises:
        FormatError: The file is missing, has another number of lines or columns, a field that is not a finite
            number, or a singular matrix.
    """
    try:
        text = read_regular_file(path, most=_MAX_MATRIX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise FormatError(path, f"is not UTF-8 text ({e})") from e
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        if len(words) != 3:
            raise FormatError(path, f"expected 3 numbers, found {len(words)}", line=number)
        try:
            rows.append([float(w) for w in words])
        except ValueError:
            raise FormatError(path, f"expected 3 numbers, found {line.strip()!r}", line=number) from None
        if not np.isfinite(rows[-1]).all():
            raise FormatError(path, f"expected finite numbers, found {line.strip()!r}", line=number)
    if len(rows) != 3:
        raise FormatError(path, f"expected 3 lines of 3 numbers, found {len(rows)}")
    matrix = np.array(rows)
    if is_singular(matrix):
        raise FormatError(path, "the homography is singular; write an invertible matrix")
    return matrix


def write_homography(path: str | Path, homography: ArrayLike, *, delimiter: str = " ") -> None:
    """Write a 3x3 homography with full precision."""
    matrix = np.asarray(homography, dtype=np.float64).reshape(3, 3)
    lines = [delimiter.join(repr(float(v)) for v in row) for row in matrix]
    write_text(path, "\n".join(lines) + "\n")


def is_singular(matrix: NDArray[np.float64]) -> bool:
    """Return whether a 3x3 matrix is singular.

    Each row, then each column is scaled to unit norm. The matrix is singular if |det| <= 1e-14. Without the
    scaling, the determinant would depend on the unit of length and on a common factor.

    >>> is_singular(np.diag([1e-9, 1e-9, 1.0])), is_singular(np.ones((3, 3)))
    (False, True)
    """
    rows = np.linalg.norm(matrix, axis=1)
    if rows.min() == 0:
        return True
    scaled = matrix / rows[:, None]
    columns = np.linalg.norm(scaled, axis=0)
    return bool(columns.min() == 0 or abs(np.linalg.det(scaled / columns)) <= _SINGULAR)


def write_frames(path: str | Path, frames: NDArray[np.float64]) -> None:
    """Write frames (n, 2, 3) = [A | centre] to a file `IMNAME.frames`.

    A maps the unit circle to the region, and the centre of the top left pixel is (0, 0). Each line is
    ``x,y,a11,a21,a12,a22`` with six decimals: the centre, then A in column-major order, as in VLFeat's
    oriented ellipses.
    """
    if frames.ndim != 3 or frames.shape[1:] != (2, 3):
        raise InputError(f"frames must have shape (n, 2, 3), found {frames.shape}")
    columns = np.concatenate([frames[:, :, 2], frames[:, :, 0], frames[:, :, 1]], axis=1)
    lines = [",".join(f"{v:.6f}" for v in row) for row in columns]
    write_text(path, "".join(line + "\n" for line in lines))
