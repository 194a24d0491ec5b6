# SPDX-License-Identifier: BSD-3-Clause
"""Undoing the row filters of a PNG. Apart from its reader, because it imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.compiled import cached_njit

Bytes = NDArray[Any]


@cached_njit(nogil=True)
def _paeth(left: int, above: int, corner: int) -> int:
    # The nearest of the three to left + above - corner, without absolute values: that is `low` where the sum
    # lies below both, `high` where it lies above both, and the corner between them.
    bound = 3 * corner - (left + above)
    low, high = min(left, above), max(left, above)
    nearest = low if high <= bound else corner
    return high if bound <= low else nearest


@cached_njit(nogil=True)
def _add_left(given: Bytes, own: Bytes, step: int) -> None:
    if step == 1:  # in a register, not by way of memory
        total = np.uint8(0)
        for i in range(own.size):
            total = np.uint8(total + given[i])
            own[i] = total
        return
    own[:step] = given[:step]
    for i in range(step, own.size):
        own[i] = np.uint8(given[i] + own[i - step])


@cached_njit(nogil=True)
def _add_above(given: Bytes, above: Bytes, own: Bytes) -> None:
    for i in range(own.size):
        own[i] = np.uint8(given[i] + above[i])


@cached_njit(nogil=True)
def _add_mean(given: Bytes, above: Bytes, own: Bytes, step: int) -> None:
    for i in range(own.size):
        left = np.int32(own[i - step]) if i >= step else np.int32(0)
        own[i] = (given[i] + (left + np.int32(above[i])) // 2) & 255


@cached_njit(nogil=True)
def _add_paeth(given: Bytes, above: Bytes, own: Bytes, step: int) -> None:
    for i in range(min(step, own.size)):
        own[i] = np.uint8(given[i] + above[i])
    for k in range(min(step, own.size)):
        left, corner = np.int32(own[k]), np.int32(above[k])
        for i in range(k + step, own.size, step):
            over = np.int32(above[i])
            left = np.int32((np.int32(given[i]) + _paeth(left, over, corner)) & 255)
            own[i] = left
            corner = over


@cached_njit(nogil=True)
def _add_paeth_twice(given: Bytes, below: Bytes, above: Bytes, own: Bytes, next_own: Bytes) -> None:
    """Two rows of single bytes at once, the second one byte behind: each waits for its own left byte only."""
    left, corner, lower, lower_corner = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for i in range(own.size):
        over, value = np.int32(above[i]), left
        left = np.int32((np.int32(given[i]) + _paeth(left, over, corner)) & 255)
        own[i], corner = left, over
        if i:
            lower = np.int32((np.int32(below[i - 1]) + _paeth(lower, value, lower_corner)) & 255)
            next_own[i - 1], lower_corner = lower, value
    next_own[-1] = np.int32((np.int32(below[-1]) + _paeth(lower, left, lower_corner)) & 255)


@cached_njit(nogil=True)
def _undo(rows: Bytes, out: Bytes, step: int) -> None:
    nothing = np.zeros(out.shape[1], np.uint8)
    y = 0
    while y < rows.shape[0]:
        kind, given, own = rows[y, 0], rows[y][1:], out[y]
        above = out[y - 1] if y else nothing
        if kind == 0:
            own[:] = given
        elif kind == 1:
            _add_left(given, own, step)
        elif kind == 2:
            _add_above(given, above, own)
        elif kind == 3:
            _add_mean(given, above, own, step)
        elif step == 1 and y + 1 < rows.shape[0] and rows[y + 1, 0] == 4:
            _add_paeth_twice(given, rows[y + 1][1:], above, own, out[y + 1])
            y += 1
        else:
            _add_paeth(given, above, own, step)
        y += 1


def undo_filters(rows: Bytes, out: Bytes, pixel_bytes: int) -> None:
    """Write the bytes of filtered rows (h, 1 + n) to `out` (h, n); each row starts with its filter, 0..4.

    >>> out = np.empty((1, 3), np.uint8)
    >>> undo_filters(np.array([[1, 1, 0, 4]], np.uint8), out, 1)
    >>> out.tolist()
    [[1, 1, 5]]
    """
    _undo(rows, out, pixel_bytes)
