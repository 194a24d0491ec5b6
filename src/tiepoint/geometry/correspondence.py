# SPDX-License-Identifier: BSD-3-Clause
"""Ground truth between two keypoint sets of a planar scene: the correct target points of each query.

A query is a point x of the source image. Target points within `tau_px` (inclusive) of its projection H x are
correct. A query without a correct target point is either out of view (its projection is outside the target
image) or not re-detected (its projection is inside, but no keypoint is near it).
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
    """Projected points `xy` (n, 2) and whether each is in view (n,).

    A point at infinity or behind the camera is NaN and not in view.
    """

    points: Floats
    visible: NDArray[np.bool_]


def in_view(points: ArrayLike, size: Size, *, border_px: float = 0.0) -> NDArray[np.bool_]:
    """Return whether points are inside an image: -0.5 + border <= x <= width - 0.5 - border, same for y.

    `points` has shape (n, 2), `size` is (width, height). Pixel centres have integer coordinates, so the image
    extends half a pixel beyond the outermost pixel centres. NaN is not in view.

    >>> in_view([[0, 0], [9.5, 4], [9.6, 4], [np.nan, 0]], (10, 5)).tolist()
    [True, True, False, False]
    """
    p = as_points(points)
    low = -0.5 + border_px
    high = np.asarray(size, dtype=np.float64) - 0.5 - border_px
    return np.asarray(((p >= low) & (p <= high)).all(axis=1))


def centre(size: Size) -> tuple[float, float]:
    """Return the centre (x, y) of an image in pixel coordinates.

    >>> centre((3, 2))
    (1.0, 0.5)
    """
    return ((size[0] - 1) / 2, (size[1] - 1) / 2)


def covisible(
    h: ArrayLike, points: ArrayLike, source: Size, target: Size, *, border_px: float = 0.0
) -> Projection:
    """Project points of the source image into the target image, and test whether they are in view there.

    `h` maps source to target. Sizes are (width, height) and may differ. Points on the same side of the
    horizon as the centre of the source image are in front of the camera.

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
    """Distinct keypoint positions and the position of each keypoint.

    `xy` (m, 2) is in order of appearance. `of` (n,) is the row of `xy` of each keypoint.
    """

    xy: Floats
    of: Ints


def locations(xy: ArrayLike) -> Locations:
    """Group keypoints with bitwise equal positions.

    Some detectors return a point once per orientation. These keypoints share one position, so a match to any
    of them is a match to the same answer.

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
    """Pairs (query, target) of points within a radius, sorted by query, then target; arrays (r,).

    `error_px` is their distance in pixels.
    """

    query: Ints
    target: Ints
    error_px: Floats


def points_within(queries: ArrayLike, targets: ArrayLike, radius_px: float) -> NeighbourPairs:
    """Find all pairs (query, target) with a distance of at most `radius_px`, in float64.

    Queries that are not finite have no pairs.

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
    """Return only the closest pair of each query in `near`. Ties go to the lowest target index.

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

    `status[i]` is the index in `REASONS` of query i. `query`, `target` and `error_px` have shape (r,) and are
    sorted by query: target point `target[j]` is a correct answer of `query[j]`, `error_px[j]` pixels from its
    projection. `projected` (q, 2) is NaN for points at infinity or behind the camera.
    """

    status: NDArray[np.int8]
    query: Ints
    target: Ints
    error_px: Floats
    projected: Floats

    def counts(self) -> dict[str, int]:
        """Count the queries by name of their status; see `REASONS`."""
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
    """Find the correct target points of each query under a policy.

    - `all_within_tau`: every target point within tau_px of H x.
    - `nearest`: only the target point closest to H x, if within tau_px. Ties go to the lowest index.
    - `mutual`: the target point y closest to H x, if x is also the source point closest to H^-1 y.

    Points that project to infinity, behind the camera or outside the target image are out of view. To count
    keypoints at the same position as one answer, pass the positions returned by `locations`.

    Args:
        h: homography from source to target, (3, 3).
        source_xy: (q, 2) points of the source image, the queries.
        target_xy: (t, 2) points of the target image.
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
        raise InputError(f"`tau_px` must be positive, found {tau_px}; pass the tolerance in pixels")
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
    """Return for each point the index of the closest point in `among`; -1 for a non-finite point."""
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
    """Project points (n, 2) to (X/Z, Y/Z), also from behind the camera; (inf, inf) if |Z| < 1e-12.

    (X, Y, Z) is H (x, y, 1). Unlike `project`, this function accepts a negative Z.

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
    """Return the index of the target nearest to each projected query, int64 (q,); -1 if none is correct.

    No target is correct if the projection is not finite or exceeds `bound_px` in x or y, or if the nearest
    target is farther than tau_px. Ties go to the lowest index, so only one of several targets at the same
    position is returned. The function does not test whether the projection is inside the target image.
    Several queries may share a target.

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
    """Pair each query with all targets that are nearest to its projection, up to a rounding tolerance.

    Projections are rounded to float32. A pair is returned if its distance is at most tau_px and no other
    target is nearer by more than `slack_px`. Unlike `nearest_answers`, it returns all targets at the same
    position.

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
