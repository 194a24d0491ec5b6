# SPDX-License-Identifier: BSD-3-Clause
"""What each score is, in one sentence: definition, unit, direction."""

from __future__ import annotations

import re

from ...model.metric_units import unit_of
from .collect import LOWER_IS_BETTER

_AP_PAIRS = "average precision of pairs ranked by descriptor distance, right ones among wrong ones"
_AUC = "probability that a right pair is nearer than a wrong one (area under the ROC curve)"
_FPR = "share of wrong pairs accepted at the distance that accepts 95 % of the right ones"
_FIRST = "share of reference patches whose nearest target patch is the right one; one of m tied counts 1/m"
_MATCHES = (
    "average precision of the nearest-neighbour matches ranked by {by}, every reference patch in the "
    "denominator, mean over image pairs"
)

WORDS: dict[tuple[str, str], str] = {
    ("hpatches-v1/classification", "ap"): f"{_AP_PAIRS}, on the full list",
    ("hpatches-v1/classification", "auc"): f"{_AUC}, on the balanced list",
    ("hpatches-v1/classification", "fpr95"): f"{_FPR}, on the balanced list",
    ("hpatches-v1/matching", "ap"): _MATCHES.format(by="distance"),
    ("hpatches-v1/matching", "ap_ratio"): _MATCHES.format(by="first over second distance"),
    ("hpatches-v1/matching", "success_rate"): _FIRST,
    ("hpatches-v1/matching", "map_query"): "mean over reference patches of 1/rank of the right target patch",
    ("hpatches-v1/retrieval", "map_patch"): (
        "mean over queries of the average precision of the first 50 answers, the same patch in other images "
        "is right"
    ),
    ("hpatches-v1/retrieval", "map_image"): (
        "mean over queries of the average precision of the first 50 answers, any patch of the sequence is "
        "right"
    ),
    ("hpatches/verification", "ap"): f"{_AP_PAIRS} (1 right to 5 wrong), mean of the six lists",
    ("hpatches/verification", "auc"): f"{_AUC}, on the balanced lists, mean of the six",
    ("hpatches/verification", "fpr95"): f"{_FPR}, mean of the six lists",
    ("hpatches/matching", "map"): _MATCHES.format(by="distance"),
    ("hpatches/matching", "map_ratio"): _MATCHES.format(by="first over second distance"),
    ("hpatches/matching", "success_rate"): _FIRST,
    ("hpatches/retrieval", "map"): (
        "mean over queries of the average precision of the five other views of a patch among distractors of "
        "other sequences"
    ),
    ("keypoints/verification", "ap"): f"{_AP_PAIRS}, one list over all scenes",
    ("keypoints/matching", "map"): (
        "average precision of the nearest-neighbour matches of co-visible keypoints ranked by distance, mean "
        "over image pairs"
    ),
    ("keypoints/retrieval", "map"): (
        "mean over queries of the average precision of a keypoint's images among keypoints of other scenes"
    ),
    ("keypoints/retrieval", "ap"): f"{_AP_PAIRS}, per scene",
    ("keypoints/images", "map"): (
        "mean over scenes of the average precision of the scene's images, ranked by the number of matches, "
        "among all images"
    ),
    ("tss", "flow_accuracy"): (
        "share of the pixels of known true flow that are off by at most {threshold} % of the target image's "
        "larger side"
    ),
    ("tss", "aepe"): "mean distance from the true place of the pixels where both flows are known",
    ("dense/flow", "flow_accuracy"): "share of the pixels of known truth that are off by at most {at_most}",
    ("dense/flow", "aepe"): "mean distance from the true place of the pixels where both flows are known",
}
"""By task and metric."""

