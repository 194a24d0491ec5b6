# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops over the test statistics of all method pairs and sign patterns.

The loops compare t², the square of the statistic of `sign_flip.sign_flip_family`, because squares have the
same order and need no square root. They do not store the statistics. Each step rounds like the NumPy version,
so that both results are bit-identical.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ..core.numba_cache import compiled_for

_CUBE, _MATRIX, _VECTOR = types.float64[:, :, ::1], types.float64[:, ::1], types.float64[::1]
_WHOLE, _COUNTS = types.int64[::1], types.int32[::1]


@njit(nogil=True, error_model="numpy")
def _squared_t(
    sums: Any, square: Any, k: int, a: int, b: int, sizes: Any, floor: float, at: int, out: Any
) -> None:
    """Write to `out` the t² of method pair k = (a, b) for the sign patterns from `at`.

    `sums` (strata, methods, patterns) are the signed sums of contributions, `square` (strata, pairs) the sums
    of squared differences, and `floor` the smallest se².
    """
    end = at + len(out)
    if len(sizes) == 2:
        n0, n1 = sizes[0], sizes[1]
        m0, m1 = -1.0 / n0, -1.0 / n1
        f0, f1 = n0 / max(n0 - 1, 1), n1 / max(n1 - 1, 1)
        q0, q1 = square[0, k], square[1, k]
        a0, b0, a1, b1 = sums[0, a, at:end], sums[0, b, at:end], sums[1, a, at:end], sums[1, b, at:end]
        for r in range(len(out)):
            d0, d1 = a0[r] - b0[r], a1[r] - b1[r]
            total = d0 + d1
            spread = (d0 * d0 * m0 + q0) * f0 + (d1 * d1 * m1 + q1) * f1
            spread = spread if spread > floor else floor
            out[r] = total * total / spread
        return
    spreads = np.zeros(len(out))
    out[:] = 0.0
    for h in range(len(sizes)):
        n = sizes[h]
        m, f, q = -1.0 / n, n / max(n - 1, 1), square[h, k]
        first, second = sums[h, a, at:end], sums[h, b, at:end]
        for r in range(len(out)):
            d = first[r] - second[r]
            out[r] += d
            spreads[r] += (d * d * m + q) * f
    for r in range(len(out)):
        spread = spreads[r] if spreads[r] > floor else floor
        out[r] = out[r] * out[r] / spread


@compiled_for(
    lambda: types.void(_CUBE, _WHOLE, _WHOLE, _MATRIX, _WHOLE, _VECTOR, _VECTOR, _COUNTS, _COUNTS, _VECTOR)
)
def step_down_sweep(
    sums: Any, first: Any, second: Any, square: Any, sizes: Any, floor: Any, goal: Any, single: Any,
    joint: Any, largest: Any,
) -> None:  # fmt: skip
    """Count for each pair the sign patterns whose t² reaches `goal`, as step-down max-T requires.

    Pairs are in descending order of the observed statistic. `single` counts the patterns in which the pair
    itself reaches its goal. `joint` counts the patterns in which the pair or any later pair reaches that
    goal. Both are incremented in place. `largest` (patterns,) is set to the largest t² of all pairs.
    """
    width = sums.shape[2]
    squared = np.empty(width)
    largest[:] = 0.0
    for k in range(len(first) - 1, -1, -1):
        _squared_t(sums, square, k, first[k], second[k], sizes, floor[k], 0, squared)
        least, one, any_ = goal[k], 0, 0
        for r in range(width):
            x = squared[r]
            m = largest[r] if largest[r] > x else x
            largest[r] = m
            one += x >= least
            any_ += m >= least
        single[k] += one
        joint[k] += any_


@njit(nogil=True, error_model="numpy")
def _square(rounded: Any, start: Any, a: int, b: int, out: Any) -> float:
    """Write the sums of squared differences of a pair, by stratum, to out[:, 0]. Return a floor for se²."""
    total = 0.0
    for h in range(len(start) - 1):
        part = 0.0
        for s in range(start[h], start[h + 1]):
            d = rounded[a, s] - rounded[b, s]
            part += d * d
        out[h, 0] = part
        total += part
    return max(total * 1e-13, 1e-300)


