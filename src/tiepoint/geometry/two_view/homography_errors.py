# SPDX-License-Identifier: BSD-3-Clause
"""Errors of homographies under the conventions of the matching papers.

These functions do not test the sign of the third coordinate. `homography.corner_error` detects points behind
the camera.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .estimator import as_matches, import_library
from .scaling import Resize

Floats = NDArray[np.float64]

COLLAPSED = np.diag([0.0, 0.0, 1.0])
"""Homography that maps all points to (0, 0), in place of a failed estimate that needs a finite error."""


def scaled_homography(H: ArrayLike, resize0: Resize, resize1: Resize) -> Floats:
    """Return the homography between resized images, S1 H S0^-1.

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
    """Return the mean distance, in pixels of image 1, between the image 0 corners mapped by two homographies.

    `size` is (width, height) of image 0 in the frame of the homographies. With `edge` the corners are at 0
    and w, h instead of w - 1, h - 1. An estimate that is not finite has an infinite error.

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
    """Return symmetric transfer errors (n,) of matches: (|H x0 - x1| + |H^-1 x1 - x0|)/2 in float64.

    >>> transfer_distances([[0, 0]], [[3, 4]], np.eye(3)).tolist()
    [5.0]
    """
    a, b = as_matches(x0, x1)
    forward = np.linalg.norm(map_points(H, a) - b, axis=1)
    backward = np.linalg.norm(map_points(np.linalg.inv(np.asarray(H, np.float64)), b) - a, axis=1)
    return np.asarray((forward + backward) / 2)


def map_points(H: ArrayLike, x: ArrayLike, dtype: DTypeLike = np.float64) -> Floats:
    """Map points (n, 2) by H, dividing by the third coordinate for any sign; all in `dtype`."""
    h, p = np.asarray(H).astype(dtype), np.asarray(x).astype(dtype).reshape(-1, 2)
    y = np.hstack([p, np.ones((len(p), 1), dtype)]) @ h.T
    with np.errstate(all="ignore"):
        return np.asarray(y[:, :2] / y[:, 2:])


Size = tuple[int, int]


def visible_error(H: ArrayLike, H_gt: ArrayLike, size0: Size, size1: Size) -> float:
    """Return the mean distance |H_gt x - H x| in pixels of image 1, over the pixels x visible in image 1.

    All arithmetic is float64. A pixel x of image 0 is visible if H_gt x is within the outermost pixel centres
    of image 1. It must also be on the same side of the horizon as most of image 0. The error is infinite if H
    is not finite or maps a visible pixel to infinity. It is NaN if no pixel is visible.

    >>> shift = [[1, 0, 3], [0, 1, 4], [0, 0, 1]]
    >>> visible_error(shift, np.eye(3), (9, 7), (9, 7))
    5.0
    """
    h, truth = np.asarray(H, np.float64), np.asarray(H_gt, np.float64)
    if not np.isfinite(h).all():
        return float("inf")
    x = _grid(size0)
    expected = map_points(truth, x)
    depth = x @ truth[2, :2] + truth[2, 2]
    side = np.sign(np.median(depth))
    inside = (expected >= 0).all(axis=1) & (expected <= np.array(size1) - 1).all(axis=1)
    visible = (depth * side > 0) & inside
    if not visible.any():
        return float("nan")
    with np.errstate(invalid="ignore"):
        error = np.linalg.norm(expected[visible] - map_points(h, x[visible]), axis=1).mean()
    return float(error) if np.isfinite(error) else float("inf")


def visible_error_float32(H: ArrayLike, H_gt: ArrayLike, size0: Size, size1: Size) -> float:
    """Compute `visible_error` as wxbs-benchmark does: in float32, with visible pixels found by image warping.

    An image of ones is warped to image 1 and back, bilinearly with a border of 0. Pixels with a value above 0
    are visible. A point whose third coordinate is at most FLT_EPSILON in magnitude maps to (0, 0).
    """
    cv2 = import_library("cv2")
    truth = np.asarray(H_gt, np.float64)
    ones = np.ones(size0[::-1])
    back = cv2.warpPerspective(cv2.warpPerspective(ones, truth, size1), np.linalg.inv(truth), size0)
    visible = np.asarray(back > 0).ravel()
    if not visible.any():
        return float("nan")
    x = _grid(size0).astype(np.float32)[visible]
    a, b = (_mapped_float32(m, x) for m in (truth, np.asarray(H, np.float64)))
    return float(np.sqrt(((a - b) ** 2).sum(axis=1)).astype(np.float64).mean())


def _mapped_float32(H: Floats, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map points by H rounded to float32. Compute in float64 and round the result once."""
    h = H.astype(np.float32).astype(np.float64)
    y = np.column_stack([x.astype(np.float64), np.ones(len(x))]) @ h.T
    near = np.abs(y[:, 2:]) <= np.finfo(np.float32).eps
    return np.asarray(np.where(near, 0.0, y[:, :2] / np.where(near, 1.0, y[:, 2:])), np.float32)


def _grid(size: Size) -> Floats:
    y, x = np.mgrid[: size[1], : size[0]]
    return np.column_stack([x.ravel(), y.ravel()]).astype(np.float64)
