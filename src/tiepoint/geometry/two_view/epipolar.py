# SPDX-License-Identifier: BSD-3-Clause
"""Normalised points, essential and fundamental matrices of a relative pose, and epipolar distances.

In the formulas, l = F x0 and m = F^T x1 are the epipolar lines of a match, and r = x1^T F x0 is its residual.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...core.errors import InputError

Floats = NDArray[np.floating]


def normalise_points(
    x: ArrayLike, K: ArrayLike, dtype: DTypeLike = np.float64, *, skew: bool = False
) -> Floats:
    """Convert pixels (n, 2) to normalised coordinates (x - c)/f, computed and returned in `dtype`.

    With `skew` the upper left 2 x 2 block of K is inverted, including K[0, 1]. Otherwise K[0, 1] is ignored.

    >>> normalise_points([[420.0, 240.0]], [[500, 0, 320], [0, 500, 240], [0, 0, 1]]).tolist()
    [[0.2, 0.0]]
    """
    p, k = as_points_keep_dtype(x).astype(dtype), intrinsics(K).astype(dtype)
    shifted = p - k[:2, 2]
    if skew:
        return np.asarray(shifted @ np.linalg.inv(k[:2, :2]).T)
    return np.asarray(shifted / np.array([k[0, 0], k[1, 1]], dtype))


def intrinsics(K: ArrayLike) -> NDArray[np.float64]:
    """Convert K to float64 (3, 3); raise `InputError` unless it is finite and invertible."""
    k = np.asarray(K, np.float64)
    if k.shape != (3, 3):
        raise InputError(f"K: expected shape (3, 3), found {k.shape}; pass one intrinsic matrix")
    if not np.isfinite(k).all() or abs(np.linalg.det(k)) < 1e-12:
        raise InputError("K must be finite and invertible; check its focal lengths")
    return k


def cross(t: ArrayLike) -> NDArray[np.float64]:
    """Return the matrix [t]x of the cross product, [t]x v = t x v.

    >>> cross([1, 2, 3]).tolist()
    [[0.0, -3.0, 2.0], [3.0, 0.0, -1.0], [-2.0, 1.0, 0.0]]
    """
    x, y, z = np.asarray(t, np.float64).ravel()
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], np.float64)


def essential(T: ArrayLike) -> NDArray[np.float64]:
    """Return E = [t]x R of the pose T_0to1, (3, 4) or (4, 4). True matches satisfy u1^T E u0 = 0.

    >>> essential(np.hstack([np.eye(3), [[1], [0], [0]]])).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]
    """
    T = np.asarray(T, np.float64)
    return np.asarray(cross(T[:3, 3]) @ T[:3, :3])


def fundamental(K0: ArrayLike, K1: ArrayLike, T: ArrayLike) -> NDArray[np.float64]:
    """Return F = K1^-T E K0^-1 of the pose T_0to1. True matches in pixels satisfy x1^T F x0 = 0."""
    return np.asarray(np.linalg.inv(intrinsics(K1)).T @ essential(T) @ np.linalg.inv(intrinsics(K0)))


def in_front(u0: ArrayLike, u1: ArrayLike, T: ArrayLike, *, min_sine: float = 0.0) -> NDArray[np.bool_]:
    """Return whether the points (n,) that matches triangulate to are in front of both cameras.

    `u0` and `u1` (n, 2) are normalised coordinates. The depths z0 and z1 minimise |z0 R u0 + t - z1 u1|. The
    result is False for rays that are parallel, or whose angle has a sine of at most `min_sine`: noise decides
    the sign of such depths.

    >>> T = np.hstack([np.eye(3), [[-1], [0], [0]]])
    >>> in_front([[0.3, 0.0], [0.1, 0.0]], [[0.1, 0.0], [0.3, 0.0]], T).tolist()
    [True, False]
    """
    pose = np.asarray(T, np.float64)
    x0, x1 = (np.asarray(u, np.float64).reshape(-1, 2) for u in (u0, u1))
    a, b = (np.column_stack([x, np.ones(len(x))]) for x in (x0, x1))
    a, t = a @ pose[:3, :3].T, pose[:3, 3]
    aa, bb, ab = (a * a).sum(axis=1), (b * b).sum(axis=1), (a * b).sum(axis=1)
    at, bt, determinant = a @ t, b @ t, aa * bb - ab**2
    return np.asarray((determinant > min_sine**2 * aa * bb) & (bt * ab > at * bb) & (bt * aa > at * ab), bool)


def as_points_keep_dtype(x: ArrayLike) -> Floats:
    """Convert points to (n, 2); float32 stays float32, other types become float64."""
    p = np.asarray(x)
    p = p if p.dtype == np.float32 else p.astype(np.float64)
    if p.size == 0:
        return np.empty((0, 2), p.dtype)
    if p.ndim != 2 or p.shape[1] != 2:
        raise InputError(f"points: expected shape (n, 2), found {p.shape}; pass one (x, y) row per point")
    return np.asarray(p)


def squared_distances(u0: ArrayLike, u1: ArrayLike, E: ArrayLike) -> Floats:
    """Return squared symmetric epipolar distances (n,): r^2 (1/(l1^2+l2^2) + 1/(m1^2+m2^2)).

    The result has the precision of the points and does not depend on the scale of t. The common threshold
    5e-4 is about 9 px in an image 640 px wide. The same threshold on `mean_distances` is 30 times stricter.

    >>> from tiepoint.geometry.two_view.epipolar import essential
    >>> E = essential(np.hstack([np.eye(3), [[1], [0], [0]]]))
    >>> squared_distances([[0.0, 0.0]], [[0.3, 0.1]], E).round(12).tolist()
    [0.02]
    """
    r, l, m = _lines(u0, u1, E)
    with np.errstate(all="ignore"):
        return np.asarray(r**2 * (1 / l + 1 / m))


def mean_distances(u0: ArrayLike, u1: ArrayLike, E: ArrayLike, floor: float = 1e-6) -> Floats:
    """Return mean epipolar distances (n,): |r| (1/sqrt(l1^2+l2^2) + 1/sqrt(m1^2+m2^2))/2.

    Each sum of squares is at least `floor`. Near an epipole the result therefore depends on the scale of t.

    >>> from tiepoint.geometry.two_view.epipolar import essential
    >>> E = essential(np.hstack([np.eye(3), [[1], [0], [0]]]))
    >>> mean_distances([[0.0, 0.0]], [[0.3, 0.1]], E).round(12).tolist()
    [0.1]
    """
    r, l, m = _lines(u0, u1, E)
    l, m = np.maximum(l, l.dtype.type(floor)), np.maximum(m, m.dtype.type(floor))
    return np.asarray(np.abs(r) * (1 / np.sqrt(l) + 1 / np.sqrt(m)) / 2)


def pixel_distances(x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, T: ArrayLike) -> Floats:
    """Return the mean distance of matches to their true epipolar lines in both images, in pixels, (n,).

    >>> K = np.diag([100.0, 100.0, 1.0])
    >>> pixel_distances([[0, 0]], [[30, 10]], K, K, np.hstack([np.eye(3), [[1], [0], [0]]])).round(9).tolist()
    [10.0]
    """
    return line_distances(x0, x1, fundamental(K0, K1, T))


def line_distances(x0: ArrayLike, x1: ArrayLike, F: ArrayLike) -> Floats:
    """Return mean epipolar distances (n,) under F: |r| (1/sqrt(l1^2+l2^2) + 1/sqrt(m1^2+m2^2))/2 in pixels.

    Infinite if a line has l1 = l2 = 0.

    >>> line_distances([[0, 0]], [[30, 10]], [[0, 0, 0], [0, 0, -1], [0, 1, 0]]).tolist()
    [10.0]
    """
    r, l, m = _lines(x0, x1, F)
    with np.errstate(all="ignore"):
        return _at_infinity(np.abs(r) * (1 / np.sqrt(l) + 1 / np.sqrt(m)) / 2, l, m)


def symmetric_distances(x0: ArrayLike, x1: ArrayLike, F: ArrayLike) -> Floats:
    """Return symmetric epipolar distances (n,): sqrt(r^2 (1/(l1^2+l2^2) + 1/(m1^2+m2^2))) in pixels.

    Infinite if a line has l1 = l2 = 0.

    >>> symmetric_distances([[0, 0]], [[30, 10]], [[0, 0, 0], [0, 0, -1], [0, 1, 0]]).round(9).tolist()
    [14.142135624]
    """
    r, l, m = _lines(x0, x1, F)
    with np.errstate(all="ignore"):
        return _at_infinity(np.sqrt(r**2 * (1 / l + 1 / m)), l, m)


def larger_distances(x0: ArrayLike, x1: ArrayLike, F: ArrayLike) -> Floats:
    """Return the larger of both epipolar distances (n,) under F: |r| / sqrt(min(l1^2+l2^2, m1^2+m2^2)).

    Infinite if a line has l1 = l2 = 0.

    >>> larger_distances([[0, 0]], [[30, 10]], [[0, 0, 0], [0, 0, -2], [0, 1, 0]]).tolist()
    [20.0]
    """
    r, l, m = _lines(x0, x1, F)
    with np.errstate(all="ignore"):
        return _at_infinity(np.abs(r) / np.sqrt(np.minimum(l, m)), l, m)


def _lines(x0: ArrayLike, x1: ArrayLike, F: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the residual r and the squared line norms l1^2 + l2^2 and m1^2 + m2^2 of every match."""
    a, b = as_points_keep_dtype(x0), as_points_keep_dtype(x1)
    if len(a) != len(b):
        raise InputError(f"matches: found {len(a)} and {len(b)} points in images 0 and 1; pass equal numbers")
    f = np.asarray(F).astype(a.dtype)
    ones = np.ones((len(a), 1), a.dtype)
    a, b = np.hstack([a, ones]), np.hstack([b, ones])
    l, m = a @ f.T, b @ f
    return (b * l).sum(axis=1), (l[:, :2] ** 2).sum(axis=1), (m[:, :2] ** 2).sum(axis=1)


def _at_infinity(d: Floats, l: Floats, m: Floats) -> Floats:
    return np.asarray(np.where((l == 0) | (m == 0), np.inf, d))
