# SPDX-License-Identifier: BSD-3-Clause
"""What of a workbench result is missing in disguise, and what cannot be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MINUS_ONE = (
    "image_retrieval_map", "keypoint_verification_ap", "verification_viewpoint_ap",
    "verification_illumination_ap", "keypoint_retrieval_ap", "retrieval_viewpoint_ap",
    "retrieval_illumination_ap",
)  # fmt: skip
"""Columns where -1 says that the evaluation was switched off."""

_ZERO = (
    "processing_time_ms", "descriptor_time_gpu_ms", "match_time_gpu_ms", "total_pipeline_gpu_ms",
)  # fmt: skip
"""Columns where 0 says that nothing was measured."""

_LEGACY = ("legacy_mean_precision", "total_matches", "total_keypoints")
"""Columns that are counted only for keypoints projected by homographies."""

_COUNTS = ("retrieval_num_true_positives", "retrieval_num_hard_negatives", "retrieval_num_distractors")


def without_sentinels(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with None for what was never measured.

    >>> without_sentinels({"keypoint_verification_ap": -1.0, "processing_time_ms": 0, "true_map_micro": 0.4})
    {'keypoint_verification_ap': None, 'processing_time_ms': None, 'true_map_micro': 0.4}
    """
    out = dict(row)
    for column in _MINUS_ONE:
        if column in out and out[column] is not None and float(out[column]) < 0:
            out[column] = None
    for column in _ZERO:
        if column in out and not out[column]:
            out[column] = None
    if str(row.get("keypoint_source") or "") != "homography_projection":
        for column in _LEGACY:
            if column in out and not out[column]:
                out[column] = None
    if out.get("keypoint_retrieval_ap") is None:
        for column in _COUNTS:
            if column in out:
                out[column] = None
    for column, scenes in (("viewpoint_map", "v"), ("illumination_map", "i")):
        known = row.get("metadata_values") or {}
        named = [k for k in known if k.endswith("_true_map")]
        if named and not any(k.startswith(scenes) for k in named):
            out[column] = out[f"{column}_with_zeros"] = None
    return out


def failed(row: Mapping[str, Any]) -> str | None:
    """Why there is no result: the run says it failed, or it is the row of zeros that failures left."""
    metadata = row.get("metadata_values") or {}
    if metadata.get("success") in ("0", "false"):
        return metadata.get("error_message") or "the workbench recorded a failure without a reason"
    values = [row.get(c) for c in ("true_map_micro", "true_map_macro", "precision_at_1", "precision_at_5")]
    if all(v is not None and float(v) == 0 for v in values):
        return "a row of zeros, which is how the workbench stored failed runs"
    return None


def doubts(row: Mapping[str, Any]) -> list[str]:
    """Sentences about what cannot be trusted in one result."""
    name = str(row.get("name") or "").lower()
    parameters = row.get("parameter_values") or {}
    kind = str(parameters.get("descriptor_type") or name).lower()
    pooling = str(row.get("pooling_strategy") or parameters.get("pooling_strategy") or "").lower()
    told = []
    if "orb" in (kind, name.partition("_")[0]):
        told.append("its ORB bytes were normalised, rounded and compared by L2: the value means nothing")
    if "l2net" in name or "l2net" in kind:
        told.append("its L2-Net had random weights")
    if "composite" in kind or "+" in name or "fusion" in name:
        told.append("fused components were not normalised, and paired sets were read in different orders")
    if str(parameters.get("norm_type") or "").lower() in ("l1", "1") or "_l1" in name:
        told.append("its L1 norm was in fact L2")
    if "stack" in pooling:
        told.append("stacking multiplied only the second descriptor by its weight")
    if "concat" in name and "dsp" in f"{name}{pooling}":
        told.append("concatenated scales kept rows of -1 where a scale failed")
    if "root" in name and any(k in kind for k in ("rgbsift", "honc", "dsp")):
        told.append("it was rooted twice (fourth root)")
    if any(k in kind for k in ("dsp", "honc", "howh")):
        told.append("queries whose descriptor was zero were left out instead of counted as misses")
    if any(k in name for k in ("hardnet", "sosnet")) and "sift" in str(row.get("keypoint_set_name") or ""):
        told.append("its patches on SIFT keypoints were as small as the keypoint, without magnification")
    generated = str(row.get("generation_method") or "")
    if row.get("generator_type") and "project" not in generated:
        told.append(
            "the set's border is recorded as 40 px and was 35 px for detected sets, so it is left open"
        )
    both = row.get("keypoint_verification_ap"), row.get("keypoint_retrieval_ap")
    if all(v is not None and float(v) >= 0 for v in both):
        told.append("verification and retrieval are two draws of the same statistic there")
    if "processing_time_ms" in row and not row["processing_time_ms"]:
        told.append("the time was not measured (stored as 0)")
    return told
