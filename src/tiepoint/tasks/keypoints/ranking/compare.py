# SPDX-License-Identifier: BSD-3-Clause
"""Records of `keypoints/ranking`: ranks of the correct answers in an image.

Queries and candidates are locations: keypoints with the same position form one location. The distance of two
locations is the smallest distance of their descriptors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.hashing import permutation
from ....core.records import Features, Records
from ....geometry.correspondence import Answers, Locations, locations, nearest_answers
from ....kernels import (
    first_two,
    group_rank_counts,
    group_rows,
    pair_distances,
    pair_distances_sq,
    rank_counts,
)
from ..data import ComparedFeatures, OpenKeypoints, image_features
from ..neighbours import answered_target
from ..workbench import float32_points, raw_values

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COLUMNS = ("image", "query", "distance", "error_px", "retrieved", "irrelevant", "lt", "eq")


MAX_BOUND_PX = 2000.0
"""Largest coordinate in pixels of a visible projected point, for any size of the target image."""


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute records with one row per query location and correct answer.

    The metadata has the numbers of queries without an answer.
    """
    sequences, options = opened.sequences, opened.options
    first, *others = sequences.images(scene)
    source = opened.features_of(features, scene, first)
    places = locations(source.xy)
    tables, pairs = [], []
    for number, image in enumerate(others):
        target, spots, found = answered_target(opened, scene, image, features, places, options.policy)
        order = permutation(len(spots.xy), options.seed, "gallery", scene, image)
        table = rank_rows(source, places, target, spots, found, order, options.gallery, features.distance)
        table["image"] = np.full(len(found.query), number, np.int16)
        tables.append(table)
        missed = np.bincount(found.query[table["retrieved"]], minlength=len(places.xy)) == 0
        failed = int(((found.status == 0) & missed).sum())
        counts = found.counts() | {"failed": failed, "queries": len(places.xy)}
        pairs.append({"image": image, "locations": len(spots.xy), "keypoints": len(target), **counts})
    columns = {name: np.concatenate([t[name] for t in tables]) for name in COLUMNS}
    meta = {
        "scene": scene,
        "kind": sequences.kind(scene),
        "galleries": list(options.gallery),
        "tau_px": options.tau_px,
        "policy": options.policy,
        "reference_keypoints": len(source),
        "pairs": pairs,
    }
    return Records("rank", columns, meta)


def rank_rows(
    source: ComparedFeatures,
    places: Locations,
    target: ComparedFeatures,
    spots: Locations,
    found: Answers,
    order: Ints,
    galleries: tuple[int, ...],
    distance: str,
) -> dict[str, NDArray[Any]]:
    """Count the wrong locations nearer than (`lt`) and as near as (`eq`) every correct answer.

    Column 0 uses the complete image. Column s > 0 uses a gallery of `galleries[s - 1]` locations. A gallery
    contains the correct answers of the query and the first wrong locations in the random `order`, which all
    queries of an image share.
    """
    value = location_values(source, places, target, spots, found.query, found.target, distance)
    retrieved = np.isfinite(value)
    total = len(spots.xy)
    relevant = np.bincount(found.query, minlength=len(places.xy))
    position = np.empty(total, np.int64)
    position[order] = np.arange(total)
    limits = gallery_limits(found.query, position[found.target], relevant, total, galleries)

    rows_q, names_q, start_q = group_rows(places.of, source.valid)
    rows_p, names_p, start_p = group_rows(spots.of, target.valid)
    group = np.searchsorted(names_q, found.query[retrieved])
    counts = group_rank_counts(
        source.values[rows_q],
        start_q,
        target.values[rows_p],
        start_p,
        position[names_p],
        group,
        value[retrieved],
        distance=distance,
        limits=limits[names_q],
    )
    lt = np.zeros((len(value), limits.shape[1]), np.int64)
    eq = np.zeros_like(lt)
    lt[retrieved], eq[retrieved] = counts.lt, counts.eq
    _without_relevant(found.query, value, position[found.target], limits, retrieved, lt, eq)
    return {
        "query": found.query.astype(np.int32),
        "distance": np.sqrt(value) if distance == "l2" else value,
        "error_px": found.error_px.astype(np.float32),
        "retrieved": retrieved,
        "irrelevant": (total - relevant[found.query]).astype(np.int32),
        "lt": lt.astype(np.int32),
        "eq": eq.astype(np.int32),
    }


