# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the compiled scans: scores of one row, thresholds that err on the safe side.

A tile holds similarities p (products, or minus the distance where that is computed outright). The score is
s = half - p, and |s - (alpha R - beta)| <= error for the reference value R. In an exact tile the error is
zero and R = (s + beta) / alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from ._lanes import sum_squares
from ._loops import rows_of

GROUPS = 64


@njit(nogil=True, inline="always")
def scores_of(tile: Any, half: Any, i: int, buffer: Any) -> None:
    """Write the scores of tile row i into the buffer; what follows them is infinite."""
    for j in range(tile.shape[1]):
        buffer[j] = half[j] - tile[i, j]


@njit(nogil=True)
def make_buffer(half: Any, extra: int) -> Any:
    """A row of scores with `extra` infinite elements behind it."""
    buffer = np.empty(len(half) + extra, half.dtype)
    buffer[len(half) :] = np.inf
    return buffer


@njit(nogil=True)
def round_down(x: float, like: Any) -> Any:
    """Largest finite value of like's format that is <= x (or its lowest one)."""
    # Each result is cast: a comparison of float32 scores with a float64 bound would cost five times as much.
    top = like.dtype.type(np.finfo(like.dtype).max)
    if x >= top:
        return top
    if x <= -top:
        return like.dtype.type(-top)
    y = like.dtype.type(x)
    if np.float64(y) > x:
        return like.dtype.type(np.nextafter(y, -top))
    return y


@njit(nogil=True)
def round_up(x: float, like: Any) -> Any:
    """Smallest finite value of like's format that is >= x (or its largest one)."""
    return like.dtype.type(-round_down(-x, like))


@njit(nogil=True)
def kth_bound(buffer: Any, width: int, k: int) -> float:
    """A score that at least k of the first `width` elements do not exceed; infinite if there are fewer.

    The k-th smallest of the minima of interleaved groups: each group below it holds one such element. It
    is a little above the true k-th smallest, and one vector pass finds it. The buffer must hold infinite
    elements up to the next multiple of the number of groups.
    """
    groups = GROUPS * ((2 * k + GROUPS - 1) // GROUPS)
    if width < groups:
        if width < k:
            return np.inf
        return np.float64(np.partition(buffer[:width], k - 1)[k - 1])
    least = np.full(groups, np.inf, buffer.dtype)
    for start in range(0, width, groups):
        for g in range(groups):
            least[g] = min(least[g], buffer[start + g])
    if k <= 2:
        first = second = buffer.dtype.type(np.inf)
        for g in range(groups):
            second = min(second, max(first, least[g]))
            first = min(first, least[g])
        return np.float64(first if k == 1 else second)
    return np.float64(np.partition(least, k - 1)[k - 1])


@njit(nogil=True)
def padding(k: int) -> int:
    """Infinite elements `kth_bound` and the vector search need behind a row of scores."""
    return 16 + GROUPS * ((2 * k + GROUPS - 1) // GROUPS)


@njit(nogil=True, error_model="numpy")
def reference(exact: bool, score: float, alpha: float, beta: float, a: Any, q: int, b: Any, u: int) -> float:
    """Reference value of query q and pool row u, read off an exact score or summed in the fixed order."""
    if exact:
        return (score + beta) / alpha
    return sum_squares(a, q, b, u)


def compiled(body: Callable[..., Any], signature: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Compile `body` when first wanted for a (tile format, row format); the result is kept on disk."""

    @cache
    def for_formats(tile: Any, rows: Any) -> Any:
        real = types.float32 if tile == np.float32 else types.float64
        row = rows_of(types.float32 if rows == np.float32 else types.float64)
        return njit(signature(real, row), nogil=True, cache=True, error_model="numpy")(body)

    return for_formats
