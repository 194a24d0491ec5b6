# SPDX-License-Identifier: BSD-3-Clause
"""Compiled passes over rows: fingerprints for finding repeats, centred norms, rounding to the filter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..model.compiled import compiled, matrix
from ._lanes import sum_squares

_CENTRE, _VECTOR = matrix(types.float64), types.float64[::1]


def _survey_signature(rows: Any) -> Any:
    return types.boolean(matrix(rows), _CENTRE, _VECTOR)


@compiled(_survey_signature)
def centred_squares(x: Any, centre: Any, out: Any) -> bool:
    """Write |x_i - centre|^2; return whether all values are whole numbers."""
    whole = True
    for i in range(x.shape[0]):
        out[i] = sum_squares(x, i, centre, 0)
        if whole:
            broken = 0
            for k in range(x.shape[1]):
                broken += np.rint(x[i, k]) != x[i, k]
            whole = broken == 0
    return whole


def _words_signature(words: Any) -> Any:
    return types.void(matrix(words), types.uint64[::1], types.uint64[::1])


@compiled(_words_signature)
def fingerprints(words: Any, keys: Any, out: Any) -> None:
    """Write the sum of word x key (mod 2^64) of each row: equal rows have equal fingerprints."""
    for i in range(words.shape[0]):
        total = np.uint64(0)
        for k in range(words.shape[1]):
            total += np.uint64(words[i, k]) * keys[k]
        out[i] = total


def _same_signature(words: Any) -> Any:
    return types.void(matrix(words), types.int64[::1], types.boolean[::1])


@compiled(_same_signature)
def same_rows(words: Any, other: Any, out: Any) -> None:
    """Write whether row i has the words of row other[i]."""
    for i in range(words.shape[0]):
        different = 0
        if other[i] != i:
            for k in range(words.shape[1]):
                different += words[i, k] != words[other[i], k]
        out[i] = different == 0


def _project_signature(rows: Any, real: Any) -> Any:
    return types.void(matrix(rows), _CENTRE, types.float64, real[:, ::1], real[::1], _VECTOR)


@compiled(_project_signature)
def project(x: Any, centre: Any, scale: float, rows: Any, half: Any, square: Any) -> None:
    """Write fl((x - centre) scale), its squared norm (float64) and half of that in the filter's format."""
    origin = np.zeros((1, x.shape[1]))
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            rows[i, k] = (np.float64(x[i, k]) - centre[0, k]) * scale
        square[i] = sum_squares(rows, i, origin, 0)
        half[i] = 0.5 * square[i]
