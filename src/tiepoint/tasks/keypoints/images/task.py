# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/images`: retrieve the other images of a scene by counting matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, computed_field

from ....core.records import Features, Records
from ....core.scores import Score, group_name, scene_kind
from ....methods.pairs.matchers import Matches
from ....metrics import average_precision, chance_average_precision
from ...base import MetricInfo, TaskInfo
from ...cases import Cases, side_shares
from ...info import METHOD_QUERIES
from ...scene_means import SceneSums, by_scene, macro_score, with_protocol
from ..data import (
    CITE,
    LICENCE,
    WORKBENCH_VERSIONS,
    ComparedFeatures,
    KeypointTask,
    OpenKeypoints,
    image_cases,
    image_features,
    scene_records,
)
from ..neighbours import first_neighbours_mutual, is_matcher, matcher_hash, select_matches, user_class_matches
from ..options import SceneOptions
from ..workbench import raw_values

_RATIO = 0.8


class ImagesOptions(SceneOptions):
    """Options of `keypoints/images`."""

    seed: int = 0
    """Seed of the random order that breaks ties between equally near neighbours (`exact`)."""

    matching: Annotated[str, Field(pattern=r"^(brute_force|ratio_test|.+\.py:\w+)$")] = "brute_force"
    """Matcher: mutual nearest neighbours (`brute_force`), ratio of first to second distance below 0.8
    (`ratio_test`), or your class ``my.py:Class`` with ``match(features1, features2)``."""

    @computed_field
    def matcher_source(self) -> str | None:
        """Hash of the source of the custom matcher."""
        return matcher_hash(self.matching)

    scorer: Literal["total_matches", "ratio_sum", "correct_matches"] = "total_matches"
    """Score by which images are ranked: number of matches, sum of 1/(1 + distance), or matches with equal row
    indices.
    """


def _score_of(matches: Matches, scorer: str, same_scene: bool) -> float:
    if scorer == "ratio_sum":
        return float((1.0 / (1.0 + matches.distance)).sum())
    if scorer == "correct_matches":
        # Row numbers do not correspond across scenes; the tool scores such images 0.
        return float((matches.first == matches.second).sum()) if same_scene else 0.0
    return float(len(matches.first))


def _compare(opened: OpenKeypoints, scene: str, features: Features, *, legacy: bool) -> Records:
    options = opened.options
    matcher = "mutual" if options.matching == "brute_force" else "ratio"
    query_key = f"{scene}/{opened.sequences.images(scene)[0]}"

    def load(key: str) -> ComparedFeatures:
        image = image_features(features, key)
        if not legacy:
            return image
        values = raw_values(image)
        return ComparedFeatures(key, image.xy, values, np.isfinite(values).all(axis=1))

    query = load(query_key)
    keys, values, right = [], [], []
    for item in opened.items:
        own = item.key.rpartition("/")[0] == scene
        if item.key == query_key:
            continue
        image = load(item.key)
        if legacy and (len(image) == 0 or len(query) == 0):
            continue  # the tool stores nothing for an image without descriptors
        distance = "l2" if legacy else features.distance
        if is_matcher(options.matching):
            matches = user_class_matches(options.matching, query, image, distance=distance)
        else:
            found = first_neighbours_mutual(
                query, image, distance=distance, seed=None if legacy else options.seed
            )
            matches = select_matches(found, matcher, ratio=_RATIO, single=legacy)
        keys.append(item.key)
        values.append(_score_of(matches, options.scorer, own))
        right.append(own)
    meta = {"scene": scene, "kind": opened.sequences.kind(scene), "images": keys, "keypoints": len(query)}
    columns = {"score": np.array(values, float), "right": np.array(right, bool)}
    return Records("pair", columns, meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute the ranking score of every other image of the dataset. An image without keypoints scores 0."""
    return _compare(opened, scene, features, legacy=False)


def compare_workbench(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute the ranking score of every other image that has descriptors, as DescriptorWorkbench does."""
    return _compare(opened, scene, features, legacy=True)


def _scores(records: Sequence[Records], kinds: tuple[str, ...], protocol: str, value: Any) -> list[Score]:
    scenes = tuple(str(r.meta["scene"]) for r in records)
    found = np.array([value(r) for r in records], float)
    count = np.isfinite(found).astype(float)
    random = np.array(
        [
            chance_average_precision(len(r), int(r["right"].sum())) if r["right"].any() else 0.0
            for r in records
        ]
    )
    sums = SceneSums(scenes, kinds, np.nan_to_num(found), count, random * count)
    scores = [macro_score("map", sums)]
    for kind in sorted(set(kinds)):
        scores.append(macro_score("map", sums.of_kind(kind), group=group_name(kind=kind)))
    missing = int((count == 0).sum())
    if missing:
        scores[0] = replace(scores[0], note=f"{missing} scenes without a relevant image have no value")
    return with_protocol([*scores, *by_scene("map", sums)], protocol)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP over the reference images as queries. Ties count as the mean over all orders."""

    def value(r: Records) -> float:
        return average_precision(-r["score"], r["right"]) if r["right"].any() else float("nan")

    return _scores(records, tuple(str(r.meta["kind"]) for r in records), "exact", value)


def score_workbench(records: Sequence[Records]) -> list[Score]:
    """Compute the mean AP over the reference images as queries. Ties are ordered by scene and image name.

    This order, taken from DescriptorWorkbench, favours scenes early in the alphabet.
    """

    def value(r: Records) -> float:
        if len(r) == 0:
            return float("nan")
        names = [tuple(key.rpartition("/")[::2]) for key in r.meta["images"]]
        order = sorted(range(len(r)), key=lambda i: (-r["score"][i], names[i]))
        hits = r["right"][order]
        if not hits.any():
            return 0.0
        return average_precision(np.arange(len(hits)), hits)

    kinds = tuple(scene_kind(str(r.meta["scene"]), ("i", "v")) for r in records)
    return _scores(records, kinds, "workbench", value)


class KeypointImages(KeypointTask):
    """Task `keypoints/images`: with image 1 of a scene as query, rank all other images of the dataset."""

    name = "keypoints/images"
    protocols = ("exact", "workbench")
    options = ImagesOptions
    info = TaskInfo(
        "Do the other images of a scene have the most matches with its reference image?",
        ("map", "all"),
        {
            "map": MetricInfo(
                "mean over scenes of the average precision of the scene's images, ranked by the number of "
                "matches, among all images"
            )
        },
        cite=CITE,
        licence=LICENCE,
        title="Image retrieval",
        protocol_versions=WORKBENCH_VERSIONS,
        not_raceable=METHOD_QUERIES,
    )
    comparisons: ClassVar = {"exact": compare_exact, "workbench": compare_workbench}
    scorings: ClassVar = {"exact": score_exact, "workbench": score_workbench}
    reads_others = True

    def others(self, opened: OpenKeypoints, scene: str) -> tuple[str, ...]:
        """Return all images of all scenes, because every image is a candidate."""
        return tuple(item.key for item in opened.items)

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return all images of a scene except image 1, with their scores.

        The score of an image is the share of images of other scenes that rank below it. Ties count half.
        """
        if (r := scene_records(records, scene)) is None:
            return None
        right = np.asarray(r["right"], bool)
        names = [str(key).rpartition("/")[2] for key, own in zip(r.meta["images"], right, strict=True) if own]
        return image_cases(names, side_shares(-r["score"][right], np.sort(-r["score"][~right]), nearer=True))


TASK = KeypointImages()
