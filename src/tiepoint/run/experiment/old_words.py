# SPDX-License-Identifier: BSD-3-Clause
"""Words of older experiment files: keys that never had an effect, and values under other names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

_NEVER = "had no effect in DescriptorWorkbench and has none here; remove it"
DEAD_KEYS = {
    "dataset.type": "sequences are recognised by their files; remove it",
    "keypoints.alternative_keypoints.description": "write it as a comment; remove it",
    "keypoints.num_octaves": "SIFT takes as many octaves as the image has; remove it",
    "keypoints.use_locked_keypoints": f"{_NEVER}, and name the set in keypoint_set_name",
    "keypoints.locked_keypoints_path": f"{_NEVER}; `tiepoint keypoints import` reads such files",
    "keypoints.keypoints_params": _NEVER,
    "descriptors.use_color": "colour follows from the type of the descriptor; remove it",
    "descriptors.root_normalization": f"{_NEVER}; write rooting_stage: after_pooling",
    "descriptors.normalization": f"{_NEVER}; write normalize_after_pooling and norm_type",
    "descriptors.normalization_stage": f"{_NEVER}; write normalize_before_pooling or normalize_after_pooling",
    "descriptors.device": "the device is one for all: performance.device",
    "descriptors.components.rooting_stage": f"{_NEVER}; use rootsift as the component's descriptor",
    "evaluation.validation": f"{_NEVER}; the tolerance is evaluation.tau_px",
    "evaluation.num_distractors": f"{_NEVER}; write num_distractor_scenes and num_distractors_per_scene",
    "evaluation.keypoint_verification.num_distractors": f"{_NEVER}; write num_distractors_per_scene",
    "evaluation.keypoint_retrieval.num_distractors": f"{_NEVER}; write num_distractors_per_scene",
    "evaluation.matching.norm": "the distance belongs to the descriptor (bits: Hamming); remove it",
    "evaluation.matching.cross_check": "brute_force is always mutual; remove it",
    "evaluation.matching.threshold": f"{_NEVER}; write ratio_threshold",
    "evaluation.matching.ratio_test_threshold": f"{_NEVER}; write ratio_threshold",
    "database.save_keypoints": f"{_NEVER}; features are always kept in the store",
    "database.save_descriptors": "features are always kept in the store; remove it",
    "database.save_matches": "records are always kept in the store; remove it",
    "database.save_visualizations": "pictures are made by `tiepoint report`; remove it",
    "performance.parallel_scenes": "scenes always run in parallel; say performance.num_threads",
    "performance.parallel_images": _NEVER,
    "performance.batch_size": _NEVER,
    "performance.enable_profiling": f"{_NEVER}; costs are always measured",
}
"""Keys that shipped experiment files have, and what to do about each."""

TYPES = {
    "vsift": "sift",
    "vanilla_sift": "sift",
    "dspsift_v2": "dspsift",
    "dsprgbsift_v2": "dsprgbsift",
    "dsphonc_v2": "dsphonc",
}
"""Types of the workbench that are other names here."""

AGGREGATIONS = {
    "avg": "average",
    "concat": "concatenate",
    "weighted_avg": "weighted",
}
"""Spellings of aggregations."""


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


several = BeforeValidator(_as_tuple)
"""One value or a list of them."""
Several = Annotated[tuple[str, ...], several]
