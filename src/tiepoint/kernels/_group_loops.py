# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops over tiles of reference values: counts by group, and counts against many thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ..model.compiled import compiled

_INTS, _REALS = types.int64[::1], types.float64[::1]
_INT_ROWS, _REAL_ROWS = types.int64[:, ::1], types.float64[:, ::1]


@compiled(
    lambda: types.void(_REAL_ROWS, _INTS, _INTS, _INTS, _INTS, _INTS, _REALS, _INT_ROWS, _INT_ROWS, _INT_ROWS)
)
def count_groups(
    tile: Any, start_a: Any, start_b: Any, position: Any, group: Any, first: Any, value: Any, limits: Any,
    lt: Any, eq: Any,
) -> None:  # fmt: skip
    """Add, for each target of each query group of a tile, the pool groups nearer and equally near.

    `first[g]` to `first[g + 1]` are the targets of query group g; `group` names those of the tile.
    """
    for a in range(len(group)):
        g = group[a]
        for b in range(len(start_b) - 1):
            d = tile[start_a[a], start_b[b]]
            for i in range(start_a[a], start_a[a + 1]):
                for j in range(start_b[b], start_b[b + 1]):
                    d = min(d, tile[i, j])
            for t in range(first[g], first[g + 1]):
                if d <= value[t]:
                    for s in range(limits.shape[1]):
                        if position[b] < limits[g, s]:
                            if d < value[t]:
                                lt[t, s] += 1
                            else:
                                eq[t, s] += 1


@njit(nogil=True, error_model="numpy")
def bucket_of(d: float, low: float, scale: float, buckets: int) -> int:
    """Monotone bucket of a value: never larger for a smaller value, whatever the rounding."""
    x = (d - low) * scale
    if x <= 0:
        return 0
    if x >= buckets - 1:
        return buckets - 1
    return int(x)


@compiled(
    lambda: types.void(
        _REAL_ROWS,
        _INTS,
        types.int64,
        _REALS,
        _INTS,
        _INTS,
        types.float64,
        types.float64,
        _INTS,
        _INTS,
        _INTS,
    )
)
def count_below(
    tile: Any, position: Any, stride: int, threshold: Any, at: Any, table: Any, low: float, scale: float,
    below: Any, equal: Any, before: Any,
) -> None:  # fmt: skip
    """Sort every entry of a tile in among thresholds, as steps of three cumulative sums.

    Thresholds are sorted by (value, list position `at`). Entry (i, j) has list position position[i] +
    stride * j. After the cumulative sums over all tiles, `below[k]` counts entries under threshold k,
    `equal[k]` those equal to it, `before[k]` those equal and at an earlier position.
    """
    n = len(threshold)
    top = threshold[n - 1]
    buckets = len(table) - 1
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            d = tile[i, j]
            if not d <= top:
                continue
            b = bucket_of(d, low, scale, buckets)
            lo, end = table[b], table[b + 1]
            hi = end
            while lo < hi:
                middle = (lo + hi) >> 1
                if threshold[middle] < d:
                    lo = middle + 1
                else:
                    hi = middle
            up = lo
            if lo < end and threshold[lo] == d:
                hi = end
                while up < hi:
                    middle = (up + hi) >> 1
                    if threshold[middle] <= d:
                        up = middle + 1
                    else:
                        hi = middle
                equal[lo] += 1
                equal[up] -= 1
                p = position[i] + stride * j
                k, hi = lo, up
                while k < hi:
                    middle = (k + hi) >> 1
                    if at[middle] <= p:
                        k = middle + 1
                    else:
                        hi = middle
                before[k] += 1
                before[up] -= 1
            below[up] += 1


@compiled(lambda: _INTS(_REALS, types.float64, types.float64, types.int64))
def bucket_table(threshold: Any, low: float, scale: float, buckets: int) -> Any:
    """Index of the first sorted threshold in each bucket, and the number of thresholds at the end."""
    table = np.zeros(buckets + 1, np.int64)
    for k in range(len(threshold)):
        table[bucket_of(threshold[k], low, scale, buckets) + 1] += 1
    for b in range(buckets):
        table[b + 1] += table[b]
    return table
