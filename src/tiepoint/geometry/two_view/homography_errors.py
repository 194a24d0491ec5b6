# SPDX-License-Identifier: BSD-3-Clause
"""Errors of homographies under the rules of the matching papers.

These rules divide by the third coordinate whatever its sign; `geometry.corners.corner_error` is the one
that knows what lies behind the camera.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .estimator import as_matches
from .scaling import Resize

Floats = NDArray[np.float64]

COLLAPSED = np.diag([0.0, 0.0, 1.0])
"""All points to (0, 0): what a missing model is replaced by where a failure has a finite error."""


def scaled_homography(H: ArrayLike, resize0: Resize, resize1: Resize) -> Floats:
    """H between resized images: S1 H S0^-1.

    >>> half = Resize((320, 240), (0.5, 0.5))
    >>> scaled_homography([[1, 0, 10], [0, 1, 0], [0, 0, 1]], half, half)[0].tolist()
    [1.0, 0.0, 5.0]
    """
    before = np.diag([1 / resize0.scale[0], 1 / resize0.scale[1], 1.0])
    return np.asarray(np.diag([*resize1.scale, 1.0]) @ np.asarray(H, np.float64) @ before)


def corner_distance(
    H: ArrayLike,
    H_gt: ArrayLike,
    size: tuple[float, float],
    *,
    edge: bool = False,
    dtype: DTypeLike = np.float64,
) -> float:
    """Mean distance of the four corners of image 0 under two homographies, in pixels of image 1.

    Args:
        H: the estimate; one that is not finite has an infinite error.
        H_gt: the truth.
        size: (width, height) of image 0 in the same frame as the homographies.
        edge: corners at 0 and w, h instead of 0 and w - 1, h - 1.
        dtype: precision of the mapping.

    >>> shift = [[1, 0, 3], [0, 1, 4], [0, 0, 1]]
    >>> corner_distance(shift, np.eye(3), (10, 10)), corner_distance(COLLAPSED, np.eye(3), (2, 1))
    (5.0, 0.5)
    """
    if not np.isfinite(H).all():
        return float("inf")
    w, h = size if edge else (size[0] - 1, size[1] - 1)
    x = np.array([[0, 0], [0, h], [w, 0], [w, h]], dtype)
    return float(np.linalg.norm(map_points(H, x, dtype) - map_points(H_gt, x, dtype), axis=1).mean())


def transfer_distances(x0: ArrayLike, x1: ArrayLike, H: ArrayLike) -> Floats:
    """(|H x0 - x1| + |H^-1 x1 - x0|)/2 of matches, (n,), in float64.

    >>> transfer_distances([[0, 0]], [[3, 4]], np.eye(3)).tolist()
    [5.0]
    """
    a, b = as_matches(x0, x1)
    there = np.linalg.norm(map_points(H, a) - b, axis=1)
    return np.asarray(
        (there + np.linalg.norm(map_points(np.linalg.inv(np.asarray(H, np.float64)), b) - a, axis=1)) / 2
    )


def map_points(H: ArrayLike, x: ArrayLike, dtype: DTypeLike = np.float64) -> Floats:
    """Points (n, 2) under H, divided by the third coordinate whatever its sign; all in `dtype`."""
    h, p = np.asarray(H).astype(dtype), np.asarray(x).astype(dtype).reshape(-1, 2)
    y = np.hstack([p, np.ones((len(p), 1), dtype)]) @ h.T
    with np.errstate(all="ignore"):
        return np.asarray(y[:, :2] / y[:, 2:])
