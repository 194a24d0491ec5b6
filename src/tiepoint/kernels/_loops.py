# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops that evaluate the reference distance: pair by pair, and for all pairs of two blocks."""

from __future__ import annotations

from typing import Any

from numba import njit, types

from ._compile import compiled, matrix
from ._lanes import bit_count, sum_absolute, sum_squares
from ._vectors import prefetch

_INDEX = types.Array(types.int64, 1, "C", readonly=True)


def _pairs(rows: Any) -> Any:
    return types.void(matrix(rows), matrix(rows), _INDEX, _INDEX, types.float64[::1])


def _tile(rows: Any, real: Any) -> Any:
    return types.void(matrix(rows), matrix(rows), real[:, ::1])


@njit(nogil=True, error_model="numpy")
def _ahead(a: Any, b: Any, index_a: Any, index_b: Any, i: int) -> None:
    """Fetch the rows of a later pair: listed rows lie anywhere in memory, and waiting is most of the time."""
    later = min(i + 8, len(index_a) - 1)
    for k in range(0, a.shape[1], 64 // a.itemsize):
        prefetch(a, index_a[later], k)
        prefetch(b, index_b[later], k)


@compiled(_pairs)
def pairs_l2(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of squares of each pair."""
    for i in range(len(out)):
        _ahead(a, b, index_a, index_b, i)
        out[i] = sum_squares(a, index_a[i], b, index_b[i])


@compiled(_pairs)
def pairs_l1(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of absolute differences of each pair."""
    for i in range(len(out)):
        _ahead(a, b, index_a, index_b, i)
        out[i] = sum_absolute(a, index_a[i], b, index_b[i])


@compiled(_pairs)
def pairs_hamming(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the number of differing bits of each pair."""
    for i in range(len(out)):
        out[i] = bit_count(a, index_a[i], b, index_b[i])


@compiled(_tile)
def minus_l1(a: Any, b: Any, out: Any) -> None:
    """Write minus the sum of absolute differences of all pairs of rows."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = -sum_absolute(a, i, b, j)


@compiled(_tile)
def minus_hamming(a: Any, b: Any, out: Any) -> None:
    """Write minus the Hamming distance of all pairs of rows of 64-bit words."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = -bit_count(a, i, b, j)
