# SPDX-License-Identifier: BSD-3-Clause
"""A homography from all matches at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def dlt(x0: ArrayLike, x1: ArrayLike, weights: ArrayLike | None = None, dtype: DTypeLike = np.float64) -> Any:
    """Weighted direct linear transform of all matches, H33 = 1.

    Points are moved to weighted mean 0 and weighted mean radius sqrt 2; with the 2n x 9 equations A and
    weights W the system (A^T W A) h = (1, …, 1) is solved. Trap: that is one step of inverse iteration, not
    the smallest eigenvector; on noisy matches the two differ. Four matches, and systems that are singular,
    give the null vector of A.
    """
    w = np.ones(len(np.asarray(x0))) if weights is None else np.asarray(weights)
    w = np.maximum(w.astype(dtype), 0)
    a, from_a = centre_points(np.asarray(x0, dtype), w)
    b, from_b = centre_points(np.asarray(x1, dtype), w)
    ones, zeros = np.ones((len(a), 1), dtype), np.zeros((len(a), 3), dtype)
    p = np.hstack([a, ones])
    rows = np.stack([np.hstack([zeros, -p, b[:, 1:] * p]), np.hstack([p, zeros, -b[:, :1] * p])], axis=1)
    A = rows.reshape(-1, 9)
    twice = np.repeat(w, 2)
    try:
        h = _null(A, twice) if len(a) == 4 else np.linalg.solve((A.T * twice) @ A, np.ones(9, dtype))
    except np.linalg.LinAlgError:
        h = _null(A, twice)
    H = np.linalg.inv(from_b) @ (h.reshape(3, 3) @ from_a)
    with np.errstate(all="ignore"):
        return np.asarray(H / H[2, 2], np.float64)


def _null(A: Any, w: Any) -> Any:
    return np.linalg.svd(A * np.sqrt(w)[:, None])[2][-1]


def centre_points(x: Any, w: Any) -> tuple[Any, Any]:
    """Points with weighted mean 0 and weighted mean radius sqrt 2, and the map (3, 3) to them."""
    w = w if w.sum() > 0 else np.ones_like(w)
    middle = (x * w[:, None]).sum(axis=0) / w.sum()
    radius = (np.linalg.norm(x - middle, axis=1) * w).sum() / w.sum()
    s = x.dtype.type(np.sqrt(2)) / (radius + x.dtype.type(1e-8))
    return (x - middle) * s, np.array([[s, 0, -s * middle[0]], [0, s, -s * middle[1]], [0, 0, 1]], x.dtype)
