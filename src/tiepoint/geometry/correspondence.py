# SPDX-License-Identifier: BSD-3-Clause
"""Ground truth between two keypoint sets of a planar scene: the correct target points of each query.

A query is a point of the source image. Target points within `tau_px` (inclusive) of its image H x are
correct. A query without an answer has a reason: out of view (the target image does not show the point) or not
re-detected (it does, but has no keypoint there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError, UnknownNameError
from .homography import Floats, as_points, inverse, project

Size = tuple[int, int]
"""(width, height) in pixels."""


class Projection(NamedTuple):
    """Projected points (n, 2), NaN for a point without an image, and whether each is in view (n,)."""

    points: Floats
    visible: NDArray[np.bool_]


def in_view(points: ArrayLike, size: Size, *, border_px: float = 0.0) -> NDArray[np.bool_]:
    """Return whether points are on an image: -0.5 + border <= x <= width - 0.5 - border, likewise for y.

    `points` are (n, 2), `size` is (width, height). Pixel centres are integers, so that the image covers half
    a pixel more than its corner centres. NaN is not in view.

    >>> in_view([[0, 0], [9.5, 4], [9.6, 4], [np.nan, 0]], (10, 5)).tolist()
    [True, True, False, False]
    """
    p = as_points(points)
    low = -0.5 + border_px
    high = np.asarray(size, dtype=np.float64) - 0.5 - border_px
    return np.asarray(((p >= low) & (p <= high)).all(axis=1))


def centre(size: Size) -> tuple[float, float]:
    """Return the centre of an image, in pixel coordinates.

    >>> centre((3, 2))
    (1.0, 0.5)
    """
    return ((size[0] - 1) / 2, (size[1] - 1) / 2)


def covisible(
    h: ArrayLike, points: ArrayLike, source: Size, target: Size, *, border_px: float = 0.0
) -> Projection:
    """Project points of the source image into the target image, and test whether they are in view there.

    `h` maps source to target; sizes are (width, height) and may differ. The front of the plane is the side of
    the centre of the source image.

    >>> covisible([[1, 0, 5], [0, 1, 0], [0, 0, 1]], [[0, 0], [8, 0]], (10, 10), (10, 10)).visible.tolist()
    [True, False]
    """
    projected = project(h, points, reference=centre(source))
    return Projection(projected, in_view(projected, target, border_px=border_px))


Ints = NDArray[np.int64]

ANSWERED, OUT_OF_VIEW, NOT_REDETECTED = 0, 1, 2
REASONS = ("answered", "out_of_view", "not_redetected")
"""Names of the values of `Answers.status`."""

POLICIES = ("all_within_tau", "nearest", "mutual")


class Locations(NamedTuple):
    """Distinct positions (m, 2), and the location of each keypoint (n,), by first appearance."""

    xy: Floats
    of: Ints


def locations(xy: ArrayLike) -> Locations:
    """Group keypoints with bitwise equal positions.

    Multi-orientation detectors repeat a point. Each repeat is the same location, so that it must not be a
    wrong answer for the other.

    >>> locations([[1, 2], [5, 5], [1, 2]]).of.tolist()
    [0, 1, 0]
    """
    points = as_points(xy) + 0.0  # adding zero converts -0.0 to 0.0, the same position
    if len(points) == 0:
        return Locations(points, np.empty(0, np.int64))
    _, first, inverse_of = np.unique(points, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return Locations(points[first[order]], new[inverse_of.reshape(-1)])


class NeighbourPairs(NamedTuple):
    """Pairs of points within a radius, sorted by query, then target."""

    query: Ints
    target: Ints
    error_px: Floats


def points_within(queries: ArrayLike, targets: ArrayLike, radius_px: float) -> NeighbourPairs:
    """Find all (query, target) with sqrt(dx^2 + dy^2) <= radius_px, in float64; skip non-finite queries.

    >>> points_within([[0, 0]], [[3, 4], [9, 9], [0, 1]], 5).target.tolist()
    [0, 2]
    """
    from scipy.spatial import cKDTree

    q, t = as_points(queries), as_points(targets)
    usable = np.flatnonzero(np.isfinite(q).all(axis=1))
    if len(usable) == 0 or len(t) == 0:
        empty = np.empty(0, np.int64)
        return NeighbourPairs(empty, empty, np.empty(0))
    # Search with a slightly larger radius; the exact test follows.
    radius = radius_px * (1 + 1e-9) + 1e-9
    pairs = cKDTree(q[usable]).sparse_distance_matrix(cKDTree(t), radius, output_type="ndarray")
    order = np.argsort(pairs["i"] * len(t) + pairs["j"])
    query, target = usable[pairs["i"][order]], pairs["j"][order]
    error = np.sqrt(((q[query] - t[target]) ** 2).sum(axis=1))
    keep = error <= radius_px
    return NeighbourPairs(query[keep].astype(np.int64), target[keep].astype(np.int64), error[keep])


def nearest_of(near: NeighbourPairs) -> NeighbourPairs:
    """Return the nearest target of each query that has one; the lowest target index if equal.

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
    """Correct answers of q queries.

    `status[i]` indexes `REASONS`. `query`, `target`, `error_px` are (r,), sorted by query: target point
    `target[j]` is a correct answer of `query[j]`, `error_px[j]` from its image. `projected` is (q, 2), NaN
    for a point without an image.
    """

    status: NDArray[np.int8]
    query: Ints
    target: Ints
    error_px: Floats
    projected: Floats

    def counts(self) -> dict[str, int]:
        """Count the queries by reason."""
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
    """Find the correct answers under a policy.

    - `all_within_tau`: every target point within tau_px of H x.
    - `nearest`: only the nearest of them (lowest index if equal). The others count as wrong.
    - `mutual`: the nearest, if x is also the nearest source point to H^-1 of it; one to one.

    Points at or behind infinity have no image and are out of view, and so is an image outside the target.
    Pass locations, not keypoints, if co-located keypoints are one answer.

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
    projection = covisible(h, source, source_size, target_size)
    visible, projected = projection.visible, projection.points
    near = points_within(np.where(visible[:, None], projected, np.nan), target_xy, tau_px)
    if policy != "all_within_tau":
        near = nearest_of(near)
    if policy == "mutual":
        back = covisible(inverse(h), as_points(target_xy)[near.target], target_size, source_size).points
        keep = _nearest_index(back, source) == near.query
        near = NeighbourPairs(*(column[keep] for column in near))
    status = np.where(visible, NOT_REDETECTED, OUT_OF_VIEW).astype(np.int8)
    status[near.query] = ANSWERED
    return Answers(status, near.query, near.target, near.error_px, projected)


def _nearest_index(points: Floats, among: Floats) -> Ints:
    """Return the nearest of `among` for each point, the lowest index if equal; -1 for a non-finite point."""
    from scipy.spatial import cKDTree

    nearest = np.full(len(points), -1, np.int64)
    usable = np.flatnonzero(np.isfinite(points).all(axis=1))
    if len(usable) and len(among):
        radius, index = cKDTree(among).query(points[usable], k=2)
        nearest[usable] = index[:, 0]
        # The tree does not order equal distances: compare again where two are equal up to rounding.
        first, second = radius[:, 0], radius[:, 1]
        tied = second <= first * (1 + 1e-9) + 1e-9
        for i, r in zip(usable[tied].tolist(), first[tied].tolist(), strict=True):
            near = np.flatnonzero(np.abs(among - points[i]).max(axis=1) <= r * (1 + 1e-9) + 1e-9)
            nearest[i] = near[np.argmin(((among[near] - points[i]) ** 2).sum(axis=1))]
    return nearest


_ZERO = 1e-12


def _homogeneous(h: ArrayLike, p: Floats) -> tuple[Floats, Floats, Floats]:
    m = np.asarray(h, dtype=np.float64)
    x, y, z = (m[i, 0] * p[:, 0] + m[i, 1] * p[:, 1] + m[i, 2] for i in range(3))
    return x, y, z


def project_unchecked(h: ArrayLike, points: ArrayLike) -> Floats:
    """Project points (n, 2) to (X/Z, Y/Z); (inf, inf) if |Z| < 1e-12.

    Unlike in `project`, a point behind the camera (negative Z) has an image.

    >>> project_unchecked([[1, 0, 10], [0, 1, 5], [0, 0, 1]], [[100, 200]]).tolist()
    [[110.0, 205.0]]
    """
    x, y, z = _homogeneous(h, as_points(points))
    lost = np.abs(z) < _ZERO
    safe = np.where(lost, 1.0, z)
    return np.where(lost[:, None], np.inf, np.column_stack([x / safe, y / safe]))


def nearest_answers(
    h: ArrayLike, queries: ArrayLike, targets: ArrayLike, *, tau_px: float, bound_px: float
) -> Ints:
    """Return the target nearest to the image of each query, int64 (q,); -1 if there is no answer.

    There is none if the image is not finite or beyond `bound_px` in x or y, or if no target is within tau_px
    (inclusive). The lowest index wins if equal. It is not tested whether the target image shows the point;
    several queries may share an answer; a co-located twin of the answer is wrong.

    >>> nearest_answers(np.eye(3), [[0, 0], [9, 9]], [[2, 0], [1, 0]], tau_px=3.0, bound_px=2000.0).tolist()
    [1, -1]
    """
    projected = project_unchecked(h, queries)
    bounded = np.isfinite(projected) & (np.abs(projected) <= bound_px)
    inside = bounded.all(axis=1, keepdims=True)
    near = nearest_of(points_within(np.where(inside, projected, np.nan), targets, tau_px))
    index = np.full(len(projected), -1, np.int64)
    index[near.query] = near.target
    return index


def nearest_pairs(
    h: ArrayLike, queries: ArrayLike, targets: ArrayLike, *, tau_px: float, slack_px: float
) -> NeighbourPairs:
    """Return pairs of queries and their nearest targets, all that share the smallest distance.

    The image is rounded to float32. A pair counts if it is at most tau_px apart and no other target is nearer
    by more than `slack_px`. All co-located twins count, unlike in `nearest_answers`.

    >>> nearest_pairs(np.eye(3), [[0, 0]], [[1, 0], [1, 0], [2, 0]], tau_px=3, slack_px=1e-6).target.tolist()
    [0, 1]
    """
    p = as_points(queries)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x, y, z = _homogeneous(h, p)
        w = 1.0 / z
        projected = np.column_stack([x * w, y * w]).astype(np.float32).astype(np.float64)
    near = points_within(projected, targets, tau_px)
    best = np.full(len(p), math.inf)
    np.minimum.at(best, near.query, near.error_px)
    keep = ~(best[near.query] < near.error_px - slack_px)
    return NeighbourPairs(near.query[keep], near.target[keep], near.error_px[keep])