def location_values(
    source: ComparedFeatures,
    places: Locations,
    target: ComparedFeatures,
    spots: Locations,
    query: Ints,
    answer: Ints,
    distance: str,
) -> Floats:
    """Return the distances (squared for l2) between pairs of locations.

    A distance is the minimum over the valid descriptors of both locations. It is infinite if a location has
    no valid descriptor.
    """
    rows_q, names_q, start_q = group_rows(places.of, source.valid)
    rows_p, names_p, start_p = group_rows(spots.of, target.valid)
    size_q, size_p = (np.zeros(n, np.int64) for n in (len(places.xy), len(spots.xy)))
    first_q, first_p = np.zeros_like(size_q), np.zeros_like(size_p)
    size_q[names_q], first_q[names_q] = np.diff(start_q), start_q[:-1]
    size_p[names_p], first_p[names_p] = np.diff(start_p), start_p[:-1]
    pairs = size_q[query] * size_p[answer]
    value = np.full(len(query), np.inf)
    some = np.flatnonzero(pairs)
    if len(some) == 0:
        return value
    owner = np.repeat(some, pairs[some])
    start = np.append(0, np.cumsum(pairs[some]))[:-1]
    step = np.arange(len(owner)) - np.repeat(start, pairs[some])
    width = size_p[answer][owner]
    left = rows_q[first_q[query][owner] + step // width]
    right = rows_p[first_p[answer][owner] + step % width]
    found = pair_distances(
        source.values, target.values, left, right, distance=distance, squared=distance == "l2"
    )
    value[some] = np.minimum.reduceat(found, start)
    return value


def gallery_limits(
    query: Ints, position: Ints, relevant: Ints, total: int, galleries: tuple[int, ...]
) -> Ints:
    """Return the end of each gallery in the random order of locations, int64 (queries, 1 + galleries).

    A gallery of size g contains the R correct answers of a query and the first g - R wrong locations of the
    order. Column 0 is the complete image.

    >>> gallery_limits(np.array([0]), np.array([1]), np.array([1]), 10, (4,))
    array([[10,  4]])
    """
    limits = np.full((len(relevant), 1 + len(galleries)), total, np.int64)
    for s, size in enumerate(galleries, start=1):
        limits[:, s] = np.maximum(size - relevant, 0)
    order = np.lexsort((position, query))
    q, p = query[order], position[order]
    first = np.flatnonzero(np.append(True, q[1:] != q[:-1])) if len(q) else np.empty(0, np.int64)
    place = np.arange(len(q)) - np.repeat(first, np.diff(np.append(first, len(q))))
    for i in range(int(place.max(initial=-1)) + 1):
        row = place == i  # the i-th correct answer of each query, in order of position
        limits[q[row], 1:] += p[row, None] < limits[q[row], 1:]
    return np.minimum(limits, total)


def _without_relevant(
    query: Ints, value: Floats, position: Ints, limits: Ints, retrieved: NDArray[np.bool_], lt: Ints, eq: Ints
) -> None:
    """Remove the correct answers of each query from the counts `lt` and `eq` of its rows, in place."""
    start = np.flatnonzero(np.append(True, query[1:] != query[:-1])) if len(query) else np.empty(0, np.int64)
    size = np.diff(np.append(start, len(query)))
    for shift in range(int(size.max(initial=0))):
        # Compare row `start + i` with row `start + (i + shift) mod size`, for all queries together.
        base, width = np.repeat(start, size), np.repeat(size, size)
        here = np.arange(len(query))
        there = base + (here - base + shift) % width
        use = (shift < width) & retrieved & retrieved[there]
        inside = use[:, None] & (position[there][:, None] < limits[query])
        lt -= inside & (value[there] < value)[:, None]
        eq -= inside & (value[there] == value)[:, None]


def compare_workbench(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute records with a row for each query that has ground truth, and count the other queries."""
    sequences, options = opened.sequences, opened.options
    first, *others = sequences.images(scene)
    source = image_features(features, f"{scene}/{first}")
    queries = raw_values(source)
    corresponding = rows_correspond(options, features.meta)
    zero = ~np.any(queries != 0, axis=1) if len(source) else np.zeros(0, bool)
    columns: dict[str, list[Any]] = {name: [] for name in ("image", "query", "lt", "eq", "candidates")}
    pairs = []
    for number, image in enumerate(others):
        target = image_features(features, f"{scene}/{image}")
        pair: dict[str, Any] = {"image": image, "keypoints": len(target), "zero_vector": 0, "no_truth": 0}
        pairs.append(pair)
        if len(source) == 0 or len(target) == 0:
            continue  # the tool skips such a pair: its queries are neither processed nor excluded
        right = nearest_answers(
            sequences.homography(scene, image),
            float32_points(source.xy),
            float32_points(target.xy),
            tau_px=options.tau_px,
            bound_px=MAX_BOUND_PX,
        )
        pair |= {"zero_vector": int(zero.sum()), "no_truth": int(((right < 0) & ~zero).sum())}
        asked = np.flatnonzero((right >= 0) & ~zero)
        pool = raw_values(target)
        better, ties = rank_of_answers(queries, pool, asked, right[asked])
        columns["image"].append(np.full(len(asked), number, np.int16))
        columns["query"].append(asked.astype(np.int32))
        columns["lt"].append(better.astype(np.int32))
        columns["eq"].append(ties.astype(np.int32))
        columns["candidates"].append(np.full(len(asked), len(target), np.int32))
        pair |= legacy_precision(queries, pool, np.arange(len(queries)) if corresponding else right)
    table = {name: np.concatenate([*parts, np.empty(0, np.int32)]) for name, parts in columns.items()}
    meta = {"scene": scene, "tau_px": options.tau_px, "reference_keypoints": len(source), "pairs": pairs}
    if options.tie != "protocol":
        meta["tie"] = options.tie
    if not corresponding:
        meta["rows_correspond"] = False
    return Records("rank", table, meta)


def rows_correspond(options: Any, meta: Mapping[str, Any]) -> bool:
    """Return whether row i is the same point in all images, by the option or by how keypoints were made."""
    made = (meta.get("keypoint_set") or {}).get("generation_method")
    source = options.keypoint_source
    return source == "homography_projection" or (made == "projected" and source != "database")


def rank_of_answers(queries: NDArray[Any], pool: NDArray[Any], asked: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Count the candidates that are nearer than the correct answer of each query, or as near.

    Rows with NaN or inf are compared as in DescriptorWorkbench, where every comparison with NaN is False.
    """
    bad_q, bad_p = (~np.isfinite(x).all(axis=1) for x in (queries, pool))
    better, ties = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64)
    plain = ~bad_q[asked] & ~bad_p[right]
    if plain.any():
        rows = np.flatnonzero(~bad_p)
        place = np.cumsum(~bad_p) - 1
        q, r = asked[plain], place[right[plain]]
        good = np.ascontiguousarray(pool[rows])
        value = pair_distances_sq(queries, good, q, r)
        counts = rank_counts(
            queries[q], good, np.arange(len(q)), value, r, distance="l2", squared=True, target_in_pool=True
        )
        better[plain], ties[plain] = counts.lt[:, 0], counts.eq[:, 0]
    # Infinite candidates have infinite or NaN distances: never nearer than a finite one, never equal to it.
    for i in np.flatnonzero(~plain):
        with np.errstate(invalid="ignore", over="ignore"):
            d = ((queries[asked[i]].astype(np.float64) - pool.astype(np.float64)) ** 2).sum(axis=1)
        better[i] = (d < d[right[i]]).sum()
        ties[i] = (np.delete(d, right[i]) == d[right[i]]).sum()
    return better, ties


def legacy_precision(queries: NDArray[Any], pool: NDArray[Any], right: NDArray[Any]) -> dict[str, int]:
    """Count the mutual nearest neighbours of an image pair, and how many of them are correct.

    `right` is the correct row of each query. In DescriptorWorkbench, row i is always correct for query i.
    """
    good_q, good_p = (np.flatnonzero(np.isfinite(x).all(axis=1)) for x in (queries, pool))
    if len(good_q) == 0 or len(good_p) == 0:
        return {"matches": 0, "correct": 0}
    a, b = np.ascontiguousarray(queries[good_q]), np.ascontiguousarray(pool[good_p])
    there, back = first_two(a, b, distance="l2").index, first_two(b, a, distance="l2").index
    mutual = back[there] == np.arange(len(a))
    same = right[good_q[mutual]] == good_p[there[mutual]]
    return {"matches": int(mutual.sum()), "correct": int(same.sum())}
