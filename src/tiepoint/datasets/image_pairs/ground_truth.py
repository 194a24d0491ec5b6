# SPDX-License-Identifier: BSD-3-Clause
"""True correspondences made up from a homography or from two cameras, for a method that knows the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import seeded_generator
from ...geometry.correspondence import in_view
from ...geometry.homography import project

Floats = NDArray[np.float64]
Size = tuple[int, int]
COUNT, TRIES = 500, 20_000


def points_on_plane(h: Floats, sizes: tuple[Size, Size]) -> Floats:
    """Points (n, 4) of a grid in image 0 that the homography takes into image 1.

    >>> points_on_plane(np.eye(3), ((9, 9), (9, 9)))[-1].tolist()
    [8.0, 8.0, 8.0, 8.0]
    """
    side = round(COUNT**0.5)
    x, y = (np.linspace(0, n - 1, side) for n in sizes[0])
    first = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    second = np.asarray(project(h, first), np.float64)
    return np.column_stack([first, second])[in_view(second, sizes[1])]


def points_at_random_depths(
    K0: Floats, K1: Floats, T: Floats, sizes: tuple[Size, Size], centre: float, name: str
) -> Floats:
    """Up to 500 points (n, 4): pixels of image 0 at drawn depths, where camera 1 sees them, if it does.

    Depths are spread evenly in their logarithm between 1/2 and 200 baselines. Points have the first pixel's
    centre at (0, 0), K at (`centre`, `centre`). Fewer, or none, where the cameras see little in common.

    >>> K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    >>> T = np.eye(4); T[0, 3] = 1
    >>> points = points_at_random_depths(K, K, T, ((101, 101), (101, 101)), 0.0, "a")
    >>> len(points), float(np.abs(points[:, 1] - points[:, 3]).max()) < 1e-9
    (500, True)
    """
    draw = seeded_generator(0, "true points", name)
    first = draw.random((TRIES, 2)) * (np.array(sizes[0]) - 1)
    baseline = float(np.linalg.norm(T[:3, 3])) or 1.0
    depth = baseline * np.exp(draw.uniform(np.log(0.5), np.log(200.0), TRIES))
    rays = np.column_stack([first + centre, np.ones(TRIES)]) @ np.linalg.inv(K0).T
    seen = (rays * (depth / rays[:, 2])[:, None]) @ T[:3, :3].T + T[:3, 3]
    front = seen[:, 2] > 1e-6 * baseline
    first, image = first[front], seen[front] @ K1.T
    second = image[:, :2] / image[:, 2:] - centre
    return np.column_stack([first, second])[in_view(second, sizes[1])][:COUNT]
