# SPDX-License-Identifier: BSD-3-Clause
"""Convert the scores of a workbench result. Placeholders become None, and unreliable values get notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....core.errors import FormatError
from ....core.scores import Score, group_name, scene_kind
from ....formats.json_yaml import parse_json
from ....store.schema import WORKBENCH_COLUMNS
from ....tasks.scene_means import SceneSums, macro_score, micro_score
from ...scoring import finite_or_none

PROTOCOL = "workbench"
_MEANS = {
    "true_map_micro": (micro_score, "", "iv"),
    "true_map_micro_including_zeros": (micro_score, "_with_zeros", "iv"),
    "true_map_macro_by_scene": (macro_score, "", "iv"), "mean_average_precision": (macro_score, "", "iv"),
    "true_map_macro_by_scene_including_zeros": (macro_score, "_with_zeros", "iv"),
    "viewpoint_map": (macro_score, "", "v"), "illumination_map": (macro_score, "", "i"),
}  # fmt: skip
"""Scores that are means over scenes: name of the mean, suffix of the scene values, kinds of scenes."""

_CLOSE = 5e-6
_PARTS = ("true_map", "query_count", "true_map_with_zeros", "excluded_count")

_MINUS_ONE = (
    "image_retrieval_map", "keypoint_verification_ap", "verification_viewpoint_ap",
    "verification_illumination_ap", "keypoint_retrieval_ap", "retrieval_viewpoint_ap",
    "retrieval_illumination_ap",
)  # fmt: skip
"""Columns in which -1 means that the evaluation was disabled."""

_ZERO = (
    "processing_time_ms", "descriptor_time_gpu_ms", "match_time_gpu_ms", "total_pipeline_gpu_ms",
)  # fmt: skip
"""Columns in which 0 or a negative value means "not measured"."""

_LEGACY = ("legacy_mean_precision", "total_matches", "total_keypoints")
"""Columns that exist only for keypoints projected by homographies."""

_STATED = (
    *_MEANS, "mean_precision", "legacy_macro_precision_by_scene",
    *(f"{kind}_at_{k}" for kind in ("precision", "recall") for k in (1, 5, 10)),
    "total_queries_processed", "total_queries_excluded",
)  # fmt: skip
"""Ranking scores that are read from the metadata if their column is missing."""

_PLACED = (
    "id", "experiment_id", "name", "base", "line", "metadata", "metadata_values", "parameters",
    "parameter_values", "descriptor_type", "dataset_name", "pooling_strategy", "timestamp",
    "keypoint_set_id", "keypoint_set_name", "keypoint_source", "generator_type", "generation_method",
    "dataset_path", "tolerance_px", "max_features", "processing_time_s", "again",
)  # fmt: skip
"""Columns that are read but are not scores."""

_COUNTS = ("retrieval_num_true_positives", "retrieval_num_hard_negatives", "retrieval_num_distractors")


def parse_metadata(text: str) -> dict[str, str]:
    """Parse the metadata of a result: ``key=value;`` text, or JSON as the Python evaluator wrote it.

    >>> parse_metadata("a=1;b=x;")
    {'a': '1', 'b': 'x'}
    """
    if text.lstrip().startswith("{"):
        try:
            found = parse_json(text.encode("utf-8", "surrogatepass"), "metadata")
        except FormatError:
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {key.strip(): value.strip() for key, _, value in pairs}


NUMBERS = (
    *_MINUS_ONE, *_ZERO, *_LEGACY, *_COUNTS, "true_map_micro", "true_map_macro", "precision_at_1",
    "precision_at_5", "viewpoint_map_with_zeros", "illumination_map_with_zeros",
)  # fmt: skip
"""Further columns used in computations."""


def without_sentinels(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result row with None in place of values that were never measured.

    >>> without_sentinels({"keypoint_verification_ap": -1.0, "processing_time_ms": 0, "true_map_micro": 0.4})
    {'keypoint_verification_ap': None, 'processing_time_ms': None, 'true_map_micro': 0.4}
    """
    out = dict(row)
    for column in _MINUS_ONE:
        if column in out and out[column] is not None and float(out[column]) < 0:
            out[column] = None
    for column in _ZERO:
        if column in out and (out[column] is None or float(out[column]) <= 0):
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
            for stored in (column, f"{column}_with_zeros"):
                if not out.get(stored):
                    out[stored] = None
    return out


def failure_reason(row: Mapping[str, Any]) -> str | None:
    """Return why a result failed: its error message, or that all scores are zero. None if it succeeded."""
    metadata = row.get("metadata_values") or {}
    if metadata.get("success") in ("0", "false"):
        return metadata.get("error_message") or "the workbench recorded a failure without a reason"
    values = [row.get(c) for c in ("true_map_micro", "true_map_macro", "precision_at_1", "precision_at_5")]
    if all(v is not None and float(v) == 0 for v in values):
        return "a row of zeros, which is how the workbench stored failed runs"
    return None


