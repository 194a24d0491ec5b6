# SPDX-License-Identifier: BSD-3-Clause
"""Task `homography/pairs`: estimate the homography of a user's own image pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from ...core.errors import ProblemsError
from ...core.formatting import count_text
from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...datasets.image_pairs.planes import floor_px, plane_problems, turned_truth
from ..base import TaskInfo
from ..options import Flag
from ..pairs.data import OpenPairs, PairsTask, SeededOptions
from ..pairs.score import without_model
from ..scene_means import with_protocol
from ..unit_values import Means, Reasons, UnitFacts, UnitWeights
from .compare import compare_exact
from .score import metrics_of, pair_areas, score_exact

HEADLINE_PX = 3
THRESHOLDS_PX = (1, 3, 5, 10)


def _degrees(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value


class PlaneOptions(SeededOptions):
    """Options of tasks on pairs with homographies."""

    turn: Annotated[Literal[0, 90, 180, 270], BeforeValidator(_degrees)] = 0
    """Degrees by which image 1 is turned counter-clockwise; the true homography follows."""

    mirror: Flag = False
    """Mirror image 1 left-right, before it is turned."""


class PlaneTask(PairsTask):
    """Base class of tasks on pairs with homographies or landmarks."""

    needs = "plane"
    options = PlaneOptions
    libraries = ("cv2", "poselib")
    thresholds: ClassVar[tuple[int, ...]] = THRESHOLDS_PX
    headline_px: ClassVar[int] = HEADLINE_PX
    means: ClassVar[Means] = {
        "auc": frozenset({"tau_px"}),
        "landmark_auc": frozenset({"tau_px"}),
        "mma": frozenset({"tau_px"}),
        "without_model": frozenset(),
    }
    reasons: ClassVar[Reasons] = dict.fromkeys(
        ("corner_px", "landmark_px", "floor_px"), "a median is no mean of unit values"
    )

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """Return the pairs with image 1 mirrored and turned.

        Raise an error for unusable true homographies.
        """
        problems = plane_problems(data.truths)
        if problems:
            raise ProblemsError(data.what, problems)
        turns = options.turn // 90
        turned = tuple(turned_truth(t, turns, mirror=options.mirror) for t in data.truths)
        return replace(data, truths=turned)

    def data_warnings(self, opened: OpenPairs) -> Sequence[str]:
        """Return a warning about thresholds that are below the residual error of the true homographies."""
        floors = np.array([floor_px(truth) for truth in opened.pair_truths()])
        known = floors[np.isfinite(floors)]
        low = [t for t in self.thresholds if (known > t).any()]
        if not low:
            return ()
        counts = ", ".join(f"{t} px in {int((known > t).sum())}" for t in low)
        return (
            f"the true homographies miss their own landmarks by more than {counts} of "
            f"{count_text(len(known), 'pair')}; there auc at these thresholds measures the annotation",
        )

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair: the errors of every estimated homography."""
        return compare_exact(truth, arrays, options)

    def unit_facts(self, opened: OpenPairs) -> Mapping[str, UnitFacts]:
        """Return scene, images and kinds of ground truth of every pair."""
        return {
            name: replace(facts, groups=dict.fromkeys(opened.truth(name).annotations, "yes"))
            for name, facts in super().unit_facts(opened).items()
        }

    def facts_of(self, record: Records) -> UnitFacts:
        """Return scene, images and kinds of ground truth of a pair from its records."""
        known = {"H": "error_px", "landmarks": "landmark_px"}
        groups = {key: "yes" for key, column in known.items() if not np.isnan(record[column]).all()}
        return replace(super().facts_of(record), groups=groups)

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return equal weights of the pairs that have the ground truth of a metric."""
        needed = {"auc": "H", "mma": "H", "landmark_auc": "landmarks"}.get(metric)
        own = {k: f for k, f in units.items() if needed is None or needed in (f.groups or {})}
        return super().unit_weights(own, protocol, metric, group)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about pairs without an estimated homography."""
        return without_model(records, "usable homography under some seed")

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the area under the recall curve of each pair, for galleries of pictures."""
        if records:
            yield from pair_areas(records, self.headline_px)


class HomographyPairs(PlaneTask):
    """Task `homography/pairs`: homographies of your own pairs, scored on corners, landmarks and matches."""

    name = "homography/pairs"
    info = TaskInfo(
        "How well do matches give the homography between two images of your own?",
        ("auc", "all"),
        metrics_of(HEADLINE_PX),
        columns=("auc", "landmark_auc", "corner_px", "landmark_px", "mma", "matches", "inliers", "failures"),
        table_note=f"auc is the area up to {HEADLINE_PX} px, failures count 0",
        licence="yours",
        title="Homographies of pairs",
    )

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores from the records alone."""
        self.comparison(protocol)
        return with_protocol(score_exact(records, THRESHOLDS_PX, HEADLINE_PX), protocol)


TASK = HomographyPairs()
