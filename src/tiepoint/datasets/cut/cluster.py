# SPDX-License-Identifier: BSD-3-Clause
"""One detection out of those that lie on top of each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...geometry.overlap import circle_overlap


def thin_overlapping(
    points: NDArray[np.float64],
    radius: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    overlap: float = 0.5,
) -> NDArray[np.int64]:
    """Indices, ascending, of detections of which no two overlap by more than `overlap`.

    Detections are visited in random order; each one that is still there is kept and removes all that overlap
    it by more (intersection over union of the discs). So a crowd leaves one of its members at random, and a
    chain of overlapping detections is not merged into one.

    >>> rng = np.random.default_rng(0)
    >>> len(thin_overlapping(np.array([[0.0, 0], [0, 0], [9, 0]]), np.array([1.0, 1.1, 1]), rng))
    2
    """
    from scipy.spatial import cKDTree

    # Discs with overlap > t have radii within a factor sqrt(t), so touching ones are nearer than this.
    reach = radius * (1 + 1 / np.sqrt(overlap))
    tree = cKDTree(points)
    left = np.ones(len(points), dtype=bool)
    kept = []
    for i in rng.permutation(len(points)):
        if not left[i]:
            continue
        kept.append(i)
        near = np.asarray(tree.query_ball_point(points[i], reach[i]), dtype=np.int64)
        distance = np.linalg.norm(points[near] - points[i], axis=1)
        left[near[circle_overlap(distance, radius[i], radius[near]) > overlap]] = False
    return np.sort(np.asarray(kept, dtype=np.int64))
