# SPDX-License-Identifier: BSD-3-Clause
"""Distance tables, nearest neighbours and matchers of the keypoint tasks."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_json, permutation
from ...core.records import Features
from ...geometry.correspondence import OUT_OF_VIEW, Answers, Locations, answers, locations
from ...kernels import first_two, group_rows, value_table
from ...methods.identity import config_of
from ...methods.pairs.matchers import FirstNeighbours, Matches, nearest_both_ways
from ...methods.pairs.matchers import user_matches as matched_by
from ...methods.source_files import source_hash
from ...methods.user_code import UserFactory, load_from_file
from ..cases import Floats, MatchedPair, ratio_of
from ..pairs.data import match_errors
from .data import ComparedFeatures, OpenKeypoints

Ints = NDArray[np.int64]


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
    """Return the distances between query and target locations, float64 (q, locations).

    The distance of two locations is the smallest distance of their valid descriptors. It is infinite if a
    location has no valid descriptor, or if the target location is not in `only`. The function computes the
    complete table in memory, so use it for samples of queries only.
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
    """Return the rows of the valid descriptors of query locations, concatenated.

    The result has three arrays: the rows (r,), the indices of the queries that have a row (a,), and the start
    of each of these queries in the rows (a,). A query may occur more than once.
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
    """Return the smallest descriptor distance (q,) from each query location to a target; infinite if none."""
    out = np.full(len(queries), np.inf)
    rows, asked, step = query_rows(source, places, queries)
    pool = np.flatnonzero(target.valid)
    if len(rows) and len(pool):
        found = first_two(source.values[rows], target.values[pool], distance=distance)
        out[asked] = np.minimum.reduceat(found.d1, step)
    return out


def right_table(query: Ints, target: Ints, queries: Ints, shape: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Return the mask of correct entries of a `location_table`, given correct (query, target) locations."""
    right = np.zeros(shape, bool)
    place = np.full(int(max(query.max(initial=-1), queries.max(initial=-1))) + 1, -1, np.int64)
    place[queries] = np.arange(len(queries))
    use = place[query] >= 0
    right[place[query[use]], target[use]] = True
    return right


def least(table: Floats, keep: NDArray[np.bool_]) -> Floats:
    """Return the smallest entry of each row among those selected by `keep`; infinite if none is selected.

    >>> least(np.array([[1.0, 2.0]]), np.array([[False, True]]))
    array([2.])
    """
    return np.where(keep, table, np.inf).min(axis=1, initial=np.inf)


def answered_targets(
    opened: OpenKeypoints, scene: str, features: Features
) -> tuple[ComparedFeatures, Locations, list[tuple[ComparedFeatures, Locations, Answers]]]:
    """Return the keypoints and locations of a scene's images, with the correct answers in each target.

    The reference image comes first. The list has one entry for each other image.
    """
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
    """Return the keypoints and locations of an image, and the correct answers for the reference locations."""
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


MATCHERS = ("mutual", "nn", "ratio")


def first_neighbours_mutual(
    a: ComparedFeatures, b: ComparedFeatures, *, distance: str, seed: int | None = None
) -> FirstNeighbours:
    """Return the nearest descriptor in `b` for each keypoint of `a`, and whether the match is mutual.

    Args:
        a: Features of the first image.
        b: Features of the second image.
        distance: Name of the distance.
        seed: Seed of the random order that breaks ties. None keeps the row order (lowest index first).

    The result is empty if either image has no valid row.
    """
    rows_a, rows_b = np.flatnonzero(a.valid), np.flatnonzero(b.valid)
    if seed is not None:
        rows_a = rows_a[permutation(len(rows_a), seed, "ties", a.key)]
        rows_b = rows_b[permutation(len(rows_b), seed, "ties", b.key)]
    return nearest_both_ways(a.values, b.values, rows_a, rows_b, distance=distance)


