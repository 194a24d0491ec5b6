# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking`: how high the right keypoints of the other image stand in the list of a query."""

from __future__ import annotations

from ...model.scores import Score
from .conventions import ranking_conventions, ranking_curves
from .curves import ranking_scene_curves
from .opened import KeypointTask
from .options import RankingOptions
from .ranking_exact import compare_exact
from .ranking_scores import score_exact
from .ranking_workbench import compare_workbench, score_workbench


def times(protocol: str, described_s: float, compared_s: float) -> list[Score]:
    """``processing_time_ms`` of DescriptorWorkbench's schema, really measured.

    Seconds the method took on all images (kept with the features) plus those of the comparison in this run.
    """
    if protocol != "workbench":
        return []
    note = f"features {1000 * described_s:.0f} ms, comparison {1000 * compared_s:.0f} ms; a time, not a score"
    return [Score("processing_time_ms", "all", 1000 * (described_s + compared_s), 1, protocol, note=note)]


TASK = KeypointTask(
    name="keypoints/ranking",
    options=RankingOptions,
    comparisons={"exact": compare_exact, "workbench": compare_workbench},
    scorings={"exact": score_exact, "workbench": score_workbench},
    conventions=ranking_conventions,
    curves=ranking_curves,
    scene_curves=ranking_scene_curves,
    times=times,
)
