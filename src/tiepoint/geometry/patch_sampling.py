# SPDX-License-Identifier: BSD-3-Clause
"""Affine frames: where a region lies in an image and how it is turned.

A frame is (2, 3), [A | t]: it maps the unit circle, or the square [-1, 1]^2 around it, to the image,
x = A u + t. Its ellipse is the image of the unit circle. `magnify` grows the region about its centre.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .covisibility import Size, centre, in_view
from .homography import Floats, local_affine, project


def as_frames(frames: ArrayLike) -> Floats:
    """Frames as float64 (n, 2, 3); anything else is an `InputError`."""
    f = np.asarray(frames, dtype=np.float64)
    if f.size == 0:
        return np.empty((0, 2, 3))
    if f.ndim != 3 or f.shape[1:] != (2, 3):
        raise InputError(f"frames have shape (n, 2, 3), found {f.shape}")
    return f


def similarity_frames(points: ArrayLike, radius: ArrayLike, angle_rad: ArrayLike = 0.0) -> Floats:
    """Frames of oriented circles: A = radius (cos, -sin; sin, cos), clockwise since y is down.

    >>> similarity_frames([[3, 4]], [2])[0]
    array([[ 2., -0.,  3.],
           [ 0.,  2.,  4.]])
    """
    p = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    r = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(p))
    a = np.broadcast_to(np.asarray(angle_rad, dtype=np.float64), len(p))
    c, s = r * np.cos(a), r * np.sin(a)
    return np.stack([np.stack([c, -s, p[:, 0]], -1), np.stack([s, c, p[:, 1]], -1)], axis=1)


def magnify(frames: ArrayLike, factor: float) -> Floats:
    """The same centres with the linear part times `factor`.

    >>> magnify([[[1, 0, 7], [0, 1, 8]]], 5)[0, 0].tolist()
    [5.0, 0.0, 7.0]
    """
    f = as_frames(frames).copy()
    f[:, :, :2] *= factor
    return f


def project_frames(h: ArrayLike, frames: ArrayLike, source: Size) -> Floats:
    """Frames seen through a homography, by its affine approximation at their centres: (J A, H t).

    NaN where the centre has no image. `source` is (width, height) of the image the frames lie in.

    >>> project_frames([[2, 0, 1], [0, 2, 0], [0, 0, 1]], [[[1, 0, 7], [0, 1, 8]]], (20, 20))[0]
    array([[ 2.,  0., 15.],
           [ 0.,  2., 16.]])
    """
    f = as_frames(frames)
    out = np.empty_like(f)
    out[:, :, 2] = project(h, f[:, :, 2], reference=centre(source))
    out[:, :, :2] = local_affine(h, f[:, :, 2]) @ f[:, :, :2]
    out[np.isnan(out[:, 0, 2])] = np.nan
    return out


def square_in_view(frames: ArrayLike, size: Size) -> NDArray[np.bool_]:
    """Whether the whole square [-1, 1]^2 of each frame lies on an image of (width, height), (n,).

    >>> square_in_view([[[2, 0, 2], [0, 2, 2]], [[2, 0, 1], [0, 2, 2]]], (5, 5)).tolist()
    [True, False]
    """
    f = as_frames(frames)
    unit = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]], dtype=np.float64)
    square = (f[:, :, :2] @ unit + f[:, :, 2:]).transpose(0, 2, 1)
    return np.asarray(in_view(square.reshape(-1, 2), size).reshape(-1, 4).all(axis=1))
