# SPDX-License-Identifier: BSD-3-Clause
"""Merge the points of a pair matcher, which differ from pair to pair, to common keypoints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from .matches import SceneMatches, unique_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def merge_points(points: Floats, radius: float) -> tuple[Floats, Ints]:
    """Merge nearby points. Return the common points (k, 2), and the row of each point's common point (n,).

    Points are visited in order. A point that is still free becomes a common point and takes all free points
    within `radius`. With radius 0 only equal points are merged.

    >>> common, row = merge_points(np.array([[0.0, 0], [5, 0], [1, 0], [1.9, 0]]), 1.0)
    >>> common.tolist(), row.tolist()
    ([[0.0, 0.0], [5.0, 0.0], [1.9, 0.0]], [0, 1, 0, 2])
    """
    owner = np.full(len(points), -1, np.int64)
    if not len(points):
        return points, owner
    tree = cKDTree(points)
    chosen: list[int] = []
    for i in range(len(points)):
        if owner[i] >= 0:
            continue
        near = np.array(tree.query_ball_point(points[i], radius), np.int64)
        owner[near[owner[near] < 0]] = len(chosen)
        chosen.append(i)
    return points[chosen], owner


def merged_matches(
    images: int,
    pairs: NDArray[np.int64],
    matched: Mapping[tuple[int, int], tuple[Floats, Floats]],
    merge_px: float,
) -> SceneMatches:
    """Return matches between common keypoints.

    `matched` has the matched points in both images of each pair.
    """
    parts: dict[int, list[Floats]] = {i: [np.empty((0, 2))] for i in range(images)}
    for i, j in pairs.tolist():
        first, second = matched[i, j]
        parts[i].append(first)
        parts[j].append(second)
    keypoints, rows = [], {}
    for i in parts:
        common, row = merge_points(np.concatenate(parts[i]), merge_px)
        keypoints.append(common)
        ends = np.cumsum([len(p) for p in parts[i]])
        rows[i] = iter(np.split(row, ends[:-1])[1:])
    found = [np.column_stack([next(rows[i]), next(rows[j])]) for i, j in pairs.tolist()]
    return SceneMatches(tuple(keypoints), pairs, tuple(unique_rows(f) for f in found))
