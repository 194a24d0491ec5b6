# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops that compute reference distances of listed pairs, or of all pairs of two blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types

from ...core.numba_cache import compiled_for, matrix
from .reference_distance import bit_count, sum_absolute, sum_absolute_single, sum_squares, sum_squares_single
from .simd import pointer, prefetch

_INDEX = types.Array(types.int64, 1, "C", readonly=True)
_SHORT = types.Array(types.int32, 1, "C", readonly=True)
_TREE = types.Array(types.int64, 2, "C", readonly=True)
_BASES = types.Array(types.uint64, 1, "C", readonly=True)
_CHUNK = 1024


def _pairs(rows: Any) -> Any:
    return types.void(matrix(rows), matrix(rows), _INDEX, _INDEX, types.float64[::1])


def _across(rows: Any) -> Any:
    lists = (_SHORT, _SHORT, _SHORT, _SHORT, _SHORT)
    more = (types.float64[::1], types.boolean, types.int8[::1], _TREE)
    return types.boolean(matrix(rows), _BASES, *lists, *more)


def _table(rows: Any, real: Any) -> Any:
    return types.void(matrix(rows), matrix(rows), types.float64, real[:, ::1])


@njit(nogil=True, error_model="numpy")
def _ahead(a: Any, b: Any, index_a: Any, index_b: Any, i: int) -> None:
    """Prefetch the rows of a pair that follows pair i. Rows are scattered, so memory latency dominates."""
    later = min(i + 8, len(index_a) - 1)
    for k in range(0, a.shape[1], 64 // a.itemsize):
        prefetch(a, index_a[later], k)
        prefetch(b, index_b[later], k)


@compiled_for(_pairs)
def pairs_l2(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of squared differences of each pair (a[index_a], b[index_b]) to `out`."""
    for i in range(len(out)):
        _ahead(a, b, index_a, index_b, i)
        out[i] = sum_squares(a, index_a[i], b, index_b[i])


@compiled_for(_pairs)
def pairs_l1(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of absolute differences of each pair (a[index_a], b[index_b]) to `out`."""
    for i in range(len(out)):
        _ahead(a, b, index_a, index_b, i)
        out[i] = sum_absolute(a, index_a[i], b, index_b[i])


@njit(nogil=True, error_model="numpy")
def _row(like: Any, base: Any, index: int) -> Any:
    """Return row `index` of the matrix at address `base` as a (1, d) matrix with the dtype of `like`."""
    size = like.shape[1] * like.itemsize
    return carray(pointer(base + np.uint64(index * size)), (1, like.shape[1]), like.dtype)


@njit(nogil=True, error_model="numpy")
def _fetch(row: Any) -> None:
    for k in range(0, row.shape[1], 64 // row.itemsize):
        prefetch(row, 0, k)


@njit(nogil=True, error_model="numpy")
def _ordinal(value: float) -> Any:
    """Return the position of a number >= 0, rounded to float32, among all float32 numbers.

    Differences of these positions count float32 steps.
    """
    return np.float32(value).view(np.int32)


@compiled_for(_across)
def across(
    like: Any, bases: Any, part_a: Any, row_a: Any, part_b: Any, row_b: Any, place: Any, out: Any, l2: bool,
    steps: Any, tree: Any,
) -> bool:  # fmt: skip
    """Write the sum of squared (`l2`) or absolute differences of pair i to out[place[i]].

    If `steps` is not empty, the arithmetic is repeated in float32: differences for l2, differences and sums
    for l1. steps[place[i]] is the resulting change, in float32 steps, of the root of the sum (l2) or of the
    sum (l1). `tree` is the `sum_tree` of the row width. `bases` are the memory addresses of the matrices
    (parts). Indices are not checked: the caller must ensure that every part, row and output index exists.
    Returns whether all sums are finite.
    """
    n, bad, sums, single = len(place), 0, np.empty(_CHUNK), np.empty(_CHUNK)
    rounded, memory = len(steps) > 0, np.empty(64, np.float32)
    for start in range(0, n, _CHUNK):
        count = min(_CHUNK, n - start)
        for k in range(count):
            i = start + k
            later = min(i + 10, n - 1)
            _fetch(_row(like, bases[part_a[later]], row_a[later]))
            _fetch(_row(like, bases[part_b[later]], row_b[later]))
            a, b = _row(like, bases[part_a[i]], row_a[i]), _row(like, bases[part_b[i]], row_b[i])
            sums[k] = sum_squares(a, 0, b, 0) if l2 else sum_absolute(a, 0, b, 0)
            if rounded and l2:
                single[k] = sum_squares_single(a, 0, b, 0)
            elif rounded:
                single[k] = sum_absolute_single(a, 0, b, 0, tree, memory)
        # Separate from the loop above, which is limited by memory latency.
        for k in range(count):
            out[place[start + k]] = sums[k]
            bad += 0 if sums[k] < np.inf else 1
        if rounded:
            for k in range(count):
                x, y = (np.sqrt(single[k]), np.sqrt(sums[k])) if l2 else (single[k], sums[k])
                steps[place[start + k]] = _ordinal(x) - _ordinal(y)
    return bad == 0


@compiled_for(lambda: types.int64(_INDEX, _SHORT, _SHORT))
def rows_missing(rows: Any, part: Any, row: Any) -> int:
    """Count the entries whose row index is out of range in their matrix.

    `rows` is the length of each matrix.
    """
    missing = 0
    for i in range(len(part)):
        missing += 1 if (row[i] < 0) | (row[i] >= rows[part[i]]) else 0
    return missing


@compiled_for(_pairs)
def pairs_hamming(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the Hamming distance of each pair (a[index_a], b[index_b]) to `out`."""
    for i in range(len(out)):
        out[i] = bit_count(a, index_a[i], b, index_b[i])


@compiled_for(lambda rows: types.void(matrix(rows), matrix(rows), types.float64[:, ::1]))
def table_l2(a: Any, b: Any, out: Any) -> None:
    """Write the sum of squared differences of all pairs of rows of `a` and `b` to `out`."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = sum_squares(a, i, b, j)


@compiled_for(_table)
def table_l1(a: Any, b: Any, sign: float, out: Any) -> None:
    """Write `sign` (1 or -1) times the sum of absolute differences of all pairs of rows to `out`."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = sign * sum_absolute(a, i, b, j)


@compiled_for(_table)
def table_hamming(a: Any, b: Any, sign: float, out: Any) -> None:
    """Write `sign` (1 or -1) times the Hamming distance of all pairs of rows of 64-bit words to `out`."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = sign * bit_count(a, i, b, j)
