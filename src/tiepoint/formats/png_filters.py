# SPDX-License-Identifier: BSD-3-Clause
"""Undoing the row filters of a PNG. Apart from its reader, because it imports Numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..model.compiled import cached_njit

_PIXEL_BYTES = 6


@cached_njit()
def _undo(rows: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    for y in range(rows.shape[0]):
        kind = rows[y, 0]
        for i in range(out.shape[1]):
            left = np.int32(out[y, i - _PIXEL_BYTES]) if i >= _PIXEL_BYTES else np.int32(0)
            above = np.int32(out[y - 1, i]) if y else np.int32(0)
            if kind == 0:
                guess = np.int32(0)
            elif kind == 1:
                guess = left
            elif kind == 2:
                guess = above
            elif kind == 3:
                guess = (left + above) // 2
            else:
                corner = np.int32(out[y - 1, i - _PIXEL_BYTES]) if y and i >= _PIXEL_BYTES else np.int32(0)
                by_left, by_above = abs(above - corner), abs(left - corner)
                by_corner = abs(left + above - 2 * corner)
                if by_left <= by_above and by_left <= by_corner:
                    guess = left
                elif by_above <= by_corner:
                    guess = above
                else:
                    guess = corner
            out[y, i] = (np.int32(rows[y, 1 + i]) + guess) & 255


def undo_filters(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes of the rows of a 16-bit RGB PNG from filtered ones; each row starts with its filter, 0..4.

    >>> undo_filters(np.array([[1, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0]], np.uint8)).tolist()
    [[1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0]]
    """
    out = np.empty((rows.shape[0], rows.shape[1] - 1), np.uint8)
    _undo(rows, out)
    return out
