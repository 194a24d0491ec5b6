# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking`: how high the right keypoints of the other image stand in the list of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...model.curves import SceneCurves
from ...model.records import Records
from ...model.scores import Score
from ..base import Steps
from .conventions import Curves, ranking_conventions, ranking_curves
from .curves import ranking_scene_curves
from .opened import KeypointTask
from .options import RankingOptions
from .ranking_exact import compare_exact
from .ranking_scores import score_exact
from .ranking_workbench import compare_workbench, score_workbench


class Ranking(KeypointTask):
    """Every query's list of the keypoints of the other image, ranked by descriptor distance."""

    name = "keypoints/ranking"
    protocols = ("exact", "workbench")
    options = RankingOptions
    comparisons: ClassVar = {"exact": compare_exact, "workbench": compare_workbench}
    scorings: ClassVar = {"exact": score_exact, "workbench": score_workbench}

    def conventions(self, records: Sequence[Records]) -> Steps:
        """From `exact` towards `workbench`, rule by rule."""
        return ranking_conventions(records)

    def curves(self, records: Sequence[Records]) -> Curves:
        """Success at k, and mean AP over the gallery size."""
        return ranking_curves(records)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Success at k, scene by scene."""
        return ranking_scene_curves(records)

    def times(self, protocol: str, described_s: float, compared_s: float) -> list[Score]:
        """``processing_time_ms`` of DescriptorWorkbench's schema, really measured.

        Seconds the method took on all images (kept with the features) plus those of the comparison.
        """
        if protocol != "workbench":
            return []
        parts = f"features {1000 * described_s:.0f} ms, comparison {1000 * compared_s:.0f} ms"
        total_ms = 1000 * (described_s + compared_s)
        note = f"{parts}; a time, not a score"
        return [Score("processing_time_ms", "all", total_ms, 1, protocol, note=note)]


TASK = Ranking()