@njit(nogil=True, error_model="numpy")
def _may_exceed(
    sums: Any, square: Any, a: int, b: int, sizes: Any, floor: float, at: int, largest: Any
) -> bool:
    """Return whether t² of a pair may exceed `largest` in a sign pattern from `at`. It needs no division.

    The factor below 1 is far larger than all rounding errors, so no larger t² is missed.
    """
    if len(sizes) != 2:
        return True
    n0, n1 = sizes[0], sizes[1]
    m0, m1 = -1.0 / n0, -1.0 / n1
    f0, f1 = n0 / max(n0 - 1, 1), n1 / max(n1 - 1, 1)
    q0, q1, end = square[0, 0], square[1, 0], at + len(largest)
    a0, b0, a1, b1 = sums[0, a, at:end], sums[0, b, at:end], sums[1, a, at:end], sums[1, b, at:end]
    found = 0
    for r in range(len(largest)):
        d0, d1 = a0[r] - b0[r], a1[r] - b1[r]
        total = d0 + d1
        spread = (d0 * d0 * m0 + q0) * f0 + (d1 * d1 * m1 + q1) * f1
        spread = spread if spread > floor else floor
        found += total * total > largest[r] * (1 - 1e-12) * spread
    return found > 0


@compiled_for(
    lambda: types.void(_CUBE, _MATRIX, _WHOLE, types.int64, types.int64, types.int64, types.int64, _VECTOR)
)
def largest_sweep(
    sums: Any, rounded: Any, start: Any, low: int, high: int, block: int, patterns: int, largest: Any
) -> None:
    """Update `largest` (patterns,): the maximum with the t² of all method pairs (i, j) with low <= i < high.

    Methods are processed in blocks, and sign patterns in groups of `patterns`, so that their sums stay in the
    CPU cache. The scenes of `rounded` (methods, scenes) are ordered by stratum; stratum h starts at start[h].
    """
    methods, width = sums.shape[1], sums.shape[2]
    sizes = start[1:] - start[:-1]
    squared, square = np.empty(patterns), np.empty((block, block, len(sizes), 1))
    floors = np.empty((block, block))
    for left in range(low, high, block):
        for right in range(left, methods, block):
            bottom, end = min(left + block, high), min(right + block, methods)
            for a in range(left, bottom):
                for b in range(max(a + 1, right), end):
                    floors[a - left, b - right] = _square(rounded, start, a, b, square[a - left, b - right])
            for at in range(0, width, patterns):
                target = largest[at : min(at + patterns, width)]
                out = squared[: len(target)]
                for a in range(left, bottom):
                    for b in range(max(a + 1, right), end):
                        floor, own = floors[a - left, b - right], square[a - left, b - right]
                        if _may_exceed(sums, own, a, b, sizes, floor, at, target):
                            _squared_t(sums, own, 0, a, b, sizes, floor, at, out)
                            for r in range(len(out)):
                                target[r] = target[r] if target[r] > out[r] else out[r]


@compiled_for(lambda: types.void(_CUBE, _MATRIX, _WHOLE, types.float64, types.int64[:, ::1]))
def count_apart(sums: Any, rounded: Any, start: Any, least: float, counts: Any) -> None:
    """Count for each method the methods that are significantly better and worse.

    Two methods are separated if their t² on the data is at least `least`. `sums` contains a single pattern,
    the data. `counts` (methods, 2) is incremented in place.
    """
    sizes = start[1:] - start[:-1]
    squared, square = np.empty(1), np.empty((len(sizes), 1))
    for a in range(sums.shape[1]):
        for b in range(a + 1, sums.shape[1]):
            floor = _square(rounded, start, a, b, square)
            _squared_t(sums, square, 0, a, b, sizes, floor, 0, squared)
            if squared[0] >= least:
                gap = 0.0
                for h in range(len(sizes)):
                    gap += sums[h, a, 0] - sums[h, b, 0]
                counts[a, 1 if gap > 0 else 0] += 1
                counts[b, 0 if gap > 0 else 1] += 1
