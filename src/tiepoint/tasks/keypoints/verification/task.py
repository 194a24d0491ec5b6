# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/verification`: separate correct from incorrect keypoint pairs by distance.

Records contain the pair list of one scene. A row has the iteration, the descriptor distance, whether the pair
is correct, and the scene of the image that contains the second keypoint. One AP is computed from the pairs of
all scenes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import PooledBins, Score
from ....geometry.correspondence import ANSWERED, OUT_OF_VIEW
from ....metrics import average_precision, chance_average_precision, precision_recall_curve
from ...base import MetricInfo, TaskInfo
from ...cases import Cases
from ...info import AP_OF_PAIRS, POOLED_LIST, count
from ...pooled_bins import pooled_bins
from ...scene_means import count_score, grouped_scores, with_protocol
from ...steps import StepTable
from ..bojanic import (
    bojanic_kind,
    bojanic_rows,
    drawn_queries,
    is_nearest,
    nearest_rows,
    reference_of,
    searched_rows,
)
from ..data import CITE, LICENCE, WORKBENCH_VERSIONS, ColumnBuilder, OpenKeypoints, scene_records
from ..distractors import (
    DistractorTask,
    bojanic_images,
    by_image,
    draw_cases,
    named_by_kind,
    other_images,
    query_sample,
)
from ..neighbours import answered_targets, least, location_table, nearest_distance, right_table
from ..workbench import compare_pooled, score_pooled

Floats = NDArray[np.float64]


def _growing() -> ColumnBuilder:
    return ColumnBuilder(iteration=np.int16, distance=np.float64, right=np.float64, other=np.int32)


def _meta(opened: OpenKeypoints, scene: str, kind: str, **more: Any) -> dict[str, Any]:
    scenes = list(opened.sequences.scenes)
    return {"scene": scene, "kind": kind, "scenes": scenes, "iterations": opened.options.iterations, **more}


