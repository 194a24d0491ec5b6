# SPDX-License-Identifier: BSD-3-Clause
"""Compiled scans of tiles for nearest rows, and safe thresholds for all scans.

A tile is a block of similarities p: products, or negative distances if distances are computed directly. The
score is s = half - p, and |s - (alpha R - beta)| <= error, where R is the reference value: the distance
(squared for l2) computed in float64 in a fixed order. In an exact tile the error is zero and R = (s + beta) /
alpha.

Helpers avoid array arguments, because passing an array inside a loop costs two atomic reference counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ...core.numba_cache import compiled_for, matrix
from .reference_distance import sum_squares
from .simd import as_type_of, least_two, next_within

GROUPS = 64


def scan_signature(real: Any, rows: Any, *state: Any) -> Any:
    """Return the Numba signature of a scan: the fields of a `tiles.Tile`, then the scan's own arguments."""
    vector = types.float64[::1]
    tile = (real[:, ::1], real[::1], types.float64, vector, vector, types.boolean, matrix(rows), matrix(rows))
    return types.int64(*tile, types.int64, types.int64, *state)


@njit(nogil=True, error_model="numpy")
def make_buffer(half: Any, extra: int) -> Any:
    """Allocate an array for one row of scores and `extra` padding elements, which are infinite."""
    buffer = np.empty(len(half) + extra, half.dtype)
    buffer[len(half) :] = np.inf
    return buffer


@njit(nogil=True, error_model="numpy")
def round_down(x: float, top: Any) -> Any:
    """Convert x to the dtype of `top`, rounded down and clipped to the range from -`top` to `top`."""
    # Float32 scores need float32 bounds: comparing across formats costs several times as much.
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
    """Convert x to the dtype of `top`, rounded up and clipped to the range from -`top` to `top`."""
    return as_type_of(top, -round_down(-x, top))


@njit(nogil=True, error_model="numpy")
def _copy(values: Any, count: int) -> Any:
    copied = np.empty(count, values.dtype)
    for i in range(count):
        copied[i] = values[i]
    return copied


