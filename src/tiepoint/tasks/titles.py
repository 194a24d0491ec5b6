# SPDX-License-Identifier: BSD-3-Clause
"""Names in words for titles and axes: of metrics, of groups, of families, of kinds of scenes."""

from __future__ import annotations

FAMILIES = {
    "patches": "Patches",
    "keypoints": "Keypoints",
    "pairs": "Image pairs",
    "dense": "Dense flow",
}
"""Families of tasks, in the order of a page."""

KINDS = {"i": "illumination", "v": "viewpoint"}
"""Kinds of scenes whose names are one letter."""

METRICS = {
    "aepe": "end-point error",
    "ap": "average precision",
    "ap_ratio": "average precision by ratio",
    "area": "area under recall",
    "auc": "area under curve",
    "fl": "outliers (Fl)",
    "flow_auc": "flow accuracy, all thresholds",
    "fpr95": "false positives at 95 % recall",
    "homography_auc": "area under corner errors",
    "iou": "mask overlap (IoU)",
    "maa": "mean average accuracy",
    "map": "mean average precision",
    "map_image": "mean AP, same sequence",
    "map_patch": "mean AP, same patch",
    "map_query": "mean 1/rank",
    "map_ratio": "mean AP by ratio",
    "mma": "matching accuracy",
    "mrr": "mean 1/rank",
    "pck": "correct keypoints (PCK)",
    "success_rate": "first answer correct",
    "true_map_macro_by_scene": "mean AP by scene",
    "true_map_micro": "mean AP by query",
    "true_map_micro_including_zeros": "mean AP by query, misses as 0",
    "true_map_macro_by_scene_including_zeros": "mean AP by scene, misses as 0",
    "viewpoint_map": "mean AP, viewpoint",
    "illumination_map": "mean AP, illumination",
}
"""Metrics that several tasks share, or whose name says little; a task may say otherwise."""

_LETTERS = {
    "ap": "AP",
    "auc": "AUC",
    "fpr95": "FPR95",
    "iou": "IoU",
    "map": "mAP",
    "mma": "MMA",
    "pck": "PCK",
}
_UNITS = ("px", "deg", "ms", "s")


def metric_title(metric: str) -> str:
    """A metric in words: from the table, else its name with spaces and without its unit.

    >>> metric_title("success_rate"), metric_title("localisation_error_px"), metric_title("mma_of_pairs")
    ('first answer correct', 'localisation error', 'MMA of pairs')
    """
    if metric in METRICS:
        return METRICS[metric]
    words = metric.split("_")
    words = words[:-1] if len(words) > 1 and words[-1] in _UNITS else words
    return " ".join(_LETTERS.get(w, w) for w in words)


_SHORT = {
    "ap_ratio": "AP by ratio",
    "map_patch": "mAP",
    "map_query": "mean 1/rank",
    "mrr": "MRR",
    "maa": "mAA",
    "aepe": "AEPE",
    "true_map_macro_by_scene": "mAP by scene",
    "true_map_micro": "mAP by query",
}


def short_title(metric: str) -> str:
    """A metric as the head of a narrow column has room for it.

    >>> short_title("map"), short_title("success_rate"), short_title("localisation_error_px")
    ('mAP', 'success rate', 'localisation error')
    """
    words = metric.split("_")
    words = words[:-1] if len(words) > 1 and words[-1] in _UNITS else words
    return _SHORT.get(metric) or " ".join(_LETTERS.get(w, w) for w in words)


def group_title(group: str) -> str:
    """A group in words; empty for `all`.

    >>> group_title("all"), group_title("negatives=inter,noise=hard"), group_title("tau_px=5")
    ('', 'inter negatives, hard', 'at 5 px')
    """
    return "" if group == "all" else ", ".join(_part(part) for part in group.split(","))


def kind_title(kind: str) -> str:
    """A kind of scenes in words.

    >>> kind_title("v"), kind_title("JODS")
    ('viewpoint', 'JODS')
    """
    return KINDS.get(kind, kind)


def _part(part: str) -> str:
    key, _, value = part.partition("=")
    made = {
        "noise": value,
        "subset": value,
        "kind": kind_title(value),
        "negatives": f"{value} negatives",
        "tau_px": f"at {value} px",
        "threshold_px": f"at {value} px",
        "threshold_deg": f"at {value}°",
        "threshold": f"at {value} %",
    }
    return made.get(key, f"{key.replace('_', ' ')} {value}".strip())
