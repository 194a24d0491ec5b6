# SPDX-License-Identifier: BSD-3-Clause
"""Which scores of a task a narrow table shows, and what their names leave out; `--json` has all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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

SHORT: dict[tuple[str, str], str] = {
    ("tss", "flow_accuracy"): "T5",
    ("dense/flow", "flow_accuracy"): "5 px",
}
"""By task and metric, the threshold of its score `all`."""

_PCK = re.compile(r"alpha (?P<alpha>[^,;]+), scale (?P<scale>[^,;]+), mean over pairs")

Column = tuple[str, str]


def table_columns(task: str, columns: Sequence[Column]) -> list[Column]:
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


def spelled_out(column: Column, scores: Iterable[Mapping[str, Any]]) -> list[Column]:
    """The columns to show instead of one whose name leaves out what its number means: `pck` of `all`.

    A PCK says nothing without its alpha, its scale and what it is a mean over. The scores' notes tell them;
    runs may differ in scale, so that there may be several. Other columns stay as they are.

    >>> note = "alpha 0.1, scale box, mean over pairs"
    >>> spelled_out(("pck", "all"), [{"metric": "pck", "group": "all", "note": note}])
    [('pck', 'alpha=0.1,per=pair,scale=box')]
    >>> spelled_out(("ap", "all"), [])
    [('ap', 'all')]
    """
    if column != ("pck", "all"):
        return [column]
    notes = (str(s["note"] or "") for s in scores if (s["metric"], s["group"]) == column)
    found = [m for note in notes if (m := _PCK.search(note))]
    groups = dict.fromkeys(f"alpha={m['alpha']},per=pair,scale={m['scale']}" for m in found)
    return [("pck", group) for group in groups] or [column]


def full_name(task: str, metric: str, group: str) -> str:
    """Name of a metric with the threshold that its score `all` has.

    >>> full_name("tss", "flow_accuracy", "all"), full_name("tss", "iou", "all")
    ('flow_accuracy T5', 'iou')
    """
    short = SHORT.get((task, metric)) if "threshold" not in group and "alpha" not in group else None
    return metric if short is None else f"{metric} {short}"