@njit(nogil=True, error_model="numpy")
def _kth_smallest(values: Any, k: int) -> Any:
    """Return the k-th smallest value by Hoare's selection, in place. `np.partition` compiles for seconds."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@njit(nogil=True, error_model="numpy")
def kth_bound(buffer: Any, width: int, k: int) -> float:
    """Return an upper bound of the k-th smallest of the first `width` scores; infinite if fewer exist.

    For k <= 2 the bound is the k-th smallest score. Otherwise the scores are split into interleaved groups,
    and the bound is the k-th smallest group minimum. It is slightly above the k-th smallest score and needs
    one vectorised pass. The buffer must be infinite up to the next multiple of the number of groups.
    """
    if k <= 2:
        first, second = least_two(buffer, width)
        return np.float64(first if k == 1 else second)
    groups = GROUPS * ((2 * k + GROUPS - 1) // GROUPS)
    if width < groups:
        return np.inf if width < k else np.float64(_kth_smallest(_copy(buffer, width), k))
    least = np.full(groups, np.inf, buffer.dtype)
    for start in range(0, width, groups):
        for g in range(groups):
            x = buffer[start + g]
            least[g] = x if x < least[g] else least[g]
    return np.float64(_kth_smallest(least, k))


@njit(nogil=True, error_model="numpy")
def padding(k: int) -> int:
    """Return how many infinite elements must follow a row of scores for `kth_bound` and the vector search."""
    return 16 + GROUPS * ((2 * k + GROUPS - 1) // GROUPS)


@njit(nogil=True, error_model="numpy")
def reference(exact: bool, score: float, alpha: float, beta: float, a: Any, q: int, b: Any, u: int) -> float:
    """Return the reference value of query q and pool row u.

    It is derived from the score if the tile is exact, and otherwise computed from the rows.
    """
    if exact:
        return (score + beta) / alpha
    return sum_squares(a, q, b, u)


_VECTOR, _WHOLE = types.float64[::1], types.int64[::1]
_VALUES, _TABLE = types.float64[:, ::1], types.int64[:, ::1]


def _select_signature(real: Any, rows: Any) -> Any:
    return scan_signature(real, rows, _VALUES, _TABLE, _WHOLE)


def _first_two_signature(real: Any, rows: Any) -> Any:
    return scan_signature(real, rows, _WHOLE, _VECTOR, _VECTOR, _WHOLE, _WHOLE)


@compiled_for(_select_signature)
def select(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int, value: Any, row: Any, filled: Any,
) -> int:  # fmt: skip
    """Merge one tile into the k best rows of each query. Return how many distances were computed exactly.

    `value` and `row` (q, k) are sorted lists, `filled` their lengths. A row is a candidate only if its score
    is at most the k-th smallest score of the tile plus twice the error. It enters a full list only if its
    reference value is below the last value of the list. Rows are visited in ascending order, and the earlier
    row wins a tie.
    """
    k = value.shape[1]
    width = tile.shape[1]
    buffer = make_buffer(half, padding(k))
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    lowest = round_up(-np.inf, top)
    sums = 0
    for i in range(tile.shape[0]):
        q = first_query + i
        for j in range(width):
            buffer[j] = half[j] - tile[i, j]
        count = filled[q]
        if count < k:
            bound = round_up(kth_bound(buffer, width, k) + 2.0 * error[i], top)
        else:
            bound = round_up(alpha * value[q, k - 1] - beta[i] + error[i], top)
        j = next_within(buffer, 0, width, lowest, bound)
        while j < width:
            u = first_row + j
            r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
            sums += 1
            if count < k or r < value[q, k - 1]:
                place = min(count, k - 1)
                while place > 0 and value[q, place - 1] > r:
                    value[q, place] = value[q, place - 1]
                    row[q, place] = row[q, place - 1]
                    place -= 1
                value[q, place] = r
                row[q, place] = u
                count = min(count + 1, k)
                if count == k:
                    bound = min(bound, round_up(alpha * value[q, k - 1] - beta[i] + error[i], top))
            j = next_within(buffer, j + 1, width, lowest, bound)
        filled[q] = count
    return sums


@compiled_for(_first_two_signature)
def first_two(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int, copies: Any, d1: Any, d2: Any, row: Any, ties: Any,
) -> int:  # fmt: skip
    """Merge a tile into `d1`, `d2`, `row`, `ties` of each query. Return how many exact distances this took.

    `copies[u]` is the number of pool positions of distinct row u. It is empty if every row has one position.
    """
    width = tile.shape[1]
    buffer = make_buffer(half, padding(2))
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    lowest = round_up(-np.inf, top)
    sums = 0
    for i in range(tile.shape[0]):
        q = first_query + i
        for j in range(width):
            buffer[j] = half[j] - tile[i, j]
        second = np.float64(least_two(buffer, width)[1])
        bound = round_up(min(second + 2.0 * error[i], alpha * d2[q] - beta[i] + error[i]), top)
        j = next_within(buffer, 0, width, lowest, bound)
        while j < width:
            u = first_row + j
            r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
            sums += 1
            copy = copies[u] if len(copies) else 1
            if r < d1[q]:
                d2[q] = r if copy > 1 else d1[q]
                d1[q] = r
                row[q] = u
                ties[q] = copy
            elif r == d1[q]:
                ties[q] += copy
                d2[q] = r
            elif r < d2[q]:
                d2[q] = r
            bound = min(bound, round_up(alpha * d2[q] - beta[i] + error[i], top))
            j = next_within(buffer, j + 1, width, lowest, bound)
    return sums


@compiled_for(lambda: types.void(_VALUES, _TABLE, _WHOLE, _WHOLE, _WHOLE, _TABLE, _VALUES))
def expand(value: Any, row: Any, positions: Any, start: Any, skip: Any, index: Any, out: Any) -> None:
    """Expand the best distinct rows of each query to the best pool positions, sorted by value, then position.

    `positions` and `start` are those of `DistinctRows`; `skip[q]` is a position that query q must not find.
    """
    keep = value.shape[1]
    at = np.empty(keep, np.int64)
    for q in range(len(value)):
        done = 0
        first = 0
        while done < index.shape[1]:
            last = first
            while last < keep and value[q, last] == value[q, first]:
                at[last] = start[row[q, last]]
                last += 1
            while done < index.shape[1]:
                best = -1
                lowest = len(positions)
                for g in range(first, last):
                    if at[g] < start[row[q, g] + 1] and positions[at[g]] < lowest:
                        best, lowest = g, positions[at[g]]
                if best < 0:
                    break
                at[best] += 1
                if lowest != skip[q]:
                    index[q, done] = lowest
                    out[q, done] = value[q, first]
                    done += 1
            first = last
