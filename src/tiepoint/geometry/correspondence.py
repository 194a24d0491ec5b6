# SPDX-License-Identifier: BSD-3-Clause
"""Ground truth between two keypoint sets of a planar scene: which target points are right answers.

A query is a point of the source image. Its image H x is looked up among the target points; those within
`tau_px` (inclusive) are right. Queries without an answer keep their reason: out of view (the target image
does not show the point) or not re-detected (it does, and no keypoint lies there).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError, UnknownNameError
from .homography import Floats, as_points, inverse, project

Size = tuple[int, int]
"""(width, height) in pixels."""


class Projection(NamedTuple):
    """Projected points (n, 2), NaN where there is none, and whether each is in view (n,)."""

    points: Floats
    visible: NDArray[np.bool_]


def in_view(points: ArrayLike, size: Size, *, border_px: float = 0.0) -> NDArray[np.bool_]:
    """Whether points lie on an image: -0.5 + border <= x <= width - 0.5 - border, and the same for y.

    Pixel centres are integers, so the image covers half a pixel more than its corner centres. NaN is not in
    view.

    Args:
        points: (n, 2).
        size: (width, height) of the image the points lie in.
        border_px: margin to keep from the edge.

    >>> in_view([[0, 0], [9.5, 4], [9.6, 4], [np.nan, 0]], (10, 5)).tolist()
    [True, True, False, False]
    """
    p = as_points(points)
    low = -0.5 + border_px
    high = np.asarray(size, dtype=np.float64) - 0.5 - border_px
    return np.asarray(((p >= low) & (p <= high)).all(axis=1))


def centre(size: Size) -> tuple[float, float]:
    """The centre of an image, in pixel coordinates.

    >>> centre((3, 2))
    (1.0, 0.5)
    """
    return ((size[0] - 1) / 2, (size[1] - 1) / 2)


def covisible(
    h: ArrayLike, points: ArrayLike, source: Size, target: Size, *, border_px: float = 0.0
) -> Projection:
    """Project points of the source image into the target image and say which are in view there.

    The side of the plane that counts as in front is that of the centre of the source image.

    Args:
        h: homography from source to target.
        points: (n, 2) in the source image.
        source: (width, height) of the source image.
        target: (width, height) of the target image, its own size, not the source's: sequences mix sizes.
        border_px: margin to keep from the edge of the target.

    >>> covisible([[1, 0, 5], [0, 1, 0], [0, 0, 1]], [[0, 0], [8, 0]], (10, 10), (10, 10)).visible.tolist()
    [True, False]
    """
    projected = project(h, points, reference=centre(source))
    return Projection(projected, in_view(projected, target, border_px=border_px))


Ints = NDArray[np.int64]

ANSWERED, OUT_OF_VIEW, NOT_REDETECTED = 0, 1, 2
REASONS = ("answered", "out_of_view", "not_redetected")
"""What `Answers.status` counts: index into this tuple."""

POLICIES = ("all_within_tau", "nearest", "mutual")


class Locations(NamedTuple):
    """Distinct positions (m, 2), the location of each keypoint (n,), in order of first appearance."""

    xy: Floats
    of: Ints


def locations(xy: ArrayLike) -> Locations:
    """Group keypoints that share a position, bit for bit.

    Multi-orientation detectors repeat a point; each repeat is the same place, so it must not be a wrong
    answer for its twin.

    >>> locations([[1, 2], [5, 5], [1, 2]]).of.tolist()
    [0, 1, 0]
    """
    points = as_points(xy) + 0.0  # adding zero turns -0.0 into 0.0, one position with two spellings
    if len(points) == 0:
        return Locations(points, np.empty(0, np.int64))
    _, first, inverse_of = np.unique(points, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return Locations(points[first[order]], new[inverse_of.reshape(-1)])


class NeighbourPairs(NamedTuple):
    """Pairs of points no further apart than a radius, by query, then target."""

    query: Ints
    target: Ints
    error_px: Floats


def points_within(queries: ArrayLike, targets: ArrayLike, radius_px: float) -> NeighbourPairs:
    """All (query, target) with sqrt(dx^2 + dy^2) <= radius_px, in float64; NaN or infinite queries have none.

    >>> points_within([[0, 0]], [[3, 4], [9, 9], [0, 1]], 5).target.tolist()
    [0, 2]
    """
    from scipy.spatial import cKDTree

    q, t = as_points(queries), as_points(targets)
    usable = np.flatnonzero(np.isfinite(q).all(axis=1))
    if len(usable) == 0 or len(t) == 0:
        empty = np.empty(0, np.int64)
        return NeighbourPairs(empty, empty, np.empty(0))
    # The trees are asked for a little more than the radius; the rule itself is decided below.
    radius = radius_px * (1 + 1e-9) + 1e-9
    found = cKDTree(q[usable]).sparse_distance_matrix(cKDTree(t), radius, output_type="ndarray")
    order = np.argsort(found["i"] * len(t) + found["j"])
    query, target = usable[found["i"][order]], found["j"][order]
    error = np.sqrt(((q[query] - t[target]) ** 2).sum(axis=1))
    keep = error <= radius_px
    return NeighbourPairs(query[keep].astype(np.int64), target[keep].astype(np.int64), error[keep])


def nearest_of(near: NeighbourPairs) -> NeighbourPairs:
    """The nearest target of each query that has one; equal distances: the lowest target index.

    >>> nearest_of(points_within([[0, 0]], [[0, 2], [0, 1], [1, 0]], 5)).target.tolist()
    [1]
    """
    order = np.lexsort((near.target, near.error_px, near.query))
    query = near.query[order]
    first = np.ones(len(query), bool)
    first[1:] = query[1:] != query[:-1]
    return NeighbourPairs(query[first], near.target[order][first], near.error_px[order][first])


@dataclass(frozen=True)
class Answers:
    """Right answers of q queries.

    `status[i]` indexes `REASONS`. `query`, `target`, `error_px` are (r,), sorted by query: target point
    `target[j]` is a right answer of `query[j]`, `error_px[j]` from its image. `projected` is (q, 2), NaN
    where a point has no image.
    """

    status: NDArray[np.int8]
    query: Ints
    target: Ints
    error_px: Floats
    projected: Floats

    def counts(self) -> dict[str, int]:
        """Number of queries by reason."""
        return {name: int((self.status == i).sum()) for i, name in enumerate(REASONS)}


def answers(
    h: ArrayLike,
    source_xy: ArrayLike,
    target_xy: ArrayLike,
    *,
    source_size: Size,
    target_size: Size,
    tau_px: float = 3.0,
    policy: str = "all_within_tau",
) -> Answers:
    """Right answers under a policy.

    - `all_within_tau`: every target point within tau_px of H x.
    - `nearest`: the nearest of them alone (equal distances: lowest index). The others count as wrong.
    - `mutual`: the nearest, if x is also the nearest source point to H^-1 of it; one to one.

    Points at or behind infinity have no image and are out of view; so is an image outside the target by
    its own size. Pass locations, not keypoints, where co-located keypoints are to be one answer.

    Args:
        h: homography from source to target, (3, 3).
        source_xy: (q, 2).
        target_xy: (t, 2).
        source_size: (width, height).
        target_size: (width, height).
        tau_px: tolerance in target pixels, inclusive, > 0.
        policy: one of `POLICIES`.

    >>> a = answers(np.eye(3), [[5, 5], [1, 1]], [[5, 6], [5, 7]], source_size=(9, 9), target_size=(9, 9))
    >>> a.counts(), a.target.tolist()
    ({'answered': 1, 'out_of_view': 0, 'not_redetected': 1}, [0, 1])
    """
    if policy not in POLICIES:
        raise UnknownNameError("policy", policy, POLICIES)
    if not tau_px > 0:
        raise InputError(f"tau_px must be positive, found {tau_px}")
    source = as_points(source_xy)
    seen = covisible(h, source, source_size, target_size)
    near = points_within(np.where(seen.visible[:, None], seen.points, np.nan), target_xy, tau_px)
    if policy != "all_within_tau":
        near = nearest_of(near)
    if policy == "mutual":
        back = covisible(inverse(h), as_points(target_xy)[near.target], target_size, source_size).points
        keep = _nearest_index(back, source) == near.query
        near = NeighbourPairs(*(column[keep] for column in near))
    status = np.where(seen.visible, NOT_REDETECTED, OUT_OF_VIEW).astype(np.int8)
    status[near.query] = ANSWERED
    return Answers(status, near.query, near.target, near.error_px, seen.points)


def _nearest_index(points: Floats, among: Floats) -> Ints:
    """Index of the nearest of `among` for each point, lowest index on ties; -1 for a point without place."""
    from scipy.spatial import cKDTree

    found = np.full(len(points), -1, np.int64)
    usable = np.flatnonzero(np.isfinite(points).all(axis=1))
    if len(usable) and len(among):
        radius, index = cKDTree(among).query(points[usable], k=2)
        found[usable] = index[:, 0]
        # The tree promises no order among equals: there, and where rounding could tell, look again.
        for i, r in _close(usable, radius):
            near = np.flatnonzero(np.abs(among - points[i]).max(axis=1) <= r * (1 + 1e-9) + 1e-9)
            found[i] = near[np.argmin(((among[near] - points[i]) ** 2).sum(axis=1))]
    return found


def _close(rows: Ints, radius: Floats) -> Iterator[tuple[int, float]]:
    """Rows whose two smallest distances (n, 2) are equal up to rounding, with the smaller one."""
    first, second = radius[:, 0], radius[:, 1]
    tied = second <= first * (1 + 1e-9) + 1e-9
    return zip(rows[tied].tolist(), first[tied].tolist(), strict=True)


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
