# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the keypoint tasks: the reference of a scene with another image; and such a pair matched again.

Methods find different keypoints, so that a single one is no case that two methods share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.records import Features, Records
from ...geometry.correspondence import OUT_OF_VIEW, answers, locations
from ...metrics import average_precision
from ..cases import Cases, Floats, MatchedPair, QueryCase, nearest_candidates, ratio_of, side_shares
from ..pairs.data import match_errors
from .data import OpenKeypoints
from .distractors import other_images, query_sample, uses_all_distractors
from .geometry.score import GIVEN, HEADLINE_PX, geometry_thresholds
from .neighbours import (
    answered_targets,
    first_neighbours_mutual,
    is_matcher,
    location_table,
    right_table,
    user_class_matches,
)
from .ranking.score import query_values
from .retrieval.task import drawn_rows, query_aps


def scene_of(records: Sequence[Records], scene: str) -> Records | None:
    """The records of a scene."""
    return next((r for r in records if r.meta["scene"] == scene), None)


def ranking_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Mean average precision of the answered queries in each image."""
    if (r := scene_of(records, scene)) is None:
        return None
    table, names = query_values(r, 0), [str(p["image"]) for p in r.meta["pairs"]]
    total = np.bincount(table.image, weights=table.values["ap"], minlength=len(names))
    return _images(names, _means(total, np.bincount(table.image, minlength=len(names))))


def matching_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Average precision of the first neighbours in each image, as it is scored."""
    if (r := scene_of(records, scene)) is None:
        return None
    values = []
    for image, pair in enumerate(r.meta["pairs"]):
        rows, most = r["image"] == image, int(pair["answered"])
        values.append(
            average_precision(r["distance"][rows], r["right"][rows], normaliser=most) if most else np.nan
        )
    return _images([str(p["image"]) for p in r.meta["pairs"]], np.array(values))


def geometry_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Share of the mutual matches, or of those given, within 3 px in each image."""
    if (r := scene_of(records, scene)) is None:
        return None
    matcher = GIVEN if f"accuracy_{GIVEN}" in r.columns else "mutual"
    at = int(np.flatnonzero(geometry_thresholds(r.meta.get("options", {})) == HEADLINE_PX)[0])
    return _images(r.meta["images"], np.asarray(r[f"accuracy_{matcher}"][:, at], np.float64))


def image_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Share of the images of other scenes that each image of the scene stands before; half of a tie."""
    if (r := scene_of(records, scene)) is None:
        return None
    right = np.asarray(r["right"], bool)
    names = [str(key).rpartition("/")[2] for key, own in zip(r.meta["images"], right, strict=True) if own]
    return _images(names, side_shares(-r["score"][right], np.sort(-r["score"][~right]), nearer=True))


def drawn_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Draws of queries: mean average precision of their lists, or that of one list of all pairs."""
    if (r := scene_of(records, scene)) is None:
        return None
    rounds = np.unique(r["iteration"])
    if "query" in r.columns:
        ap, iteration, _ = query_aps(r, "expected")
        values = [float(ap[iteration == i].mean()) for i in rounds]
    else:
        lists = [r["iteration"] == i for i in rounds]
        values = [average_precision(r["distance"][rows], r["right"][rows]) for rows in lists]
    return Cases(
        rounds.astype(np.int64), np.array(values, np.float64), None, lambda key: f"draw {int(key) + 1}"
    )


def _images(names: Sequence[Any], values: Floats) -> Cases:
    return Cases(np.array([str(n) for n in names], np.str_), values, None, lambda key: f"image {key}")


def _means(total: Any, count: Any) -> Floats:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def replay_matches(opened: OpenKeypoints, scene: str, image: str, features: Features) -> MatchedPair:
    """First neighbours of the locations of the reference that another image shows, with their errors.

    Of a location's keypoints the one with the nearest neighbour speaks for it. `keypoints/images` has the
    mutual ones, or those of the user's matcher, wherever they lie.
    """
    s = opened.sequences
    first = s.images(scene)[0]
    source, target = (opened.features_of(features, scene, k) for k in (first, image))
    pair, matching = opened.image_pair(scene, image), getattr(opened.options, "matching", None)
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


def worst_of_draw(opened: OpenKeypoints, scene: str, iteration: int, features: Features) -> QueryCase | None:
    """The query of a draw whose own list has the lowest average precision, made again; None without any.

    The list of `keypoints/retrieval`: its right location in every image that has one, and the nearest drawn
    location of every distractor image. That of `keypoints/verification` also has the nearest wrong location
    of every image of the scene, and all locations of distractor images are looked at.
    """
    if uses_all_distractors(opened.options):
        return None
    options, pooled = opened.options, opened.task.name == "keypoints/verification"
    first, *others = opened.sequences.images(scene)
    source, places, targets = answered_targets(opened, scene, features)
    chosen = query_sample(len(places.xy), options.queries, options.seed, scene, iteration)
    made: list[tuple[str, Floats, Floats]] = []
    kept: list[tuple[bool, Any]] = []  # whether a candidate is right, and which queries have it
    for image, (target, spots, found) in zip(others, targets, strict=True):
        table = location_table(source, places, target, spots, chosen, features.distance)
        right = right_table(found.query, found.target, chosen, table.shape)
        made.append((f"{scene}/{image}", spots.xy, np.where(right, table, np.inf)))
        kept.append((True, right.any(axis=1)))
        if pooled:
            made.append((f"{scene}/{image}", spots.xy, np.where(right, np.inf, table)))
            kept.append((False, found.status[chosen] != OUT_OF_VIEW))
    for key in other_images(opened, scene, iteration):
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        spots = locations(target.xy)
        rows = None if pooled else drawn_rows(opened, scene, iteration, key, len(spots.xy))
        table = location_table(source, places, target, spots, chosen, features.distance, only=rows)
        made.append((key, spots.xy, table))
        kept.append((False, np.ones(len(chosen), bool)))
    near = np.array([table.min(axis=1, initial=np.inf) for _, _, table in made]).T
    is_right, has = np.array([r for r, _ in kept]), np.array([h for _, h in kept]).T
    asked = np.flatnonzero((has & is_right).any(axis=1))
    if not len(asked):
        return None
    values = [average_precision(near[n, has[n]], is_right[has[n]]) for n in asked]
    q = int(asked[int(np.argmin(values))])

    def picture(candidate: int) -> str:
        item, xy, table = made[candidate]
        x, y = xy[int(table[q].argmin())]
        return f"{item}@{x:.1f},{y:.1f}"

    values_of = np.where(has[q], near[q], np.inf)
    rights = np.flatnonzero(is_right & np.isfinite(values_of)).tolist()
    nearest, known = nearest_candidates(values_of, rights, picture, squared=False)
    x, y = places.xy[chosen[q]]
    query = f"{scene}/{first}@{x:.1f},{y:.1f}"
    note = f"{query}, the query of this draw whose list has the lowest average precision"
    return QueryCase(query, nearest, known, float(min(values)), note)
