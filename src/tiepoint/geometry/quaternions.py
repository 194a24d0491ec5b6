# SPDX-License-Identifier: BSD-3-Clause
"""Unit quaternions with w first (Hamilton convention), and the rotations that they represent.

All functions accept stacks: quaternions (…, 4), rotations (…, 3, 3), vectors (…, 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def rotations_of(q: ArrayLike) -> Floats:
    """Return the rotation matrices of unit quaternions.

    >>> rotations_of([0, 1, 0, 0]).diagonal().tolist()
    [1.0, -1.0, -1.0]
    """
    w, x, y, z = np.moveaxis(np.asarray(q, np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternions_of(R: ArrayLike) -> Floats:
    """Return the unit quaternions, up to sign, of the rotations nearest to matrices (Bar-Itzhack 2000).

    >>> np.abs(quaternions_of(rotations_of([0.6, 0, 0, 0.8]))).round(12).tolist()
    [0.6, 0.0, 0.0, 0.8]
    """
    R = np.asarray(R, np.float64)
    m = np.empty((*R.shape[:-2], 4, 4))
    trace = np.trace(R, axis1=-2, axis2=-1)
    m[..., :3, :3] = R + np.swapaxes(R, -1, -2) - trace[..., None, None] * np.eye(3)
    m[..., 3, :3] = m[..., :3, 3] = np.stack(
        [R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1
    )
    m[..., 3, 3] = trace
    return np.asarray(np.linalg.eigh(m)[1][..., [3, 0, 1, 2], 3])


def product(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return the Hamilton products a b, which represent the rotation b followed by the rotation a.

    >>> product([0, 1, 0, 0], [0, 0, 1, 0]).tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    aw, ax, ay, az = np.moveaxis(np.asarray(a, np.float64), -1, 0)
    bw, bx, by, bz = np.moveaxis(np.asarray(b, np.float64), -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q: ArrayLike) -> Floats:
    """Return the conjugate quaternions, which represent the inverse rotations.

    >>> conjugate([0.6, 0, 0, 0.8]).tolist()
    [0.6, -0.0, -0.0, -0.8]
    """
    return np.asarray(q, np.float64) * np.array([1.0, -1.0, -1.0, -1.0])


def rotated(q: ArrayLike, v: ArrayLike) -> Floats:
    """Return vectors rotated by unit quaternions.

    >>> rotated([0, 0, 0, 1], [1, 2, 3]).tolist()
    [-1.0, -2.0, 3.0]
    """
    return np.asarray(np.einsum("...ij,...j->...i", rotations_of(q), np.asarray(v, np.float64)))


def camera_centres(q: ArrayLike, t: ArrayLike) -> Floats:
    """Return the camera centres -R^T t of poses x_camera = R x_world + t."""
    return -rotated(conjugate(q), t)