_QUERIES = "how high a query's right keypoints stand in the list of the other image"
GENERAL: dict[str, str] = {
    "iou": "intersection over union of the object's mask with the true one",
    "pixel_accuracy": "share of pixels on which the mask agrees with the true one",
    "flow_auc": "mean of the flow accuracy over the thresholds 1 to 50 %",
    "fl": "share of pixels off by more than 3 px and more than 5 % of the true displacement",
    "pck": (
        "share of keypoints that the flow carries to within {alpha} times {length} of where they belong{per}"
    ),
    "true_map_micro": f"mean over queries of the average precision, {_QUERIES}",
    "true_map_macro_by_scene": f"mean over scenes of the scene's mean average precision, {_QUERIES}",
    "true_map_micro_including_zeros": "as true_map_micro, a query that is not found again counts 0",
    "true_map_macro_by_scene_including_zeros": (
        "as true_map_macro_by_scene, a query that is not found again counts 0"
    ),
    "mean_average_precision": "true_map_macro_by_scene under the older tool's name",
    "viewpoint_map": "true_map_macro_by_scene of the viewpoint scenes",
    "illumination_map": "true_map_macro_by_scene of the illumination scenes",
    "mrr": "mean over queries of 1/rank of the first right answer",
    "query_auc": "probability that a right answer is nearer than a wrong one",
    "mean_precision": "share of first neighbours that are right, mean over image pairs",
    "legacy_macro_precision_by_scene": "share of first neighbours that are right, mean over scenes",
    "gallery_size": "mean number of candidates a query is ranked among",
    "covisibility": "share of queries whose place the other image shows",
    "redetection": "share of co-visible queries that the other image has a keypoint for",
    "descriptor_failure": "share of queries without a descriptor",
    "repeatability": "share of the keypoints in the shared view that the other image has again, at {tau}",
    "localisation_error_px": "mean distance between keypoints that correspond, at {tau}",
    "matching_score": "share of the keypoints in the shared view that are matched rightly, at {tau}",
    "mma": "mean matching accuracy: share of the matches whose error is at most {tau}, mean over image pairs",
    "homography_accuracy": (
        "share of image pairs whose estimated homography misplaces the corners by at most {tau} on average"
    ),
    "homography_auc": "mean over image pairs of max(0, 1 - corner error / {tau})",
    "putative_matches": "mean number of matches an image pair",
    "total_queries_processed": "number of queries that count",
    "total_queries_excluded": "number of queries that are left out",
    "total_keypoints": "number of keypoints",
    "queries_out_of_view": "number of queries whose place the other image does not show",
    "queries_not_redetected": "number of co-visible queries without a keypoint at their place",
    "queries_descriptor_failed": "number of queries without a descriptor",
    "rank_histogram": "share of queries whose first right answer has the rank of the group",
    "processing_time_ms": "time of describing and comparing on the machine of the run",
    "inliers": "mean number of matches an image pair that fit its homography",
    "ap": _AP_PAIRS,
    "map": "mean average precision",
    "auc": _AUC,
    "fpr95": _FPR,
}
"""By metric, where tasks agree."""

_AT_K = re.compile(r"(precision|success|recall)_at_(\d+)")
_LENGTHS = {
    "image": "the target image's larger side",
    "box": "the larger side of the object's box in the target image",
    "keypoints": "the larger extent of the target's keypoints",
}
_PER = {"pair": ", mean over image pairs", "point": ", over all keypoints of all pairs"}
_UNITS = {"fraction": "percent", "px": "pixels", "ms": "milliseconds", "count": "a count"}
_NEITHER = frozenset({"gallery_size", "covisibility", "rank_histogram"})
"""They describe the data and the keypoints, so neither direction is better."""


def metric_words(task: str, metric: str, group: str = "all") -> str:
    """One sentence on a score: what it is, its unit, which direction is better; empty for unknown metrics.

    Parts of the group that name a threshold (alpha, scale, per, tau_px, threshold) are filled in.

    >>> metric_words("dense/pck", "pck", "alpha=0.1,per=pair,scale=box")[:66]
    'share of keypoints that the flow carries to within 0.1 times the l'
    >>> metric_words("tss", "iou")
    "intersection over union of the object's mask with the true one; percent, higher is better"
    """
    text = WORDS.get((task, metric)) or GENERAL.get(metric) or _at_k(metric)
    if not text:
        return ""
    parts = dict(part.partition("=")[::2] for part in group.split(","))
    filled = text.format(
        alpha=parts.get("alpha", "alpha"),
        length=_LENGTHS.get(parts.get("scale", ""), "the length that its scale names"),
        per=_PER.get(parts.get("per", ""), ""),
        threshold=parts.get("threshold", "5"),
        at_most=_at_most(parts),
        tau=f"{parts.get('tau_px', '3')} px",
    )
    unit = _UNITS[unit_of(metric)]
    if metric in _NEITHER or (unit == "a count" and metric not in ("inliers", "putative_matches")):
        return f"{filled}; {unit}"
    better = "lower" if metric in LOWER_IS_BETTER or metric == "descriptor_failure" else "higher"
    return f"{filled}; {unit}, {better} is better"


def _at_most(parts: dict[str, str]) -> str:
    if "alpha" in parts:
        return f"{parts['alpha']} of the target's larger side"
    return f"{parts.get('threshold_px', '5')} px"


def _at_k(metric: str) -> str:
    """Words of ``precision_at_5`` and its like; empty for others.

    >>> _at_k("recall_at_5")
    'share of the right answers that are among the first 5'
    """
    found = _AT_K.fullmatch(metric)
    if found is None:
        for suffix in ("_including_zeros", "_with_zeros"):
            if metric.endswith(suffix) and metric.removesuffix(suffix) in GENERAL:
                return f"as {metric.removesuffix(suffix)}, a query that is not found again counts 0"
        return ""
    if found[1] == "recall":
        return f"share of the right answers that are among the first {found[2]}"
    return f"share of queries with a right answer among the first {found[2]}"