def unreliable_notes(row: Mapping[str, Any]) -> list[str]:
    """Return notes about unreliable values of one result."""
    name = str(row.get("name") or "").lower()
    parameters = row.get("parameter_values") or {}
    kind = str(parameters.get("descriptor_type") or name).lower()
    pooling = str(row.get("pooling_strategy") or parameters.get("pooling_strategy") or "").lower()
    told = []
    if "orb" in (kind, name.partition("_")[0]):
        told.append("the ORB bytes were normalised, rounded and compared by L2, so the value is meaningless")
    if "l2net" in name or "l2net" in kind:
        told.append("the L2-Net of this result had random weights")
    if "composite" in kind or "+" in name or "fusion" in name:
        told.append("fused components were not normalised, and paired sets were read in different orders")
    if str(parameters.get("norm_type") or "").lower() in ("l1", "1") or "_l1" in name:
        told.append("the L1 norm was in fact the L2 norm")
    if "stack" in pooling:
        told.append("stacking multiplied only the second descriptor by its weight")
    if "concat" in name and "dsp" in f"{name}{pooling}":
        told.append("concatenated scales kept rows of -1 where a scale failed")
    if "root" in name and any(k in kind for k in ("rgbsift", "honc", "dsp")):
        told.append("the square root was applied twice, which gives the fourth root")
    if any(k in kind for k in ("dsp", "honc", "howh")):
        told.append("queries with a zero descriptor were skipped instead of counted as misses")
    if any(k in name for k in ("hardnet", "sosnet")) and "sift" in str(row.get("keypoint_set_name") or ""):
        told.append("patches on SIFT keypoints were as small as the keypoint, without magnification")
    generated = str(row.get("generation_method") or "")
    if row.get("generator_type") and "project" not in generated:
        told.append(
            "the border of the keypoint set is recorded as 40 px, but detected sets used 35 px, so it "
            "is unknown"
        )
    both = row.get("keypoint_verification_ap"), row.get("keypoint_retrieval_ap")
    if all(v is not None and float(v) >= 0 for v in both):
        told.append("verification and retrieval are two random samples of the same statistic in this tool")
    if "processing_time_ms" in row and not row["processing_time_ms"]:
        told.append("the time was not measured, but stored as 0")
    return told


def workbench_scores(task: str, values: Mapping[str, Any], row: Mapping[str, Any]) -> list[Score]:
    """Return the scores of one task under protocol `workbench`. Empty if the task's columns are empty."""
    columns = {c: metric for c, (t, metric) in WORKBENCH_COLUMNS.items() if t == task}
    found = {metric: values[c] for c, metric in columns.items() if values.get(c) is not None}
    metadata: Mapping[str, str] = row.get("metadata_values", {})
    if task == "keypoints/ranking":
        found |= {key: value for key, value in metadata_scores(metadata).items() if key not in found}
    if not found:
        return []
    scores = [Score(metric, "all", float(value), 0, PROTOCOL) for metric, value in found.items()]
    if task != "keypoints/ranking":
        return scores
    queries = int(_number(metadata.get("total_queries_processed", "")) or 0)
    scores = [replace(s, n=queries) if "map" in s.metric or "_at_" in s.metric else s for s in scores]
    by_scene = workbench_scene_values(metadata)
    if by_scene:
        close = _closeness(metadata, by_scene)
        scores = [_with_scenes(s, by_scene, close) for s in scores]
        for zeros, metric in (("", "true_map_micro"), ("_with_zeros", "true_map_micro_including_zeros")):
            for scene, own in by_scene.items():
                if (value := own.get(f"true_map{zeros}")) is not None:
                    n = own.get("query_count", 0) + (own.get("excluded_count", 0) if zeros else 0)
                    scores.append(Score(metric, group_name(scene=scene), value, int(n), PROTOCOL))
    if row.get("metadata"):
        scores.append(Score("metadata", "all", float("nan"), 0, PROTOCOL, note=str(row["metadata"])))
    return scores


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def metadata_scores(metadata: Mapping[str, str]) -> dict[str, float]:
    """Return the scores in the metadata of a ranking. Zeros that mean "not measured" are skipped.

    >>> metadata_scores({"true_map_micro": "0.37", "mean_precision": "0.000000", "neighbourhood": "7"})
    {'true_map_micro': 0.37}
    """
    kinds = {scene[:1] for scene in workbench_scene_values(metadata)}
    matches = bool(_number(metadata.get("total_matches", "")))
    measured = {
        "viewpoint_map": "v" in kinds, "illumination_map": "i" in kinds,
        "mean_precision": matches, "legacy_macro_precision_by_scene": matches,
    }  # fmt: skip
    found = {key: _number(metadata.get(key, "")) for key in _STATED}
    return {k: v for k, v in found.items() if v is not None and (v or measured.get(k, True))}