def compare_bojanic(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Find each query's nearest neighbour by descriptor distance in every target and distractor image."""
    _, *others = opened.sequences.images(scene)
    reference = reference_of(opened, scene, features)
    targets = {k: bojanic_rows(features, f"{scene}/{k}") for k in others}
    made, number = _growing(), opened.sequences.scenes.index
    rounds = range(opened.options.iterations)
    drawn = [drawn_queries(opened, scene, reference, i) for i in rounds]
    distractors = 0
    for k, target in targets.items():
        for iteration, chosen in enumerate(drawn):
            if len(target.usable) and len(chosen):
                queries = reference.rows.values[chosen]
                index, distance = nearest_rows(queries, target, features.distance)
                right = is_nearest(reference.projected[k][chosen], target.xy, index)
                made.add(iteration, distance, right, number(scene))
    for key, used in by_image([bojanic_images(opened, scene, i) for i in rounds]).items():
        image = searched_rows(opened, features, key)
        chosen = np.concatenate([drawn[i] for i in used])
        if len(image.usable) and len(chosen):
            distance = nearest_rows(reference.rows.values[chosen], image, features.distance)[1]
            distractors += len(used)
            for i, part in zip(used, np.split(distance, len(used)), strict=True):
                made.add(i, part, 0.0, number(key.rpartition("/")[0]))
    meta = _meta(opened, scene, bojanic_kind(scene), kept=len(reference.kept), distractor_images=distractors)
    return Records("pair", made.columns(), meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Build the pair list of a scene. Its correct pairs come from the ground truth, not from matching.

    For a sampled query location that is visible in a target image, the list gets an incorrect pair, and a
    correct pair (location within tau) if the method re-detects the query. Each pair takes the location with
    the nearest descriptor. Every distractor image, always of another scene, also adds an incorrect pair. A
    failed descriptor has infinite distance and stays in the list.
    """
    s, options = opened.sequences, opened.options
    source, places, targets = answered_targets(opened, scene, features)
    made, number = _growing(), s.scenes.index
    away = distractors = 0
    rounds = range(options.iterations)
    drawn = [query_sample(len(places.xy), options.queries, options.seed, scene, i) for i in rounds]
    for iteration, chosen in enumerate(drawn):
        for target, spots, found in targets:
            seen = chosen[found.status[chosen] != OUT_OF_VIEW]
            away += len(chosen) - len(seen)
            table = location_table(source, places, target, spots, seen, features.distance)
            right = right_table(found.query, found.target, seen, table.shape)
            answered = found.status[seen] == ANSWERED
            made.add(iteration, least(table, right)[answered], 1.0, number(scene))
            made.add(iteration, least(table, ~right), 0.0, number(scene))
    for key, used in by_image([other_images(opened, scene, i) for i in rounds]).items():
        other, _, image = key.rpartition("/")
        target = opened.features_of(features, other, image)
        chosen = np.concatenate([drawn[i] for i in used])
        distance = nearest_distance(source, places, target, chosen, features.distance)
        distractors += len(used)
        for i, part in zip(used, np.split(distance, len(used)), strict=True):
            made.add(i, part, 0.0, number(other))
    meta = _meta(opened, scene, s.kind(scene), out_of_view=away, distractor_images=distractors)
    return Records("pair", made.columns(), meta)


def _pooled(records: Sequence[Records], ties: str, group: str) -> Score:
    """Compute the AP of the pooled pair lists of given scenes, averaged over iterations."""
    if not records:
        return Score("ap", group, float("nan"), 0)
    distance, right = (np.concatenate([r[name] for r in records]) for name in ("distance", "right"))
    iteration = np.concatenate([r["iteration"] for r in records])
    values, chance = [], []
    for i in np.unique(iteration):
        rows = iteration == i
        values.append(average_precision(distance[rows], right[rows], ties=ties))
        if right[rows].any():
            chance.append(chance_average_precision(int(rows.sum()), float(right[rows].sum())))
    value = float(np.mean(values)) if values else float("nan")
    score = Score(
        "ap",
        group,
        value,
        len(distance),
        chance=float(np.mean(chance)) if chance else None,
        pooled=_bins(records),
        extra={"iterations": [float(v) for v in values]},
    )
    if len(values) > 1 and np.isfinite(values).all():
        spread = float(np.std(values, ddof=1))
        return replace(score, note=f"mean of {len(values)} iterations, standard deviation {spread:.4f}")
    return score


def _bins(records: Sequence[Records]) -> PooledBins | None:
    """Count the pairs of all iterations by scene and distance bin. Failures are in the last bin."""
    scenes = [str(s) for s in records[0].meta["scenes"]]
    kind = {str(r.meta["scene"]): str(r.meta["kind"]) for r in records}
    own = np.concatenate([np.full(len(r), scenes.index(str(r.meta["scene"]))) for r in records])
    other = np.concatenate([r["other"] for r in records]).astype(np.int64)
    distance = np.concatenate([r["distance"] for r in records])
    right = np.concatenate([r["right"] for r in records]) > 0
    if not right.any() or right.all():
        return None
    # An interval resamples the scenes that have lists, but not scenes that only provide distractors.
    other = np.where(np.isin(other, np.unique(own)), other, own)
    kinds = [kind.get(s, "other") for s in scenes]
    far = np.nextafter(distance[np.isfinite(distance)].max(initial=0.0), np.inf)
    distance = np.where(np.isfinite(distance), distance, far)
    return pooled_bins(distance, right, own, other, scenes, kinds, ("ap",))[0]


def _score(records: Sequence[Records], protocol: str, ties: str) -> list[Score]:
    scores = grouped_scores(records, lambda chosen, group: _pooled(chosen, ties, group))
    scores += named_by_kind(scores, "ap", "verification")
    positives = sum(float(r["right"].sum()) for r in records)
    scores.append(count_score("total_true_positives", positives))
    scores.append(count_score("total_negatives", sum(len(r) for r in records) - positives))
    return with_protocol(scores, protocol)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Return the pooled AP over all scenes. Ties count as the mean over all orders."""
    return _score(records, "exact", "expected")


def score_bojanic(records: Sequence[Records]) -> list[Score]:
    """Return the pooled AP over all scenes. Equal distances form one step of its curve."""
    return _score(records, "bojanic", "group")


class KeypointVerification(DistractorTask):
    """Task `keypoints/verification`: separate correct from incorrect pairs within and across scenes.

    Each pair has the nearest descriptors of two images.
    """

    name = "keypoints/verification"
    info = TaskInfo(
        "Does the distance alone separate correct pairs of keypoints from incorrect ones?",
        ("ap", "all"),
        {
            "ap": MetricInfo(f"{AP_OF_PAIRS}, one list over all scenes"),
            "keypoint_verification_ap": MetricInfo("ap under the older tool's name"),
            "verification_viewpoint_ap": MetricInfo("ap of the viewpoint scenes"),
            "verification_illumination_ap": MetricInfo("ap of the illumination scenes"),
            "total_true_positives": count("number of correct pairs"),
            "total_negatives": count("number of incorrect pairs"),
            "total_hard_negatives": count("number of incorrect pairs within a scene"),
            "total_distractors": count("number of pairs with a keypoint of another scene"),
        },
        cite=CITE,
        licence=LICENCE,
        title="Keypoint verification",
        protocol_versions=WORKBENCH_VERSIONS,
        not_raceable=POOLED_LIST,
    )
    comparisons: ClassVar = {
        "exact": compare_exact,
        "workbench": partial(compare_pooled, role="verification"),
        "bojanic": compare_bojanic,
    }
    scorings: ClassVar = {
        "exact": score_exact,
        "workbench": partial(score_pooled, role="verification"),
        "bojanic": score_bojanic,
    }

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return `ap` after each step from `exact`: first the tie rule changes, then the mean over scenes."""

        def value(chosen: Sequence[Records], ties: str) -> float:
            distance, right, iteration = (
                np.concatenate([r[c] for r in chosen]) for c in ("distance", "right", "iteration")
            )
            rows = [iteration == i for i in np.unique(iteration)]
            return float(np.mean([average_precision(distance[m], right[m], ties=ties) for m in rows]))

        used = [r for r in records if r["right"].any()]
        if not used:
            return [StepTable("ap", [])]
        steps = [
            ("exact: one list over all scenes, expected ties", value(used, "expected")),
            ("a tie is one step of the curve", value(used, "group")),
            ("one list per scene, mean over scenes", float(np.mean([value([r], "group") for r in used]))),
        ]
        return [StepTable("ap", steps)]

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Compute precision-recall curves of all iterations, overall and by scene."""
        groups = [("all", list(records)), *((f"scene={r.meta['scene']}", [r]) for r in records)]
        for group, chosen in groups:
            right = np.concatenate([r["right"] for r in chosen])
            if right.any():
                curve = precision_recall_curve(np.concatenate([r["distance"] for r in chosen]), right)
                yield group, "precision_recall", curve.x, curve.y

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the random samples of a scene, scored by the average precision of their pair lists."""
        if (r := scene_records(records, scene)) is None:
            return None
        rounds = np.unique(r["iteration"])
        lists = [r["iteration"] == i for i in rounds]
        return draw_cases(
            rounds, [average_precision(r["distance"][rows], r["right"][rows]) for rows in lists]
        )


TASK = KeypointVerification()
