# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops over rows: fingerprints, centred norms, and preparation for matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, njit, types

from ...core.numba_cache import compiled_for, matrix
from ..error_bound import FLOAT32_UNIT, score_bound
from .reference_distance import sum_squares
from .simd import pointer

_CENTRE, _VECTOR = matrix(types.float64), types.float64[::1]


def _squares_signature(rows: Any) -> Any:
    return types.boolean(matrix(rows), _CENTRE, _VECTOR)


@compiled_for(_squares_signature)
def centred_squares(x: Any, centre: Any, out: Any) -> bool:
    """Write |x_i - centre|^2 of each row i to `out`. Return whether all values are integers."""
    return _centred(x, centre, out)


@njit(nogil=True, error_model="numpy")
def _centred(x: Any, centre: Any, out: Any) -> bool:
    integers = True
    for i in range(x.shape[0]):
        out[i] = sum_squares(x, i, centre, 0)
        if integers:
            broken = 0
            for k in range(x.shape[1]):
                broken += np.rint(x[i, k]) != x[i, k]
            integers = broken == 0
    return integers


def _words_signature(words: Any) -> Any:
    return types.void(matrix(words), types.uint64[::1], types.uint64[::1])


@compiled_for(_words_signature)
def fingerprints(words: Any, keys: Any, out: Any) -> None:
    """Write a fingerprint of each row to `out`: the sum of its words times `keys` (mod 2^64)."""
    for i in range(words.shape[0]):
        total = np.uint64(0)
        for k in range(words.shape[1]):
            total += np.uint64(words[i, k]) * keys[k]
        out[i] = total


def _same_signature(words: Any) -> Any:
    return types.void(matrix(words), types.int64[::1], types.boolean[::1])


@compiled_for(_same_signature)
def same_rows(words: Any, other: Any, out: Any) -> None:
    """Write for each row i whether its words are equal to those of row other[i]."""
    for i in range(words.shape[0]):
        different = 0
        if other[i] != i:
            for k in range(words.shape[1]):
                different += words[i, k] != words[other[i], k]
        out[i] = different == 0


def _project_signature(rows: Any, real: Any) -> Any:
    return types.void(matrix(rows), _CENTRE, types.float64, real[:, ::1], real[::1], _VECTOR)


@compiled_for(_project_signature)
def project(x: Any, centre: Any, scale: float, rows: Any, half: Any, square: Any) -> None:
    """Write fl((x - centre) scale) of each row, its squared norm (float64), and half of that.

    `half` is in the dtype of `rows`.
    """
    _project(x, centre, scale, rows, half, square)


@njit(nogil=True, error_model="numpy")
def _project(x: Any, centre: Any, scale: float, rows: Any, half: Any, square: Any) -> None:
    origin = np.zeros((1, x.shape[1]))
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            rows[i, k] = (np.float64(x[i, k]) - centre[0, k]) * scale
        square[i] = sum_squares(rows, i, origin, 0)
        half[i] = 0.5 * square[i]


_single_bound = njit(nogil=True, error_model="numpy")(score_bound)
BAD_ROWS, REPEATS = 1, 2


@njit(nogil=True, error_model="numpy")
def _repeats(words: Any, keys: Any) -> int:
    """Count the rows that have the same fingerprint as an earlier row."""
    size = 2
    while size < 2 * words.shape[0]:
        size *= 2
    table, repeats = np.zeros(size, np.uint64), 0
    for i in range(words.shape[0]):
        total = np.uint64(0)
        for k in range(words.shape[1]):
            total += np.uint64(words[i, k]) * keys[k]
        total |= np.uint64(1)  # zero marks an empty cell
        at = np.int64(total >> np.uint64(20)) & (size - 1)
        while table[at] != 0 and table[at] != total:
            at = (at + 1) & (size - 1)
        repeats += 1 if table[at] == total else 0
        table[at] = total
    return repeats


def _enter_signature() -> Any:
    rows, out, real = matrix(types.float32), types.float32[:, ::1], types.float64[::1]
    arrays = (rows, rows, types.uint64[::1], types.float64, types.float64[:, ::1], out, out)
    result = types.Tuple((types.int64, types.float64, types.boolean, types.float64))
    return result(*arrays, types.float32[::1], types.float32[::1], real, real, real)


@compiled_for(_enter_signature)
def enter(
    a: Any, b: Any, keys: Any, worth: float, centre: Any, left: Any, right: Any, spare: Any, half: Any,
    square_a: Any, square_b: Any, error: Any,
) -> Any:  # fmt: skip
    """Prepare the matrix product of two small sets of float32 rows in one compiled call.

    Combines `find_distinct`, `make_frame`, `FilterFrame.project` and `ambiguity_band`. Writes the centre (1,
    d), the centred and scaled rows (`left`, `right`), half the squared norms of b (`half`), the squared norms
    of both sets, and the error bound of each query. Returns a code, the scale, whether products are exact,
    and the largest norm in b. The code is 0, or the reason why the rows need the general code path.
    """
    step = max(1, b.shape[0] // 256)
    count = 0
    centre[:] = 0.0
    for i in range(0, b.shape[0], step):
        count += 1
        for k in range(b.shape[1]):
            centre[0, k] += np.float64(b[i, k])
    for k in range(b.shape[1]):
        centre[0, k] /= count
    integers = _centred(a, centre, square_a)
    integers = _centred(b, centre, square_b) and integers
    if integers:
        for k in range(b.shape[1]):
            centre[0, k] = np.rint(centre[0, k])
        _centred(a, centre, square_a)
        _centred(b, centre, square_b)
    largest = 0.0
    for squares in (square_a, square_b):
        for i in range(len(squares)):
            if not squares[i] < np.inf:
                return BAD_ROWS, 1.0, False, 0.0
            largest = max(largest, squares[i])
    if _repeats(b.view(np.uint32), keys) >= worth * b.shape[0]:
        return REPEATS, 1.0, False, 0.0
    exact = integers and 1.5 * largest <= 2.0**23
    scale = 1.0 if exact else math.ldexp(1.0, -min(max(math.frexp(math.sqrt(largest))[1], -500), 510))
    _project(a, centre, scale, left, spare, square_a)
    _project(b, centre, scale, right, half, square_b)
    norm = 0.0
    for i in range(b.shape[0]):
        norm = max(norm, square_b[i])
    norm = math.sqrt(norm)
    for i in range(a.shape[0]):
        if exact:
            error[i] = 0.0
        else:
            error[i] = _single_bound(a.shape[1], FLOAT32_UNIT, math.sqrt(square_a[i]), norm, scale)
    return 0, scale, exact, norm


@compiled_for(lambda: types.void(types.uint64[::1], types.int64[::1], types.uint8[::1]))
def copy_parts(bases: Any, sizes: Any, out: Any) -> None:
    """Copy `sizes[i]` bytes from each address into one contiguous array. Addresses are not checked."""
    at = 0
    for i in range(len(bases)):
        start = 0
        if (bases[i] & np.uint64(7)) == 0 and at % 8 == 0:  # copying aligned words is vectorised
            start = sizes[i] & -8
            words = carray(pointer(bases[i]), (start >> 3,), np.uint64)
            aligned = out[at : at + start].view(np.uint64)
            for k in range(len(words)):
                aligned[k] = words[k]
        rest = carray(pointer(bases[i]), (sizes[i],), np.uint8)
        for k in range(start, sizes[i]):
            out[at + k] = rest[k]
        at += sizes[i]