def workbench_scene_values(metadata: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the values of each scene, from metadata keys such as ``SCENE_true_map``.

    >>> workbench_scene_values({"i_dome_true_map": "0.3598", "i_dome_query_count": "20", "r0_rate": "0.1"})
    {'i_dome': {'true_map': 0.3598, 'query_count': 20.0}}
    """
    out: dict[str, dict[str, float]] = {}
    for key in metadata:
        scene = key.removesuffix("_true_map")
        if scene != key and _number(metadata[key]) is not None:
            known = {p: _number(metadata.get(f"{scene}_{p}", "")) for p in _PARTS}
            out[scene] = {part: value for part, value in known.items() if value is not None}
    return dict(sorted(out.items()))


def fractions_of(metadata: Mapping[str, str]) -> dict[str, float]:
    """Return the scores in metadata that are fractions, by key."""
    out = {key: value for key, value in metadata_scores(metadata).items() if not key.startswith("total_")}
    for scene, values in workbench_scene_values(metadata).items():
        out |= {f"{scene}_{part}": value for part, value in values.items() if part.startswith("true_map")}
    return out


def counts_of(metadata: Mapping[str, str]) -> dict[str, float]:
    """Return the counts in metadata by key, such as the number of queries of each scene."""
    out = {key: value for key, value in metadata_scores(metadata).items() if key.startswith("total_")}
    for scene, values in workbench_scene_values(metadata).items():
        out |= {f"{scene}_{part}": value for part, value in values.items() if part.endswith("_count")}
    return out


def skipped_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes about columns and metadata keys that were not converted to scores.

    The notes list sentinel values, unknown columns and unused metadata keys. The metadata text itself is
    stored unchanged.
    """
    found: dict[str, dict[str, int]] = {}

    def note(reason: str, name: str) -> None:
        by = found.setdefault(reason, {})
        by[name] = by.get(name, 0) + 1

    for row in rows:
        values = without_sentinels(row)
        for column, value in row.items():
            if value is None or value == "" or column in _PLACED:
                continue
            if values[column] is None:
                note(f"not measured, so left out (stored as {float(value):g})", column)
            elif column not in WORKBENCH_COLUMNS:
                note("columns that are not imported", column)
        metadata: Mapping[str, str] = row.get("metadata_values", {})
        used = {f"{scene}_{part}" for scene, own in workbench_scene_values(metadata).items() for part in own}
        used |= {"success", "error_message", *metadata_scores(metadata)}
        for key in metadata:
            if key not in used:
                note("keys of metadata that make no score", key)
    return [
        f"{reason}: " + ", ".join(n if k == len(rows) else f"{n} ({k} of {len(rows)})" for n, k in by.items())
        for reason, by in found.items()
    ]


def _closeness(metadata: Mapping[str, str], scenes: Mapping[str, Mapping[str, float]]) -> float:
    """Return the largest rounding difference between a stored mean and the mean of its scene values."""
    digits = min(len(metadata[f"{scene}_true_map"].partition(".")[2]) for scene in scenes)
    return max(_CLOSE, 0.5 * 10.0**-digits + 1e-12) if digits else _CLOSE


def _with_scenes(score: Score, scenes: Mapping[str, Mapping[str, float]], close: float) -> Score:
    """Return a mean score with its scene values. If they disagree, return the stored mean and a note."""
    if score.metric not in _MEANS:
        return score
    mean, zeros, of = _MEANS[score.metric]
    kinds = {s: scene_kind(s, ("i", "v")) for s in scenes}
    chosen = {s: own for s, own in scenes.items() if of == "iv" or kinds[s] in of}
    wanted = ["query_count", *(["excluded_count"] if zeros else [])]
    counted = all(part in own for own in chosen.values() for part in wanted)
    if not chosen or (mean is micro_score and not counted):
        return replace(score, note="its metadata has no number of queries by scene, so there is no interval")
    if not all(f"true_map{zeros}" in own for own in chosen.values()):
        return score
    count = np.array([sum(own[p] for p in wanted) if counted else 1.0 for own in chosen.values()])
    total = np.array([own[f"true_map{zeros}"] for own in chosen.values()]) * count
    again = mean(score.metric, SceneSums(tuple(chosen), tuple(kinds[s] for s in chosen), total, count))
    value = finite_or_none(again.value)
    if value is None or abs(value - score.value) > close:
        return replace(score, note=f"the scenes of its metadata give {value}, so there is no interval")
    return replace(score, scenes=again.scenes, chance=again.chance, note=again.note)
