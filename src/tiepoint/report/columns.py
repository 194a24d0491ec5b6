# SPDX-License-Identifier: BSD-3-Clause
"""Which scores of a task a narrow table shows; `tiepoint show` and `--json` have all."""

from __future__ import annotations

from collections.abc import Sequence

TABLE: dict[str, tuple[str, ...]] = {
    "keypoints/ranking": (
        "true_map_micro",
        "true_map_macro_by_scene",
        "true_map_micro_including_zeros",
        "viewpoint_map",
        "illumination_map",
        "precision_at_1",
        "precision_at_5",
        "gallery_size",
    ),
    "keypoints/geometry": (
        "repeatability",
        "localisation_error_px",
        "matching_score",
        "mma",
        "homography_accuracy",
        "homography_auc",
    ),
    "tss": ("flow_accuracy", "iou", "pixel_accuracy", "flow_auc"),
}
"""By task, the metrics of its table in order; tasks that are not here show all their `all` scores."""

MOST = 10


def table_columns(task: str, columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (metric, group) columns of a narrow table.

    >>> table_columns("tss", [("aepe", "all"), ("iou", "all"), ("flow_accuracy", "all")])
    [('flow_accuracy', 'all'), ('iou', 'all')]
    >>> table_columns("other", [("ap", "noise=easy"), ("ap", "all")])
    [('ap', 'all')]
    """
    overall = [c for c in columns if c[1] == "all"] or list(columns)
    wanted = TABLE.get(task)
    if wanted is not None:
        chosen = [c for metric in wanted for c in overall if c[0] == metric]
        if chosen:
            return chosen
    return overall[:MOST]
