# SPDX-License-Identifier: BSD-3-Clause
"""Right answers by plain projection: the target nearest to a point's image, whether or not it is in view.

`correspondence` has the sound rules, which ask for the side of the plane and for the size of the image.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .correspondence import Ints, NeighbourPairs, nearest_of, points_within
from .homography import Floats, as_points

_ZERO = 1e-12


def project_unchecked(h: ArrayLike, points: ArrayLike) -> Floats:
    """Images of points (n, 2): (X/Z, Y/Z), (inf, inf) where |Z| < 1e-12.

    Quirk: a negative Z (a point behind) is divided by like any other.

    >>> project_unchecked([[1, 0, 10], [0, 1, 5], [0, 0, 1]], [[100, 200]]).tolist()
    [[110.0, 205.0]]
    """
    m, p = np.asarray(h, dtype=np.float64), as_points(points)
    x = m[0, 0] * p[:, 0] + m[0, 1] * p[:, 1] + m[0, 2]
    y = m[1, 0] * p[:, 0] + m[1, 1] * p[:, 1] + m[1, 2]
    z = m[2, 0] * p[:, 0] + m[2, 1] * p[:, 1] + m[2, 2]
    lost = np.abs(z) < _ZERO
    safe = np.where(lost, 1.0, z)
    return np.where(lost[:, None], np.inf, np.column_stack([x / safe, y / safe]))


def nearest_answers(
    h: ArrayLike, queries: ArrayLike, targets: ArrayLike, *, tau_px: float, bound_px: float
) -> Ints:
    """The one right answer of each query, int64 (q,): the target nearest to its image, -1 if there is none.

    None: the image is not finite, lies beyond `bound_px` in x or y, or no target is within tau_px
    (inclusive). Equal distances: the lowest index. Quirks: no test whether the target image shows the
    point; several queries may share an answer; a co-located twin of the answer is a wrong one.

    >>> nearest_answers(np.eye(3), [[0, 0], [9, 9]], [[2, 0], [1, 0]], tau_px=3.0, bound_px=2000.0).tolist()
    [1, -1]
    """
    found = project_unchecked(h, queries)
    kept = np.isfinite(found).all(axis=1, keepdims=True) & (np.abs(found) <= bound_px).all(
        axis=1, keepdims=True
    )
    near = nearest_of(points_within(np.where(kept, found, np.nan), targets, tau_px))
    index = np.full(len(found), -1, np.int64)
    index[near.query] = near.target
    return index


def nearest_pairs(
    h: ArrayLike, queries: ArrayLike, targets: ArrayLike, *, tau_px: float, slack_px: float
) -> NeighbourPairs:
    """Pairs of queries and their nearest targets, as many as share the smallest distance.

    The image is rounded to float32; a pair counts if it is at most tau_px apart and no other target is
    nearer by more than `slack_px`. Quirk: all co-located twins count here, unlike in `nearest_answers`.

    >>> nearest_pairs(np.eye(3), [[0, 0]], [[1, 0], [1, 0], [2, 0]], tau_px=3, slack_px=1e-6).target.tolist()
    [0, 1]
    """
    m, p = np.asarray(h, dtype=np.float64), as_points(queries)
    z = m[2, 0] * p[:, 0] + m[2, 1] * p[:, 1] + m[2, 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        w = 1.0 / z
        x = (m[0, 0] * p[:, 0] + m[0, 1] * p[:, 1] + m[0, 2]) * w
        y = (m[1, 0] * p[:, 0] + m[1, 1] * p[:, 1] + m[1, 2]) * w
        found = np.column_stack([x, y]).astype(np.float32).astype(np.float64)
    near = points_within(found, targets, tau_px)
    best = np.full(len(p), math.inf)
    np.minimum.at(best, near.query, near.error_px)
    keep = ~(best[near.query] < near.error_px - slack_px)
    return NeighbourPairs(near.query[keep], near.target[keep], near.error_px[keep])
