# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking`: how high the right keypoints of the other image stand in the list of a query."""

from __future__ import annotations

from .keypoint_conventions import ranking_conventions, ranking_curves
from .keypoint_options import RankingOptions
from .keypoint_scene_curves import ranking_scene_curves
from .keypoint_task import KeypointTask
from .ranking_exact import compare_exact
from .ranking_scores import score_exact
from .ranking_workbench import compare_workbench, score_workbench

TASK = KeypointTask(
    name="keypoints/ranking",
    options=RankingOptions,
    comparisons={"exact": compare_exact, "workbench": compare_workbench},
    scorings={"exact": score_exact, "workbench": score_workbench},
    conventions=ranking_conventions,
    curves=ranking_curves,
    scene_curves=ranking_scene_curves,
)
