# SPDX-License-Identifier: BSD-3-Clause
"""One workbench result as score rows, with intervals where its metadata has the scenes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...model.scores import Score, group_name, kind_of
from ...store.views import WORKBENCH_COLUMNS
from ...tasks.scene_means import Sums, macro, micro
from ..engine import load_task
from ..scoring import with_interval

PROTOCOL = "workbench"
_MEANS = {
    "true_map_micro": (micro, ""), "true_map_micro_including_zeros": (micro, "_with_zeros"),
    "true_map_macro_by_scene": (macro, ""), "true_map_macro_by_scene_including_zeros": (macro, "_with_zeros"),
}  # fmt: skip
_CLOSE = 5e-6


def parse_metadata(text: str) -> dict[str, str]:
    """Pairs of ``key=value;`` text, or of the JSON that the Python evaluator wrote there instead.

    >>> parse_metadata("a=1;b=x;")
    {'a': '1', 'b': 'x'}
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def score_rows_of(task: str, values: Mapping[str, Any], row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Scores of one task, under protocol `workbench`; none where all its columns are empty."""
    columns = {c: metric for c, (t, metric) in WORKBENCH_COLUMNS.items() if t == task}
    found = {metric: values[c] for c, metric in columns.items() if values.get(c) is not None}
    metadata: Mapping[str, str] = row.get("metadata_values", {})
    if task == "keypoints/ranking":
        for key in ("total_queries_processed", "total_queries_excluded", "precision_at_10", "recall_at_10"):
            if key in metadata and _number(metadata[key]) is not None:
                found.setdefault(key, _number(metadata[key]))
    if not found:
        return []
    rows = [_row(task, metric, "all", float(value)) for metric, value in found.items()]
    if task != "keypoints/ranking":
        return rows
    queries = int(_number(metadata.get("total_queries_processed", "")) or 0)
    rows = [dict(r, n=queries) if "map" in r["metric"] or "_at_" in r["metric"] else r for r in rows]
    by_scene = _scenes(metadata)
    if by_scene:
        rows = [_with_scenes(r, by_scene) for r in rows]
        for scene, found_scene in by_scene.items():
            rows.append(
                _row(
                    task,
                    "ap",
                    group_name(scene=scene),
                    found_scene["true_map"],
                    int(found_scene["query_count"]),
                )
            )
    if row.get("metadata"):
        rows.append(_row(task, "metadata", "all", float("nan")) | {"note": str(row["metadata"])})
    return rows


def _row(task: str, metric: str, group: str, value: float, n: int = 0) -> dict[str, Any]:
    return with_interval(load_task(task), Score(metric, group, value, n, protocol=PROTOCOL), {})


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _scenes(metadata: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Values by scene, from ``{scene}_true_map``, ``{scene}_query_count`` and so on."""
    parts = ("true_map", "query_count", "true_map_with_zeros", "excluded_count")
    out: dict[str, dict[str, float]] = {}
    for key in metadata:
        if not key.endswith("_true_map"):
            continue
        scene = key.removesuffix("_true_map")
        values = {p: _number(metadata.get(f"{scene}_{p}", "")) for p in parts}
        if all(v is not None for v in values.values()):
            out[scene] = {k: float(v) for k, v in values.items() if v is not None}
    return dict(sorted(out.items()))


def _with_scenes(row: dict[str, Any], scenes: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """A mean with the interval its scenes give; the stored value stays, a disagreement is noted."""
    if row["metric"] not in _MEANS:
        return row
    mean, zeros = _MEANS[row["metric"]]
    count = np.array([s["query_count"] + (s["excluded_count"] if zeros else 0) for s in scenes.values()])
    total = np.array([s[f"true_map{zeros}"] for s in scenes.values()]) * count
    kinds = tuple(kind_of(s, ("i", "v")) for s in scenes)
    again = with_interval(
        load_task("keypoints/ranking"), mean(row["metric"], Sums(tuple(scenes), kinds, total, count)), {}
    )
    if again["value"] is None or abs(again["value"] - row["value"]) > _CLOSE:
        return row | {"note": f"the scenes of its metadata give {again['value']}, so there is no interval"}
    return again | {"protocol": PROTOCOL, "value": row["value"], "n": row["n"]}
