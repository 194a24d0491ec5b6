# SPDX-License-Identifier: BSD-3-Clause
"""Homographies and affine frames as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import FormatError, InputError
from ...core.regular_files import read_regular_file
from ..whole_file import write_text

_MAX_MATRIX_BYTES = 1 << 20
_SINGULAR = 1e-14


def read_homography(path: str | Path) -> NDArray[np.float64]:
    """Read a 3x3 homography (`H_1_2`, `H1to2p`, `H_ref_1`), float64 (3, 3), as written (not rescaled).

    Three lines of three numbers, separated by commas, semicolons or blanks. Empty lines are skipped. A
    missing file, another number of lines or columns, a word that is not a number, NaN, inf and a singular
    matrix are each a `FormatError` with the line where there is one.
    """
    try:
        text = read_regular_file(path, most=_MAX_MATRIX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise FormatError(path, f"cannot be read as text ({e})") from e
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
        raise FormatError(path, "the homography is singular; it must be invertible")
    return matrix


def write_homography(path: str | Path, homography: ArrayLike, *, delimiter: str = " ") -> None:
    """Write a 3x3 homography with all its digits, so that reading it back gives the same bits."""
    matrix = np.asarray(homography, dtype=np.float64).reshape(3, 3)
    lines = [delimiter.join(repr(float(v)) for v in row) for row in matrix]
    write_text(path, "\n".join(lines) + "\n")


def is_singular(matrix: NDArray[np.float64]) -> bool:
    """Whether a 3x3 matrix is no homography.

    Each row, then each column is scaled to unit norm; singular means that |det| <= 1e-14 is left. A plain
    determinant would depend on the unit of length and on the common factor.

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
    """Write frames (n, 2, 3) = [A | centre] (`IMNAME.frames`): ``x,y,a11,a21,a12,a22`` a line, six decimals.

    Order of a line: centre x, y, then A by columns, as VLFeat orders an oriented ellipse. A maps the unit
    circle to the region; pixel centres are integers, (0, 0) is the top left one.
    """
    if frames.ndim != 3 or frames.shape[1:] != (2, 3):
        raise InputError(f"frames have shape (n, 2, 3), found {frames.shape}")
    columns = np.concatenate([frames[:, :, 2], frames[:, :, 0], frames[:, :, 1]], axis=1)
    lines = [",".join(f"{v:.6f}" for v in row) for row in columns]
    write_text(path, "".join(line + "\n" for line in lines))
