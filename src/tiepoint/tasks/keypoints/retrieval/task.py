# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/retrieval`: find the keypoint of a query in other images, among distractors.

Each query has one ranked list. It contains the correct keypoint of every target image. Each distractor image
adds one of its 100 sampled keypoints, the one with the nearest descriptor. Other keypoints of the query's
scene (label 0) are not in the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.records import Features, Records
from ....geometry.correspondence import locations
from ....kernels import pair_distances
from ...base import MetricInfo, TaskInfo
from ...cases import Cases
from ...info import AP_OF_PAIRS, COMPETING, count
from ..bojanic import (
    bojanic_kind,
    bojanic_rows,
    drawn_queries,
    errors_to,
    nearest_distance_of_few,
    reference_of,
    searched_rows,
)
from ..data import CITE, LICENCE, WORKBENCH_VERSIONS, ColumnBuilder, OpenKeypoints
from ..distractors import (
    DistractorTask,
    bojanic_images,
    by_image,
    count_every,
    drawn_rows,
    other_images,
    query_sample,
    uses_all_distractors,
)
from ..neighbours import answered_targets, least, location_table, right_table
from ..options import DistractorOptions
from ..ranking.compare import location_values
from ..workbench import compare_pooled, score_pooled
from .score import MAIN, cases, score_bojanic, score_exact

Ints = NDArray[np.int64]


