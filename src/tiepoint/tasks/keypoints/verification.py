# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/verification`: telling right pairs of keypoints from wrong ones by their distance alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ...metrics import average_precision, chance_average_precision
from ...model.records import Records
from ...model.scores import PooledBins, Score, group_name
from ..base import MetricInfo, StepTable, TaskInfo
from ..info import AP_OF_PAIRS, count
from ..pooled_bins import pooled_bins
from ..scene_means import count_score, with_protocol
from .conventions import Curves, verification_conventions, verification_curves
from .distractors import DistractorTask
from .opened import CITE, LICENCE
from .verification_lists import compare_bojanic, compare_exact
from .workbench_pooled import compare_verification, score_verification


def _pooled(records: Sequence[Records], ties: str, group: str) -> Score:
    """One AP over the lists of all given scenes, per iteration; the score is the mean over iterations."""
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
    """Counts by scene and distance bin, all iterations together; failures stand in the last bin."""
    scenes = [str(s) for s in records[0].meta["scenes"]]
    kind = {str(r.meta["scene"]): str(r.meta["kind"]) for r in records}
    own = np.concatenate([np.full(len(r), scenes.index(str(r.meta["scene"]))) for r in records])
    other = np.concatenate([r["other"] for r in records]).astype(np.int64)
    distance = np.concatenate([r["distance"] for r in records])
    right = np.concatenate([r["right"] for r in records]) > 0
    if not right.any() or right.all():
        return None
    # An interval resamples the scenes that have lists; those that only lend distractors are not among them.
    other = np.where(np.isin(other, np.unique(own)), other, own)
    kinds = [kind.get(s, "other") for s in scenes]
    far = np.nextafter(distance[np.isfinite(distance)].max(initial=0.0), np.inf)
    distance = np.where(np.isfinite(distance), distance, far)
    return pooled_bins(distance, right, own, other, scenes, kinds, ("ap",))[0]


def _score(records: Sequence[Records], protocol: str, ties: str) -> list[Score]:
    scores = [_pooled(records, ties, "all")]
    for kind in sorted({str(r.meta["kind"]) for r in records}):
        chosen = [r for r in records if r.meta["kind"] == kind]
        scores.append(_pooled(chosen, ties, group_name(kind=kind)))
    scores += [replace(_pooled([r], ties, group_name(scene=r.meta["scene"])), pooled=None) for r in records]
    positives = sum(float(r["right"].sum()) for r in records)
    scores.append(count_score("total_true_positives", positives))
    scores.append(count_score("total_negatives", sum(len(r) for r in records) - positives))
    return with_protocol(scores, protocol)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """One AP over all scenes, expected ties."""
    return _score(records, "exact", "expected")


def score_bojanic(records: Sequence[Records]) -> list[Score]:
    """One AP over all scenes, a tie is one step of the curve."""
    return _score(records, "bojanic", "group")


class Verification(DistractorTask):
    """First neighbours in the same and in other scenes, right pairs among wrong ones."""

    name = "keypoints/verification"
    info = TaskInfo(
        "Does the distance alone tell right pairs of keypoints from wrong ones?",
        ("ap", "all"),
        {
            "ap": MetricInfo(f"{AP_OF_PAIRS}, one list over all scenes"),
            "keypoint_verification_ap": MetricInfo("ap under the older tool's name"),
            "verification_viewpoint_ap": MetricInfo("ap of the viewpoint scenes"),
            "verification_illumination_ap": MetricInfo("ap of the illumination scenes"),
            "total_true_positives": count("number of right pairs"),
            "total_negatives": count("number of wrong pairs"),
            "total_hard_negatives": count("number of wrong pairs within a scene"),
            "total_distractors": count("number of pairs with a keypoint of another scene"),
        },
        cite=CITE,
        licence=LICENCE,
    )
    comparisons: ClassVar = {
        "exact": compare_exact,
        "workbench": compare_verification,
        "bojanic": compare_bojanic,
    }
    scorings: ClassVar = {"exact": score_exact, "workbench": score_verification, "bojanic": score_bojanic}

    def conventions(self, records: Sequence[Records]) -> list[StepTable]:
        """From `exact` towards `bojanic`, rule by rule."""
        return verification_conventions(records)

    def curves(self, records: Sequence[Records]) -> Curves:
        """Precision against recall of all lists together, overall and by scene."""
        return verification_curves(records)


TASK = Verification()
