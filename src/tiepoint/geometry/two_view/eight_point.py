# SPDX-License-Identifier: BSD-3-Clause
"""A fundamental matrix from all correspondences at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .dlt import centre_points

Floats = NDArray[np.float64]
MIN_POINTS_EIGHT_POINT = 8


def eight_point(x0: ArrayLike, x1: ArrayLike) -> Floats:
    """F of length 1 and rank 2 with the smallest sum of (x1^T F x0)^2 over correspondences (n, 2), n >= 8.

    Points are moved to mean 0 and mean radius sqrt 2 before, which the result undoes; the smallest singular
    value is set to 0.

    >>> a = np.random.default_rng(0).random((9, 3)) + [0, 0, 2]
    >>> b = a - [1, 0, 0]
    >>> float(np.abs(eight_point(a[:, :2] / a[:, 2:], b[:, :2] / b[:, 2:])[0]).max().round(6))
    0.0
    """
    a, b = np.asarray(x0, np.float64), np.asarray(x1, np.float64)
    if len(a) < MIN_POINTS_EIGHT_POINT or len(a) != len(b):
        raise InputError(
            f"F needs at least {MIN_POINTS_EIGHT_POINT} correspondences, found {len(a)} and {len(b)} points"
        )
    ones = np.ones(len(a))
    (a, from_a), (b, from_b) = centre_points(a, ones), centre_points(b, ones)
    p, q = np.column_stack([a, ones]), np.column_stack([b, ones])
    rows = (q[:, :, None] * p[:, None, :]).reshape(-1, 9)
    U, s, V = np.linalg.svd(np.linalg.svd(rows)[2][-1].reshape(3, 3))
    F = from_b.T @ (U * [s[0], s[1], 0.0]) @ V @ from_a
    return np.asarray(F / np.linalg.norm(F), np.float64)
