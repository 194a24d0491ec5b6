# SPDX-License-Identifier: BSD-3-Clause
"""How far a homography carries the visible part of an image from where it belongs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .homography_errors import map_points
from .libraries import import_library

Floats = NDArray[np.float64]
Size = tuple[int, int]


def visible_error(H: ArrayLike, H_gt: ArrayLike, size0: Size, size1: Size) -> float:
    """Mean distance |H_gt x - H x| in pixels of image 1, over the pixels x of image 0 that image 1 shows.

    All in float64; a pixel is visible where H_gt x lies between the outermost pixel centres of image 1, on
    the side of the horizon that most of the image lies on. A pixel that H sends to infinity makes the error
    infinite, and so does an H that is not finite. Without any visible pixel NaN.

    >>> shift = [[1, 0, 3], [0, 1, 4], [0, 0, 1]]
    >>> visible_error(shift, np.eye(3), (9, 7), (9, 7))
    5.0
    """
    h, truth = np.asarray(H, np.float64), np.asarray(H_gt, np.float64)
    if not np.isfinite(h).all():
        return float("inf")
    x = _grid(size0)
    there = map_points(truth, x)
    depth = x @ truth[2, :2] + truth[2, 2]
    side = np.sign(np.median(depth))
    seen = (depth * side > 0) & (there >= 0).all(axis=1) & (there <= np.array(size1) - 1).all(axis=1)
    if not seen.any():
        return float("nan")
    with np.errstate(invalid="ignore"):
        error = np.linalg.norm(there[seen] - map_points(h, x[seen]), axis=1).mean()
    return float(error) if np.isfinite(error) else float("inf")


def visible_error_float32(H: ArrayLike, H_gt: ArrayLike, size0: Size, size1: Size) -> float:
    """`visible_error` as wxbs-benchmark computes it: OpenCV's warp decides visibility, all in float32.

    An image of ones is warped to image 1 and back, bilinear with a border of 0; pixels above 0 count. A point
    whose third coordinate is at most FLT_EPSILON in size is taken to be (0, 0).
    """
    cv2 = import_library("cv2")
    truth = np.asarray(H_gt, np.float64)
    ones = np.ones(size0[::-1])
    back = cv2.warpPerspective(cv2.warpPerspective(ones, truth, size1), np.linalg.inv(truth), size0)
    seen = np.asarray(back > 0).ravel()
    if not seen.any():
        return float("nan")
    x = _grid(size0).astype(np.float32)[seen]
    a, b = (_mapped_float32(m, x) for m in (truth, np.asarray(H, np.float64)))
    return float(np.sqrt(((a - b) ** 2).sum(axis=1)).astype(np.float64).mean())


def _mapped_float32(H: Floats, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points under H rounded to float32; computed in float64 and rounded once."""
    h = H.astype(np.float32).astype(np.float64)
    y = np.column_stack([x.astype(np.float64), np.ones(len(x))]) @ h.T
    near = np.abs(y[:, 2:]) <= np.finfo(np.float32).eps
    return np.asarray(np.where(near, 0.0, y[:, :2] / np.where(near, 1.0, y[:, 2:])), np.float32)


def _grid(size: Size) -> Floats:
    y, x = np.mgrid[: size[1], : size[0]]
    return np.column_stack([x.ravel(), y.ravel()]).astype(np.float64)
