# SPDX-License-Identifier: BSD-3-Clause
"""Similarities y = s R x + t that align two point sets: by least squares, or robustly as in COLMAP."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

Floats = NDArray[np.float64]
MIN_INLIERS = 3
_EPS = 2.220446049250313e-16


class Similarity(NamedTuple):
    """Similarity y = s R x + t: scale s, rotation R (3, 3) and translation t (3,)."""

    scale: float
    R: Floats
    t: Floats

    def apply(self, points: Floats) -> Floats:
        """Return s R x + t for points x (n, 3)."""
        return np.asarray(self.scale * points @ self.R.T + self.t)


def umeyama(x: Floats, y: Floats, *, with_scale: bool = True) -> Similarity | None:
    """Return the similarity that maps x (n, 3) closest to y (n, 3) in least squares.

    Without `with_scale` the scale is 1 (a rigid motion). None if the points do not determine a rotation:
    fewer than two singular values of their covariance exceed the rounding unit. This limit is absolute, as in
    the evaluation tools of trajectories.

    >>> s = umeyama(np.eye(3), 2 * np.eye(3) + 1)
    >>> round(s.scale, 12), s.t.round(12).tolist()
    (2.0, [1.0, 1.0, 1.0])
    """
    if not len(x) or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    spread = float(((x - mean_x) ** 2).sum() / len(x))
    u, d, vt = np.linalg.svd((y - mean_y).T @ (x - mean_x) / len(x))
    if np.count_nonzero(d > _EPS) < 2:
        return None
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    R = u * signs @ vt
    scale = float((d * signs).sum() / spread) if with_scale else 1.0
    return Similarity(scale, R, mean_y - scale * R @ mean_x)


def robust_similarity(x: Floats, y: Floats, max_error: float) -> Similarity | None:
    """Return COLMAP's LO-RANSAC similarity from x to y, with seed 0; None if it has less than three inliers.

    Raises:
        InputError: The package pycolmap is not installed.
    """
    pycolmap = load_pycolmap()
    if len(x) < MIN_INLIERS or not max_error > 0:
        return None
    options = pycolmap.RANSACOptions()
    options.max_error, options.random_seed = max_error, 0
    found = pycolmap.estimate_sim3d_robust(x, y, options)
    if found is None or found["num_inliers"] < MIN_INLIERS:
        return None
    sim = found["tgt_from_src"]
    return Similarity(float(sim.scale), np.asarray(sim.rotation.matrix()), np.asarray(sim.translation))


def load_pycolmap() -> Any:
    """Import pycolmap.

    Raises:
        InputError: The package is not installed.
    """
    try:
        import pycolmap
    except ImportError as e:
        raise InputError("needs the package 'pycolmap': pip install 'tiepoint[sfm]'") from e
    return pycolmap