class KeypointRetrievalOptions(DistractorOptions):
    """Options of `keypoints/retrieval`."""

    exact_alone: ClassVar[Mapping[str, Any]] = {"distractors": "every"}

    distractors: Literal["drawn", "every"] = "drawn"
    """Distractors: the nearest of 100 sampled keypoints of each sampled image (`drawn`), or every keypoint
    location of all other scenes (`every`, only under `exact`). With `every`, only the queries are sampled.
    """

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Raise an error for options without effect, such as sampling options with `distractors=every`."""
        super().check_protocols(task, given, protocols)
        chosen, name = cls.parse(task, given), "distractor_images"
        if chosen.distractors == "every" and chosen.distractor_images != cls.model_fields[name].default:
            raise InputError(f"option {name} of {task} has no effect with distractors=every; remove it")


def _growing() -> ColumnBuilder:
    return ColumnBuilder(iteration=np.int16, query=np.int32, distance=np.float64, right=np.int8)


def _lists(made: ColumnBuilder, meta: dict[str, Any]) -> Records:
    """Return the records of a scene, sorted by iteration and query."""
    columns = made.columns()
    order = np.lexsort((columns["query"], columns["iteration"]))
    return Records("pair", {name: column[order] for name, column in columns.items()}, meta)


def compare_bojanic(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute the ranked list of each query: correct keypoints and distractors by descriptor distance.

    The correct keypoint of a target image is the one closest to the true position. Each distractor image of
    another scene contributes the nearest descriptor of 100 sampled keypoints.
    """
    _, *others = opened.sequences.images(scene)
    reference = reference_of(opened, scene, features)
    targets = {k: bojanic_rows(features, f"{scene}/{k}") for k in others}
    made = _growing()
    rounds = range(opened.options.iterations)
    drawn = [drawn_queries(opened, scene, reference, i) for i in rounds]
    searched = []
    for iteration, chosen in enumerate(drawn):
        number = np.arange(len(chosen))
        for k, target in targets.items():
            if len(target.usable) and len(chosen):
                near = errors_to(reference.projected[k][chosen], target.xy[target.usable]).argmin(axis=1)
                found = pair_distances(
                    reference.rows.values,
                    target.values,
                    chosen,
                    target.usable[near],
                    distance=features.distance,
                )
                made.add(iteration, number, found / 2 if features.distance == "hamming" else found, 1)
    for key, used in by_image([bojanic_images(opened, scene, i) for i in rounds]).items():
        image = searched_rows(opened, features, key)
        for i in used:
            rows = drawn_rows(opened, scene, i, key, len(image.usable))
            if len(rows) and len(drawn[i]):
                pool = image.values[image.usable[rows]]
                distance = nearest_distance_of_few(reference.rows.values[drawn[i]], pool, features.distance)
                made.add(i, np.arange(len(drawn[i])), distance, 0)
                searched.append(len(rows))
    meta = {"scene": scene, "kind": bojanic_kind(scene), "kept": len(reference.kept), "searched": searched}
    return _lists(made, meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compute the ranked list of each query: correct locations and distractors by descriptor distance.

    Each image that re-detects the query adds the location within tau that has the nearest descriptor. A query
    that is not re-detected in any image has no list; the metadata counts such queries. Distractor images are
    of other scenes.
    """
    s, options = opened.sequences, opened.options
    source, places, targets = answered_targets(opened, scene, features)
    made = _growing()
    unanswered = 0
    searched = []
    rounds = range(options.iterations)
    drawn = [query_sample(len(places.xy), options.queries, options.seed, scene, i) for i in rounds]
    numbers = []
    for iteration, chosen in enumerate(drawn):
        answered = np.zeros(len(chosen), bool)
        for target, spots, found in targets:
            table = location_table(source, places, target, spots, chosen, features.distance)
            right = right_table(found.query, found.target, chosen, table.shape)
            has = right.any(axis=1)
            answered |= has
            made.add(iteration, np.flatnonzero(has), least(table, right)[has], 1)
        unanswered += int((~answered).sum())
        numbers.append(np.flatnonzero(answered))
    for key, used in by_image([other_images(opened, scene, i) for i in rounds]).items():
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        spots = locations(target.xy)
        for i in used:
            rows = drawn_rows(opened, scene, i, key, len(spots.xy))
            chosen = drawn[i][numbers[i]]
            table = location_table(source, places, target, spots, chosen, features.distance, only=rows)
            made.add(i, numbers[i], table.min(axis=1, initial=np.inf), 0)
            searched.append(len(rows))
    meta = {"scene": scene, "kind": s.kind(scene), "unanswered": unanswered, "searched": searched}
    return _lists(made, meta)


def compare_every(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Compare as in `compare_exact`, with every location of all other scenes as a distractor.

    Records have one row per correct location of a query: its `distance`, whether the distance is finite
    (`retrieved`), and the numbers of distractors that are nearer (`lt`) and equally near (`eq`). For l2 these
    use squared distances. The distractors are read image by image.
    """
    source, places, targets = answered_targets(opened, scene, features)
    options = opened.options
    made = ColumnBuilder(iteration=np.int16, query=np.int32, place=np.int64, value=np.float64)
    unanswered = 0
    for iteration in range(options.iterations):
        chosen = query_sample(len(places.xy), options.queries, options.seed, scene, iteration)
        number = np.full(len(places.xy), -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        answered = np.zeros(len(chosen), bool)
        for target, spots, found in targets:
            own = np.flatnonzero(number[found.query] >= 0)
            if not len(own):
                continue
            place, right = found.query[own], found.target[own]
            value = location_values(source, places, target, spots, place, right, features.distance)
            first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
            answered[number[place[first]]] = True
            made.add(iteration, number[place[first]], place[first], np.minimum.reduceat(value, first))
        unanswered += int((~answered).sum())
    columns = made.columns()
    order = np.lexsort((columns["query"], columns["iteration"]))
    columns = {name: column[order] for name, column in columns.items()}
    lt, eq, total = count_every(opened, scene, features, source, places, columns["place"], columns["value"])
    value = columns["value"]
    table = {
        "iteration": columns["iteration"],
        "query": columns["query"],
        "distance": np.sqrt(value) if features.distance == "l2" else value,
        "retrieved": np.isfinite(value),
        "lt": lt,
        "eq": eq,
    }
    meta = {"scene": scene, "kind": opened.sequences.kind(scene), "unanswered": unanswered}
    return Records("rank", table, meta | {"pool": "every", "distractors": total})


class KeypointRetrieval(DistractorTask):
    """Task `keypoints/retrieval`: find keypoints of image 1 in other images, among those of other scenes."""

    name = "keypoints/retrieval"
    info = TaskInfo(
        "Are the images of a keypoint ranked before keypoints of other scenes?",
        MAIN,
        {
            "map": MetricInfo(
                "mean over queries of the average precision of a keypoint's images among keypoints of other "
                "scenes"
            ),
            "ap": MetricInfo(f"{AP_OF_PAIRS}, per scene"),
            "keypoint_retrieval_ap": MetricInfo("map, under workbench ap, by the older tool's name"),
            "retrieval_viewpoint_ap": MetricInfo("map, under workbench ap, of the viewpoint scenes"),
            "retrieval_illumination_ap": MetricInfo("map, under workbench ap, of the illumination scenes"),
            "queries_unanswered": count("number of queries that no image re-detects"),
            "retrieval_num_true_positives": count("number of correct pairs"),
            "retrieval_num_hard_negatives": count("number of incorrect pairs within a scene"),
            "retrieval_num_distractors": count("number of pairs with a keypoint of another scene"),
        },
        cite=CITE,
        licence=LICENCE,
        title="Keypoint retrieval",
        protocol_versions=WORKBENCH_VERSIONS,
        not_raceable=COMPETING,
    )
    options = KeypointRetrievalOptions
    comparisons: ClassVar = {
        "exact": lambda opened, scene, features: (
            compare_every if uses_all_distractors(opened.options) else compare_exact
        )(opened, scene, features),
        "workbench": partial(compare_pooled, role="retrieval"),
        "bojanic": compare_bojanic,
    }
    scorings: ClassVar = {
        "exact": score_exact,
        "workbench": partial(score_pooled, role="retrieval"),
        "bojanic": score_bojanic,
    }

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the random samples of a scene with their scores."""
        return cases(records, scene)


TASK = KeypointRetrieval()
