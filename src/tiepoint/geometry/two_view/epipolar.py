# SPDX-License-Identifier: BSD-3-Clause
"""Normalised points, and the essential and fundamental matrices of a relative pose."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...core.errors import InputError

Floats = NDArray[np.floating]


def normalise_points(
    x: ArrayLike, K: ArrayLike, dtype: DTypeLike = np.float64, *, skew: bool = False
) -> Floats:
    """Pixels (n, 2) to the plane at distance 1: (x - c)/f per axis, all in `dtype`, which the result has.

    With `skew` the upper left 2x2 block of K is inverted, so that K[0, 1] is respected; else it is ignored.

    >>> normalise_points([[420.0, 240.0]], [[500, 0, 320], [0, 500, 240], [0, 0, 1]]).tolist()
    [[0.2, 0.0]]
    """
    p, k = as_points_keep_dtype(x).astype(dtype), intrinsics(K).astype(dtype)
    shifted = p - k[:2, 2]
    if skew:
        return np.asarray(shifted @ np.linalg.inv(k[:2, :2]).T)
    return np.asarray(shifted / np.array([k[0, 0], k[1, 1]], dtype))


def intrinsics(K: ArrayLike) -> NDArray[np.float64]:
    """K as float64 (3, 3), checked: finite and invertible, else `InputError`."""
    k = np.asarray(K, np.float64)
    if k.shape != (3, 3):
        raise InputError(f"K has shape (3, 3), found {k.shape}")
    if not np.isfinite(k).all() or abs(np.linalg.det(k)) < 1e-12:
        raise InputError("K must be finite and invertible; look at its focal lengths")
    return k


def cross(t: ArrayLike) -> NDArray[np.float64]:
    """The matrix [t]x of the vector product, [t]x v = t x v.

    >>> cross([1, 2, 3]).tolist()
    [[0.0, -3.0, 2.0], [3.0, 0.0, -1.0], [-2.0, 1.0, 0.0]]
    """
    x, y, z = np.asarray(t, np.float64).ravel()
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], np.float64)


def essential(T: ArrayLike) -> NDArray[np.float64]:
    """E = [t]x R of T_0to1, (3, 4) or (4, 4); u1^T E u0 = 0 for true matches.

    >>> essential(np.hstack([np.eye(3), [[1], [0], [0]]])).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]
    """
    T = np.asarray(T, np.float64)
    return np.asarray(cross(T[:3, 3]) @ T[:3, :3])


def fundamental(K0: ArrayLike, K1: ArrayLike, T: ArrayLike) -> NDArray[np.float64]:
    """F = K1^-T E K0^-1 of T_0to1, for pixels: x1^T F x0 = 0."""
    return np.asarray(np.linalg.inv(intrinsics(K1)).T @ essential(T) @ np.linalg.inv(intrinsics(K0)))


def as_points_keep_dtype(x: ArrayLike) -> Floats:
    """Points (n, 2) in single precision where they are, else in double; anything else is an `InputError`."""
    p = np.asarray(x)
    p = p if p.dtype == np.float32 else p.astype(np.float64)
    if p.size == 0:
        return np.empty((0, 2), p.dtype)
    if p.ndim != 2 or p.shape[1] != 2:
        raise InputError(f"points have shape (n, 2), found {p.shape}")
    return np.asarray(p)
