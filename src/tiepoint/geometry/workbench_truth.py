# SPDX-License-Identifier: BSD-3-Clause
"""The ground truth rules of DescriptorWorkbench, with their quirks; `correspondence` has the sound ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .correspondence import Ints, Near, nearest_of, points_within
from .homography import Floats, as_points

MAX_BOUND_PX = 2000.0
"""Images of points beyond this coordinate count as lost, whatever the size of the target image."""

TAU_PX = 3.0
_ZERO = 1e-12
_COLOCATED_PX = 1e-6


def project_point(h: ArrayLike, point: ArrayLike) -> tuple[float, float]:
    """Image of one point: (X/Z, Y/Z), (inf, inf) where |Z| < 1e-12.

    Quirk: a negative Z (a point behind) is divided by like any other.

    >>> project_point([[1, 0, 10], [0, 1, 5], [0, 0, 1]], (100, 200))
    (110.0, 205.0)
    """
    x, y = project_points(h, np.asarray(point, dtype=np.float64).reshape(1, 2))[0]
    return float(x), float(y)


def project_points(h: ArrayLike, points: ArrayLike) -> Floats:
    """Images of points (n, 2) under the rule of `project_point`."""
    m, p = np.asarray(h, dtype=np.float64), as_points(points)
    x = m[0, 0] * p[:, 0] + m[0, 1] * p[:, 1] + m[0, 2]
    y = m[1, 0] * p[:, 0] + m[1, 1] * p[:, 1] + m[1, 2]
    z = m[2, 0] * p[:, 0] + m[2, 1] * p[:, 1] + m[2, 2]
    lost = np.abs(z) < _ZERO
    safe = np.where(lost, 1.0, z)
    return np.where(lost[:, None], np.inf, np.column_stack([x / safe, y / safe]))


def single_relevant(
    h: ArrayLike,
    queries: ArrayLike,
    targets: ArrayLike,
    *,
    tau_px: float = TAU_PX,
    max_bound: float = MAX_BOUND_PX,
) -> Ints:
    """The one right answer of each query, int64 (q,): the target nearest to its image, -1 if there is none.

    None: the image is not finite, lies beyond `max_bound` in x or y, or no target is within tau_px
    (inclusive). Equal distances: the lowest index. Quirks: no test whether the target image shows the
    point; several queries may share an answer; a co-located twin of the answer is a wrong one.
    """
    found = project_points(h, queries)
    kept = np.isfinite(found).all(axis=1, keepdims=True) & (np.abs(found) <= max_bound).all(
        axis=1, keepdims=True
    )
    near = nearest_of(points_within(np.where(kept, found, np.nan), targets, tau_px))
    index = np.full(len(found), -1, np.int64)
    index[near.query] = near.target
    return index


def find_single_relevant_index(
    query: ArrayLike,
    h: ArrayLike,
    targets: ArrayLike,
    tau_px: float = TAU_PX,
    *,
    max_bound: float = MAX_BOUND_PX,
) -> int:
    """`single_relevant` for one query: the index of its answer, or -1.

    >>> shift = [[1, 0, 10], [0, 1, 5], [0, 0, 1]]
    >>> find_single_relevant_index((100, 200), shift, [[110, 205], [160, 255]])
    0
    """
    point = np.asarray(getattr(query, "pt", query), dtype=np.float64).reshape(1, 2)
    return int(single_relevant(h, point, targets, tau_px=tau_px, max_bound=max_bound)[0])


def correct_pairs(h: ArrayLike, queries: ArrayLike, targets: ArrayLike, *, tau_px: float = TAU_PX) -> Near:
    """Pairs that verification and retrieval call correct.

    The image is rounded to float32; a pair is correct if it is at most tau_px apart and no other target is
    nearer by more than 1e-6 px. Quirk: all co-located twins are correct here, unlike `single_relevant`.

    >>> correct_pairs(np.eye(3), [[0, 0]], [[1, 0], [1, 0], [2, 0]]).target.tolist()
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
    keep = ~(best[near.query] < near.error_px - _COLOCATED_PX)
    return Near(near.query[keep], near.target[keep], near.error_px[keep])
