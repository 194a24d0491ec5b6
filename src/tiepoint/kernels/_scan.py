# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the compiled scans, above all thresholds that err on the safe side.

A tile holds similarities p (products, or minus the distance where that is computed outright). The score is
s = half - p, and |s - (alpha R - beta)| <= error for the reference value R. In an exact tile the error is
zero and R = (s + beta) / alpha.

Few helpers here take arrays: each hand-over inside a loop costs two atomic reference counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ..model.compiled import matrix
from ._lanes import sum_squares
from ._vectors import as_type_of, least_two

GROUPS = 64


def scan_signature(real: Any, rows: Any, *state: Any) -> Any:
    """Signature of a scan: the fields of a `tiles.Tile`, then what the scan keeps."""
    vector = types.float64[::1]
    tile = (real[:, ::1], real[::1], types.float64, vector, vector, types.boolean, matrix(rows), matrix(rows))
    return types.int64(*tile, types.int64, types.int64, *state)


@njit(nogil=True, error_model="numpy")
def make_buffer(half: Any, extra: int) -> Any:
    """A row of scores with `extra` infinite elements behind it."""
    buffer = np.empty(len(half) + extra, half.dtype)
    buffer[len(half) :] = np.inf
    return buffer


@njit(nogil=True, error_model="numpy")
def round_down(x: float, top: Any) -> Any:
    """Largest finite number <= x (or the lowest one) in the format whose largest is `top`."""
    # Float32 scores must meet float32 bounds: comparing across formats would cost several times as much.
    if x >= top:
        return top
    if x <= -top:
        return as_type_of(top, -top)
    y = as_type_of(top, x)
    if np.float64(y) > x:
        return as_type_of(top, np.nextafter(y, as_type_of(top, -top)))
    return y


@njit(nogil=True, error_model="numpy")
def round_up(x: float, top: Any) -> Any:
    """Smallest finite number >= x (or the largest one) in the format whose largest is `top`."""
    return as_type_of(top, -round_down(-x, top))


@njit(nogil=True, error_model="numpy")
def kth_bound(buffer: Any, width: int, k: int) -> float:
    """A score that at least k of the first `width` elements do not exceed; infinite if there are fewer.

    The k-th smallest itself for k <= 2, else that of the minima of interleaved groups: each group below it
    holds one such element. That is a little above the true k-th smallest, and one vector pass finds it. The
    buffer must hold infinite elements up to the next multiple of the number of groups.
    """
    if k <= 2:
        first, second = least_two(buffer, width)
        return np.float64(first if k == 1 else second)
    groups = GROUPS * ((2 * k + GROUPS - 1) // GROUPS)
    if width < groups:
        return np.inf if width < k else np.float64(np.partition(buffer[:width], k - 1)[k - 1])
    least = np.full(groups, np.inf, buffer.dtype)
    for start in range(0, width, groups):
        for g in range(groups):
            x = buffer[start + g]
            least[g] = x if x < least[g] else least[g]
    return np.float64(np.partition(least, k - 1)[k - 1])


@njit(nogil=True, error_model="numpy")
def padding(k: int) -> int:
    """Infinite elements `kth_bound` and the vector search need behind a row of scores."""
    return 16 + GROUPS * ((2 * k + GROUPS - 1) // GROUPS)


@njit(nogil=True, error_model="numpy")
def reference(exact: bool, score: float, alpha: float, beta: float, a: Any, q: int, b: Any, u: int) -> float:
    """Reference value of query q and pool row u, read off an exact score or summed in the fixed order."""
    if exact:
        return (score + beta) / alpha
    return sum_squares(a, q, b, u)
