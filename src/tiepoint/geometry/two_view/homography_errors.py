# SPDX-License-Identifier: BSD-3-Clause
"""Errors of homographies, as several matching papers define them.

These functions do not test the sign of the third coordinate. `homography.corner_error` detects points behind
the camera.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .estimator import as_matches, import_library
from .scaling import Resize

Floats = NDArray[np.float64]

SINGULAR = 1e-12
"""Largest ratio of smallest to largest singular value of a homography that counts as singular."""

COLLAPSED = np.diag([0.0, 0.0, 1.0])
"""Homography that maps all points to (0, 0). It replaces a failed estimate that needs a finite error."""


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

    `size` is (width, height) of image 0, in the pixels of the homographies. Corners are at 0 and w - 1, h -
    1; with `edge` they are at 0 and w, h. An estimate that is not finite has an infinite error.

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
    """Map points (n, 2) by H in the precision `dtype`. Divide by the third coordinate whatever its sign."""
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

    An image of ones is warped to image 1 and back, bilinearly with a border of 0. Pixels that are above 0
    afterwards are visible. A point whose third coordinate is at most FLT_EPSILON in magnitude maps to (0, 0).
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


def is_usable(H: ArrayLike, size: Size) -> bool:
    """Return whether H is finite and not singular, and its horizon does not cross the image of `size`.

    H is singular if sigma_3 <= 1e-12 sigma_1 of H / max |H|. The horizon does not cross the image if the
    third coordinates of the four mapped corner pixels have one sign. Sign and scale of H do not matter.

    >>> is_usable(np.diag([-7.0, -7.0, -7.0]), (9, 9)), is_usable(np.diag([1.0, 1.0, 0.0]), (9, 9))
    (True, False)
    """
    return unusable_reason(H, size) is None


def unusable_reason(H: ArrayLike, size: Size) -> str | None:
    """Return as text why `is_usable` is false; None if it is true."""
    h = np.asarray(H, np.float64)
    if not np.isfinite(h).all():
        return "is not finite"
    largest = np.abs(h).max()
    if largest == 0:
        return "is singular"
    sigma = np.linalg.svd(h / largest, compute_uv=False)
    if sigma[2] <= SINGULAR * sigma[0]:
        return "is singular"
    w = _corners(size) @ h[2, :2] + h[2, 2]
    return None if (w > 0).all() or (w < 0).all() else "has a horizon that crosses image 0"


def named_corner_error(H: ArrayLike, H_gt: ArrayLike, size: Size) -> float:
    """Return the mean distance between the corner pixels of image 0 mapped by H and by H_gt, in pixels.

    All arithmetic is float64. Corners are not sorted. The error is infinite unless H is
    usable; see `is_usable`.

    >>> half_turn = [[-1, 0, 9], [0, -1, 9], [0, 0, 1]]
    >>> [f(half_turn, np.eye(3), (10, 10)) > 12 for f in (named_corner_error, sorted_corner_error)]
    [True, False]
    """
    if not is_usable(H, size):
        return float("inf")
    x = _corners(size)
    return float(np.linalg.norm(map_points(H, x) - map_points(H_gt, x), axis=1).mean())


def sorted_corner_error(H: ArrayLike, H_gt: ArrayLike, size: Size) -> float:
    """Compute the corner error of MINIMA, which sorts the four corners of each homography before comparing.

    The corners are ordered as [argmin x+y, argmin y-x, argmax x+y, argmax y-x]. A half turn or a mirror image
    therefore has no error. Sums and distances are float32. The result is NaN if a corner is mapped to
    infinity.
    """
    x = _corners(size)
    first, second = (_sorted_corners(map_points(h, x)) for h in (H_gt, H))
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(first - second, axis=1).mean(dtype=np.float32))


def _sorted_corners(points: Floats) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore"):
        sums, differences = points.sum(axis=1), points[:, 1] - points[:, 0]
    order = [sums.argmin(), differences.argmin(), sums.argmax(), differences.argmax()]
    return points[order].astype(np.float32)


def _corners(size: Size) -> Floats:
    w, h = size
    return np.array([[0, 0], [w - 1, 0], [0, h - 1], [w - 1, h - 1]], np.float64)


def point_distances(H: ArrayLike, points: ArrayLike, true: ArrayLike) -> Floats:
    """Return the distances |H x - x'| (n,) of mapped points (n, 2) from their true positions (n, 2).

    Points are divided by the third coordinate whatever its sign.
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.norm(map_points(H, points) - np.asarray(true, np.float64), axis=1))
