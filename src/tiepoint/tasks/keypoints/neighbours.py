# SPDX-License-Identifier: BSD-3-Clause
"""Distances between a few query locations and all locations of an image, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.units import Features
from ...geometry.correspondence import Answers, Locations, answers, locations
from ...kernels import first_two, group_rows, value_table
from .data import ComparedFeatures, OpenKeypoints

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def location_table(
    source: ComparedFeatures,
    places: Locations,
    target: ComparedFeatures,
    spots: Locations,
    queries: Ints,
    distance: str,
    *,
    only: Ints | None = None,
) -> Floats:
    """Distance of each query location to each target location, float64 (q, locations).

    The least over the valid rows of both; infinite where a side has none, and for target locations that are
    not among `only`. Meant for samples of queries: the whole table is made at once.
    """
    out = np.full((len(queries), len(spots.xy)), np.inf)
    valid = target.valid if only is None else target.valid & np.isin(spots.of, only)
    rows_p, names_p, start_p = group_rows(spots.of, valid)
    rows, asked, step = query_rows(source, places, queries)
    if len(rows) == 0 or len(rows_p) == 0:
        return out
    tile = value_table(source.values[rows], target.values[rows_p], distance=distance)
    tile = np.minimum.reduceat(tile, start_p[:-1], axis=1)
    tile = np.minimum.reduceat(tile, step, axis=0)
    out[np.ix_(asked, names_p)] = np.sqrt(tile) if distance == "l2" else tile
    return out


def query_rows(source: ComparedFeatures, places: Locations, queries: Ints) -> tuple[Ints, Ints, Ints]:
    """Valid rows of query locations, one after another.

    Returns the rows (r,), which of the queries have any (a,), and where the rows of each of those start (a,).
    A query may be named more than once.
    """
    rows, names, start = group_rows(places.of, source.valid)
    if len(names) == 0:
        return (np.empty(0, np.int64),) * 3
    group = np.minimum(np.searchsorted(names, queries), len(names) - 1)
    asked = np.flatnonzero(names[group] == queries)
    size = np.diff(start)[group[asked]]
    step = np.append(0, np.cumsum(size))
    chosen = rows[np.repeat(start[group[asked]] - step[:-1], size) + np.arange(step[-1])]
    return chosen, asked, step[:-1]


def nearest_distance(
    source: ComparedFeatures, places: Locations, target: ComparedFeatures, queries: Ints, distance: str
) -> Floats:
    """Distance of each query location to the nearest keypoint of an image, (q,); infinite without one."""
    out = np.full(len(queries), np.inf)
    rows, asked, step = query_rows(source, places, queries)
    pool = np.flatnonzero(target.valid)
    if len(rows) and len(pool):
        found = first_two(source.values[rows], target.values[pool], distance=distance)
        out[asked] = np.minimum.reduceat(found.d1, step)
    return out


def right_table(query: Ints, target: Ints, queries: Ints, shape: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Which entries of a `location_table` are right, from lists of (query, target) locations."""
    right = np.zeros(shape, bool)
    place = np.full(int(max(query.max(initial=-1), queries.max(initial=-1))) + 1, -1, np.int64)
    place[queries] = np.arange(len(queries))
    use = place[query] >= 0
    right[place[query[use]], target[use]] = True
    return right


def least(table: Floats, keep: NDArray[np.bool_]) -> Floats:
    """Smallest kept entry of each row, infinite where none is kept.

    >>> least(np.array([[1.0, 2.0]]), np.array([[False, True]]))
    array([2.])
    """
    return np.where(keep, table, np.inf).min(axis=1, initial=np.inf)


def answered_targets(
    opened: OpenKeypoints, scene: str, features: Features
) -> tuple[ComparedFeatures, Locations, list[tuple[ComparedFeatures, Locations, Answers]]]:
    """Features and locations of the reference image; of each other image, also the right answers."""
    first, *others = opened.sequences.images(scene)
    source = opened.features_of(features, scene, first)
    places = locations(source.xy)
    return source, places, [answered_target(opened, scene, k, features, places) for k in others]


def answered_target(
    opened: OpenKeypoints,
    scene: str,
    image: str,
    features: Features,
    places: Locations,
    policy: str = "all_within_tau",
) -> tuple[ComparedFeatures, Locations, Answers]:
    """Features and locations of an image, and which of them are right answers to those of the reference."""
    s = opened.sequences
    target = opened.features_of(features, scene, image)
    spots = locations(target.xy)
    found = answers(
        s.homography(scene, image),
        places.xy,
        spots.xy,
        source_size=s.size(scene, s.images(scene)[0]),
        target_size=s.size(scene, image),
        tau_px=opened.options.tau_px,
        policy=policy,
    )
    return target, spots, found