def select_matches(
    found: FirstNeighbours, matcher: str, *, ratio: float = 0.8, single: bool = False
) -> Matches:
    """Return the matches that a matcher selects.

    `nn` selects all nearest neighbours. `mutual` selects mutual nearest neighbours. `ratio` selects
    neighbours with d1/d2 strictly below the ratio. Without a second distance, a match is rejected; two zero
    distances are a tie. With `single`, the quotient and the ratio are float32, as in OpenCV programs. A
    quotient that equals the ratio in exact arithmetic may then pass.
    """
    if matcher == "mutual":
        keep = found.mutual
    elif matcher == "ratio":
        keep = np.isfinite(found.d2) & _below(found.d1, found.d2, ratio, single)
    else:
        keep = np.ones(len(found.first), bool)
    return Matches(found.first[keep], found.second[keep], found.d1[keep])


def _below(d1: Floats, d2: Floats, ratio: float, single: bool) -> NDArray[np.bool_]:
    if not single:
        return np.asarray(d1 < ratio * d2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(d1.astype(np.float32) / d2.astype(np.float32) < np.float32(ratio))


def is_matcher(text: str | None) -> bool:
    """Return whether a text names a class in a Python file, ``my.py:Class``."""
    return text is not None and text.rpartition(":")[0].endswith(".py")


def matcher_hash(text: str | None) -> str | None:
    """Return the hash of the source and settings of a user's matcher. None for a built-in matcher."""
    if text is None or not is_matcher(text):
        return None
    file, _, name = text.rpartition(":")
    config, _ = config_of(load_from_file(file, name)(), distance="", device="cpu", on_bad="error")
    return hash_json(config)


@lru_cache(maxsize=8)
def _factory(file: str, name: str, source: str) -> UserFactory:
    """Return the class of a user's matcher. It is reloaded if its source has changed."""
    return load_from_file(file, name)


def user_class_matches(text: str, a: ComparedFeatures, b: ComparedFeatures, *, distance: str) -> Matches:
    """Return the matches of the user's matcher ``FILE.py:CLASS``."""
    file, _, name = text.rpartition(":")
    matcher = _factory(file, name, source_hash(Path(file)))()
    if not hasattr(matcher, "match"):
        raise InputError(f"{text}: the class has no match(features1, features2); define this method")
    return matched_by(matcher, text, a, b, distance=distance)


def replay_matches(opened: OpenKeypoints, scene: str, image: str, features: Features) -> MatchedPair:
    """Recompute the matches of an image pair with their errors, for pictures.

    These are the nearest neighbours of co-visible reference locations. Each location is represented by its
    keypoint with the smallest descriptor distance. For `keypoints/images`, they are the mutual neighbours or
    the matches of the user's matcher, including those that are not co-visible.
    """
    s = opened.sequences
    first = s.images(scene)[0]
    source, target = (opened.features_of(features, scene, k) for k in (first, image))
    pair, matching = opened.sequences.pair(scene, image), getattr(opened.options, "matching", None)
    if matching is not None and is_matcher(matching):
        made = user_class_matches(matching, source, target, distance=features.distance)
        return match_errors(pair, source.xy[made.first], target.xy[made.second])
    found = first_neighbours_mutual(
        source, target, distance=features.distance, seed=getattr(opened.options, "seed", 0)
    )
    if matching is not None:
        rows = np.flatnonzero(found.mutual)
    else:
        places = locations(source.xy)
        seen = answers(
            s.homography(scene, image), places.xy, target.xy, source_size=s.size(scene, first),
            target_size=s.size(scene, image),
        ).status != OUT_OF_VIEW  # fmt: skip
        of = places.of[found.first]
        order = np.lexsort((found.d1, of))
        rows = order[np.flatnonzero(np.append(True, of[order][1:] != of[order][:-1])[: len(order)])]
        rows = rows[seen[of[rows]]]
    sure = 1.0 - ratio_of(found.d1[rows], found.d2[rows], squared=False)
    one, two = source.xy[found.first[rows]], target.xy[found.second[rows]]
    return match_errors(pair, one, two, np.nan_to_num(sure))
