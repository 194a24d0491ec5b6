# SPDX-License-Identifier: BSD-3-Clause
"""Compiled rank counts for groups of rows, and counts of values below many thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ...core.numba_cache import compiled_for
from .nearest_scan import scan_signature
from .rank_counts import thresholds
from .reference_distance import sum_squares
from .simd import PAD, as_type_of, count_two, next_within

_INTS, _REALS = types.int64[::1], types.float64[::1]
_INT_ROWS, _REAL_ROWS = types.int64[:, ::1], types.float64[:, ::1]
_MEMO = 256


def _ranks_signature(real: Any, rows: Any) -> Any:
    queries = (_INTS, types.int64, _INTS, _REALS, _REALS, types.boolean, _INT_ROWS)
    return scan_signature(
        real, rows, *queries, types.int64, types.int64, _INTS, _INTS, _INTS, _INT_ROWS, _INT_ROWS
    )


@compiled_for(_ranks_signature)
def group_ranks(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int,
    start: Any, first_group: int, target_start: Any, target: Any, slack: Any, plain: bool, bounds: Any,
    leads: int, before: int, extra: Any, slot: Any, same: Any, lt: Any, eq: Any,
) -> int:  # fmt: skip
    """Add a tile (block of scores) to its targets' counts. Return how many exact distances this took.

    Query group g has the rows start[g] to start[g + 1] - 1. The tile begins with query group `first_group`.
    Its first `leads` columns are the first rows of its pool groups by position. The other rows of group s are
    columns leads + extra[s] to leads + extra[s + 1] - 1; column leads + j belongs to group slot[j]. Limit c
    restricts query group g to bounds[g, c] pool groups; `before` are in earlier tiles.

    The distance and the score of two groups are those of their nearest rows. Targets of a query group are in
    descending order of distance. Scores of different query rows have different offsets (`beta`), which are
    added before comparing. `slack` bounds the rounding error of this addition; with `plain` it is exact.
    Equal pool rows have equal same[u] and share one exact distance; `same` is empty if few are equal.
    """
    width, columns = tile.shape[1], bounds.shape[1]
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    score = np.empty(width + PAD, half.dtype)
    score[width:] = np.inf
    edge = np.empty(columns, np.int64)
    memo_key, memo = np.empty(_MEMO, np.int64), np.empty(_MEMO)
    repeats = len(same) > 0
    end_query = first_query + tile.shape[0]
    g = first_group
    sums = 0
    while g < len(start) - 1 and start[g] < end_query:
        i0, i1 = start[g] - first_query, start[g + 1] - first_query
        single = i1 - i0 == 1
        offset, band = beta[i0], error[i0]
        if single:
            for j in range(width):
                score[j] = half[j] - tile[i0, j]
        else:
            add = as_type_of(half[0], beta[i0])
            for j in range(width):
                score[j] = (half[j] - tile[i0, j]) + add
            band = error[i0] + slack[start[g]]
            for i in range(i0 + 1, i1):
                add = as_type_of(half[0], beta[i])
                for j in range(width):
                    x = (half[j] - tile[i, j]) + add
                    score[j] = x if x < score[j] else score[j]
                band = max(band, error[i] + slack[start[g] + i - i0])
            offset = 0.0
        sure = exact and (single or plain)
        for j in range(leads, width):
            s = slot[j - leads]
            score[s] = score[j] if score[j] < score[s] else score[s]
        for c in range(columns):
            edge[c] = min(max(bounds[g, c] - before, 0), leads)
        if repeats:
            memo_key[:] = -1
        for t in range(target_start[g], target_start[g + 1]):
            low, high = thresholds(target[t], False, alpha, offset, band, top)
            pinned = sure and low == high
            inside = 0
            for c in range(columns):
                below, within = count_two(score, 0, edge[c], low, high)
                lt[t, c] += below
                if pinned:
                    eq[t, c] += within - below
                inside = max(inside, within)
            if inside == 0:
                break
            if pinned:
                continue
            s = next_within(score, 0, leads, low, high)
            while s < leads:
                least = np.inf
                if sure:
                    least = (np.float64(score[s]) + offset) / alpha
                else:
                    for k in range(extra[s + 1] - extra[s] + 1):
                        u = first_row + (s if k == 0 else leads + extra[s] + k - 1)
                        for i in range(i0, i1):
                            place = 0
                            key = np.int64(0)
                            if repeats:
                                key = same[u] * 64 + min(i - i0, 63)
                                place = (same[u] + 101 * (i - i0)) & (_MEMO - 1)
                            if repeats and i - i0 < 63 and memo_key[place] == key:
                                r = memo[place]
                            else:
                                r = sum_squares(a, first_query + i, b, u)
                                sums += 1
                                if repeats and i - i0 < 63:
                                    memo_key[place], memo[place] = key, r
                            least = min(least, r)
                for c in range(columns):
                    if s < edge[c]:
                        if least < target[t]:
                            lt[t, c] += 1
                        elif least == target[t]:
                            eq[t, c] += 1
                s = next_within(score, s + 1, leads, low, high)
        g += 1
    return sums


@compiled_for(
    lambda: types.void(_REAL_ROWS, _INTS, _INTS, _INTS, _INTS, _INTS, _REALS, _INT_ROWS, _INT_ROWS, _INT_ROWS)
)
def count_groups(
    tile: Any, start_a: Any, start_b: Any, position: Any, group: Any, first: Any, value: Any, limits: Any,
    lt: Any, eq: Any,
) -> None:  # fmt: skip
    """Count the pool groups that are nearer than each target of a tile, and the groups that are equally near.

    The targets of query group g are first[g] to first[g + 1] - 1; `group` lists the query groups of the tile.
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
    """Return the index of a value's bucket, one of `buckets` equal intervals from `low` of width 1 / `scale`.

    Despite rounding, a larger value never has a smaller index.
    """
    x = (d - low) * scale
    if x <= 0:
        return 0
    if x >= buckets - 1:
        return buckets - 1
    return int(x)


_BELOW = (_REAL_ROWS, _INTS, types.int64, _REALS, _INTS, _INTS, types.float64, types.float64)


@compiled_for(lambda: types.void(*_BELOW, _INTS, _INTS, _INTS))
def count_below(
    tile: Any, position: Any, stride: int, threshold: Any, at: Any, table: Any, low: float, scale: float,
    below: Any, equal: Any, before: Any,
) -> None:  # fmt: skip
    """Locate every value of a tile among sorted thresholds, and count it in three step arrays.

    Thresholds are sorted by (value, list position `at`). The list position of entry (i, j) of the tile is
    position[i] + stride * j. The cumulative sums of the step arrays over all tiles are the counts: `below[k]`
    entries below threshold k, `equal[k]` equal to it, and `before[k]` equal to it at an earlier position.
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


@compiled_for(lambda: _INTS(_REALS, types.float64, types.float64, types.int64))
def bucket_table(threshold: Any, low: float, scale: float, buckets: int) -> Any:
    """Return the index of the first threshold in each bucket, followed by the number of thresholds.

    The table speeds up the search in `count_below`.
    """
    table = np.zeros(buckets + 1, np.int64)
    for k in range(len(threshold)):
        table[bucket_of(threshold[k], low, scale, buckets) + 1] += 1
    for b in range(buckets):
        table[b + 1] += table[b]
    return table
