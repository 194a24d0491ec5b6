# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops that evaluate the reference distance: pair by pair, and for all pairs of two blocks."""

from __future__ import annotations

from typing import Any

from numba import njit, types

from ._lanes import bit_count, sum_absolute, sum_squares


def rows_of(dtype: Any) -> Any:
    """Signature of a C-ordered matrix that is only read, so that memory-mapped arrays need no other code."""
    return types.Array(dtype, 2, "C", readonly=True)


_F32, _F64, _U8, _BITS = (rows_of(t) for t in (types.float32, types.float64, types.uint8, types.uint64))
_INDEX = types.Array(types.int64, 1, "C", readonly=True)
_REAL = [(t, t) for t in (_F32, _F64, _U8)]


def _pair_signatures(kinds: Any) -> list[Any]:
    return [types.void(a, b, _INDEX, _INDEX, types.float64[::1]) for a, b in kinds]


def _tile_signatures(kinds: Any, real: Any) -> list[Any]:
    return [types.void(a, b, real[:, ::1]) for a, b in kinds]


@njit(_pair_signatures(_REAL), nogil=True, cache=True, error_model="numpy")
def pairs_l2(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of squares of each pair."""
    for i in range(len(out)):
        out[i] = sum_squares(a, index_a[i], b, index_b[i])


@njit(_pair_signatures(_REAL), nogil=True, cache=True, error_model="numpy")
def pairs_l1(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the sum of absolute differences of each pair."""
    for i in range(len(out)):
        out[i] = sum_absolute(a, index_a[i], b, index_b[i])


@njit(_pair_signatures([(_BITS, _BITS)]), nogil=True, cache=True)
def pairs_hamming(a: Any, b: Any, index_a: Any, index_b: Any, out: Any) -> None:
    """Write the number of differing bits of each pair."""
    for i in range(len(out)):
        out[i] = bit_count(a, index_a[i], b, index_b[i])


@njit(_tile_signatures(_REAL[:2], types.float64), nogil=True, cache=True, error_model="numpy")
def minus_l1(a: Any, b: Any, out: Any) -> None:
    """Write minus the sum of absolute differences of all pairs of rows."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = -sum_absolute(a, i, b, j)


@njit(_tile_signatures([(_BITS, _BITS)], types.float32), nogil=True, cache=True)
def minus_hamming(a: Any, b: Any, out: Any) -> None:
    """Write minus the Hamming distance of all pairs of rows of 64-bit words."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = -bit_count(a, i, b, j)
