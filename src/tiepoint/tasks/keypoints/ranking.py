# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking`: how high the right keypoints of the other image stand in the list of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...model.curves import SceneCurves
from ...model.records import Records
from ...model.scores import Score
from ..base import MetricInfo, StepTable, TaskInfo
from ..info import count
from .conventions import Curves, ranking_conventions, ranking_curves
from .curves import ranking_scene_curves
from .opened import CITE, LICENCE, KeypointTask
from .options import RankingOptions
from .ranking_exact import compare_exact
from .ranking_scores import KS, score_exact
from .ranking_workbench import compare_workbench, score_workbench

_QUERIES = "how high a query's right keypoints stand in the list of the other image"
_BY_SCENE = "true_map_macro_by_scene"
_METRICS = {
    "true_map_micro": MetricInfo(f"mean over queries of the average precision, {_QUERIES}"),
    _BY_SCENE: MetricInfo(f"mean over scenes of the scene's mean average precision, {_QUERIES}"),
    "mean_average_precision": MetricInfo(f"{_BY_SCENE} under the older tool's name"),
    "viewpoint_map": MetricInfo(f"{_BY_SCENE} of the viewpoint scenes"),
    "illumination_map": MetricInfo(f"{_BY_SCENE} of the illumination scenes"),
    "mrr": MetricInfo("mean over queries of 1/rank of the first right answer"),
    "query_auc": MetricInfo("probability that a right answer is nearer than a wrong one"),
    "mean_precision": MetricInfo("share of first neighbours that are right, mean over image pairs"),
    "legacy_macro_precision_by_scene": MetricInfo(
        "share of first neighbours that are right, mean over scenes"
    ),
    "ap": MetricInfo(f"mean average precision of a scene, {_QUERIES}"),
    "gallery_size": count("mean number of candidates a query is ranked among"),
    "covisibility": MetricInfo("share of queries whose place the other image shows", better=None),
    "redetection": MetricInfo("share of co-visible queries that the other image has a keypoint for"),
    "descriptor_failure": MetricInfo("share of queries without a descriptor", better="lower"),
    "rank_histogram": MetricInfo(
        "share of queries whose first right answer has the rank of the group", better=None
    ),
    "total_queries_processed": count("number of queries that count"),
    "total_queries_excluded": count("number of queries that are left out"),
    "total_keypoints": count("number of keypoints"),
    "total_matches": count("number of mutual nearest neighbours"),
    "queries_out_of_view": count("number of queries whose place the other image does not show"),
    "queries_not_redetected": count("number of co-visible queries without a keypoint at their place"),
    "queries_descriptor_failed": count("number of queries without a descriptor"),
    "processing_time_ms": MetricInfo(
        "time of describing and comparing on the machine of the run", unit="ms", better="lower"
    ),
    "metadata": MetricInfo(better=None),
    **{
        f"{name}{zeros}": MetricInfo(f"as {name}, a query that is not found again counts 0")
        for name in ("true_map_micro", _BY_SCENE, "viewpoint_map", "illumination_map")
        for zeros in ("_including_zeros", "_with_zeros")
    },
    **{
        f"{name}_at_{k}": MetricInfo(f"{words} among the first {k}")
        for name, words in (
            ("precision", "share of queries with a right answer"),
            ("success", "share of queries with a right answer"),
            ("recall", "share of the right answers that are"),
        )
        for k in KS
    },
}


class Ranking(KeypointTask):
    """Every query's list of the keypoints of the other image, ranked by descriptor distance."""

    name = "keypoints/ranking"
    info = TaskInfo(
        "How high do the right keypoints of the other image stand in a query's list?",
        ("true_map_macro_by_scene", "all"),
        _METRICS,
        columns=(
            "true_map_micro",
            "true_map_macro_by_scene",
            "true_map_micro_including_zeros",
            "viewpoint_map",
            "illumination_map",
            "precision_at_1",
            "precision_at_5",
            "gallery_size",
        ),
        brief=("true_map_micro", "true_map_macro_by_scene", "precision_at_1"),
        cite=CITE,
        licence=LICENCE,
    )
    protocols = ("exact", "workbench")
    options = RankingOptions
    comparisons: ClassVar = {"exact": compare_exact, "workbench": compare_workbench}
    scorings: ClassVar = {"exact": score_exact, "workbench": score_workbench}

    def conventions(self, records: Sequence[Records]) -> list[StepTable]:
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
