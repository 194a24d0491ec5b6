# SPDX-License-Identifier: BSD-3-Clause
"""Plane homographies in pixel coordinates.

Pixel convention of the package: integer coordinates are pixel **centres**, (0, 0) is the centre of the top
left pixel, x points right, y points down, and an image of width w covers x from -0.5 to w - 0.5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from ..formats.text.numbers import is_singular

Floats = NDArray[np.float64]

_INFINITY = 1e-12


def as_homography(h: ArrayLike) -> Floats:
    """Convert a matrix to float64 (3, 3); raise `InputError` unless it is finite and invertible.

    >>> as_homography([[2, 0, 0], [0, 2, 0], [0, 0, 2]]).dtype
    dtype('float64')
    """
    m = np.asarray(h, dtype=np.float64)
    if m.shape != (3, 3):
        raise InputError(f"homography: expected shape (3, 3), found {m.shape}; pass one 3 x 3 matrix")
    if not np.isfinite(m).all():
        raise InputError("homography: contains NaN or infinity; pass a finite matrix")
    if is_singular(m):
        raise InputError("homography: the matrix is singular; pass an invertible matrix")
    return m


def as_points(points: ArrayLike) -> Floats:
    """Convert points to float64 (n, 2), columns x and y; raise `InputError` for other shapes."""
    p = np.asarray(points, dtype=np.float64)
    if p.size == 0:
        return np.empty((0, 2))
    if p.ndim != 2 or p.shape[1] != 2:
        raise InputError(f"points: expected shape (n, 2), found {p.shape}; pass one (x, y) row per point")
    return p


def denominator(h: ArrayLike, points: ArrayLike) -> Floats:
    """Return the third homogeneous coordinate w = h31 x + h32 y + h33 of each point, float64 (n,).

    The result is exactly 0 if |w| <= 1e-12 (|h31 x| + |h32 y| + |h33|). This test does not depend on the
    scale of the matrix.
    """
    m, p = as_homography(h), as_points(points)
    terms = np.stack([m[2, 0] * p[:, 0], m[2, 1] * p[:, 1], np.full(len(p), m[2, 2])])
    w = terms.sum(axis=0)
    return np.where(np.abs(w) <= _INFINITY * np.abs(terms).sum(axis=0), 0.0, w)


def project(h: ArrayLike, points: ArrayLike, *, reference: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Project points through a homography; NaN for points at infinity or behind the camera.

    Returns (x', y') = (X / w, Y / w) with (X, Y, w) = H (x, y, 1), float64 (n, 2). A point is at infinity if
    w = 0 (see `denominator`). It is behind the camera if the sign of w differs from the sign at `reference`.

    H and -H are the same homography, so a point known to be in front of the camera must identify the sides.
    Pass the centre of the source image as `reference`, as `correspondence.covisible` does. A reference point
    at infinity raises `InputError`.

    >>> project([[1, 0, 5], [0, 1, 0], [0.01, 0, 1]], [[0, 0], [-100, 3], [-200, 3]])
    array([[ 5.,  0.],
           [nan, nan],
           [nan, nan]])
    """
    m, p = as_homography(h), as_points(points)
    side = denominator(m, [reference])[0]
    if side == 0:
        raise InputError(f"reference: the point {reference} is mapped to infinity; pass a point in view")
    w = denominator(m, p)
    front = w * np.sign(side) > 0
    safe = np.where(front, w, 1.0)
    xy = (p @ m[:2, :2].T + m[:2, 2]) / safe[:, None]
    return np.where(front[:, None], xy, np.nan)


def inverse(h: ArrayLike) -> Floats:
    """Return the inverse of a homography, scaled such that compose(inverse(h), h) is the identity.

    >>> inverse([[1, 0, 5], [0, 1, 0], [0, 0, 1]])[0, 2]
    np.float64(-5.0)
    """
    return np.asarray(np.linalg.inv(as_homography(h)), dtype=np.float64)


def compose(*homographies: ArrayLike) -> Floats:
    """Return the matrix product of homographies. The **last** one is applied first: a(b(p)).

    >>> shift = [[1, 0, 5], [0, 1, 0], [0, 0, 1]]
    >>> project(compose(shift, shift), [[0, 0]])
    array([[10.,  0.]])
    """
    product = np.eye(3)
    for h in homographies:
        product = product @ as_homography(h)
    return product


def local_affine(h: ArrayLike, points: ArrayLike) -> Floats:
    """Return the derivative of the projection at each point, float64 (n, 2, 2), NaN at infinity.

    The Jacobian is J = (H[:2, :2] - (x', y')^T (h31, h32)) / w, so that project(p + d) = project(p) + J d +
    O(|d|^2). Its determinant is det H / w^3, which is negative for a reflection.

    >>> local_affine([[2, 0, 0], [0, 3, 0], [0, 0, 1]], [[7, 7]])[0]
    array([[2., 0.],
           [0., 3.]])
    """
    m, p = as_homography(h), as_points(points)
    w = denominator(m, p)
    w = np.where(w == 0, np.nan, w)
    xy = (p @ m[:2, :2].T + m[:2, 2]) / w[:, None]
    return (m[:2, :2] - xy[:, :, None] * m[2, :2]) / w[:, None, None]


def corners(size: tuple[int, int]) -> Floats:
    """Return the centres (4, 2) of the four corner pixels of an image of (width, height), clockwise.

    >>> corners((3, 2)).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]]
    """
    w, h = size
    return np.array([[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]], dtype=np.float64)


def corner_error(estimate: ArrayLike, truth: ArrayLike, size: tuple[int, int]) -> float:
    """Return the mean distance, in target pixels, between the image corners mapped by two homographies.

    `size` is (width, height) of the **source** image. Corners that the true homography maps to infinity or
    behind the camera are skipped. At least one corner remains, because the image centre is in front of the
    camera. The error is infinite if the estimate maps a remaining corner to infinity or behind the camera, or
    if it is singular or NaN. A singular or NaN true homography raises `InputError`.

    >>> corner_error([[1, 0, 3], [0, 1, 4], [0, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (10, 10))
    5.0
    """
    middle = ((size[0] - 1) / 2, (size[1] - 1) / 2)
    expected = project(truth, corners(size), reference=middle)
    visible = ~np.isnan(expected).any(axis=1)
    try:
        estimated = project(estimate, corners(size)[visible], reference=middle)
    except InputError:
        return float("inf")
    if np.isnan(estimated).any():
        return float("inf")
    return float(np.linalg.norm(estimated - expected[visible], axis=1).mean())
