# SPDX-License-Identifier: BSD-3-Clause
"""Verification and retrieval as in DescriptorWorkbench: one pooled list per scene.

The list contains every reference keypoint paired with every keypoint of every target image, and with sampled
keypoints of other scenes. Pairs are ranked by raw L2 distance. Pairs with label 0 (same scene, not correct)
and -1 (other scene) are both wrong, so verification and retrieval are the same statistic with different
random samples. The tool's sort is unstable; here, ties keep the order in which the list was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Features, Records
from ...core.scores import Score, group_name, scene_kind
from ...geometry.correspondence import nearest_pairs
from ...kernels import PooledCounts, pair_distances_sq
from ...metrics import average_precision_from_counts, chance_average_precision
from ..scene_means import KIND_NAMES, SceneSums, by_scene, count_score, macro_score, with_protocol
from .data import ComparedFeatures, OpenKeypoints, image_features
from .distractors import workbench_rows, workbench_scenes

_COLOCATED_PX = 1e-6
"""Tolerance in pixels within which keypoints count as being at the nearest position."""


def _rows(image: ComparedFeatures) -> NDArray[Any]:
    """Return raw descriptors. Rows with NaN or inf become zero: DescriptorWorkbench cannot sort them."""
    values = raw_values(image)
    good = np.isfinite(values).all(axis=1)
    return values if good.all() else np.where(good[:, None], values, values.dtype.type(0))


def compare_pooled(opened: OpenKeypoints, scene: str, features: Features, role: str) -> Records:
    """Count, for each correct pair, the wrong pairs that are nearer, tied, and tied but listed earlier."""
    s, options = opened.sequences, opened.options
    first, *others = s.images(scene)
    source = image_features(features, f"{scene}/{first}")
    queries = _rows(source)
    targets = {k: image_features(features, f"{scene}/{k}") for k in others}
    names = workbench_scenes(opened, scene)
    names = sorted(names) if role == "retrieval" else names
    per_scene = options.num_distractors_per_scene
    stride = sum(len(t) for t in targets.values()) + len(names) * per_scene
    start = np.arange(len(source), dtype=np.int64) * stride

    right: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
    offset = 0
    for k, target in targets.items():
        near = nearest_pairs(
            s.homography(scene, k),
            float32_points(source.xy),
            float32_points(target.xy),
            tau_px=options.tau_px,
            slack_px=_COLOCATED_PX,
        )
        squared = np.empty(0)
        if len(near.query):
            squared = pair_distances_sq(queries, _rows(target), near.query, near.target)
        right.append((squared, start[near.query] + offset + near.target))
        offset += len(target)
    value = np.concatenate([r[0] for r in right])
    position = np.concatenate([r[1] for r in right])
    counts = PooledCounts(value, position)
    offset = 0
    for target in targets.values():
        counts.add_pairs(queries, _rows(target), start + offset, distance="l2")
        offset += len(target)
    distractors = 0
    for n, other in enumerate(names):
        sizes = {k: len(image_features(features, f"{other}/{k}")) for k in s.images(other)}
        for drawn in workbench_rows(role, scene, other, sizes, len(source), per_scene, options.seed):
            pool = _rows(image_features(features, drawn.image))
            query = np.repeat(drawn.query, drawn.rows.shape[1])
            rows = drawn.rows.reshape(-1)
            distractors += len(rows)
            if len(rows):
                at = start[drawn.query][:, None] + offset + n * per_scene + np.arange(drawn.rows.shape[1])
                counts.add_values(pair_distances_sq(queries, pool, query, rows), at.reshape(-1))
    found = counts.result()
    columns = {
        "distance": np.sqrt(value),
        "lt": found.lt[:, 0],
        "eq": found.eq[:, 0],
        "eq_before": found.eq_before[:, 0],
    }
    inside = len(source) * sum(len(t) for t in targets.values())
    meta = {
        "scene": scene,
        "true_positives": len(value),
        "hard_negatives": inside - len(value),
        "distractors": distractors,
        "distractor_scenes": names,
        "tau_px": options.tau_px,
    }
    return Records("rank", columns, meta)


def float32_points(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round points to single precision, as DescriptorWorkbench stores them."""
    return xy.astype(np.float32).astype(np.float64)


def score_pooled(records: Sequence[Records], role: str) -> list[Score]:
    """Compute the mean AP over scenes with candidates, and label counts. AP is 0 without correct pairs."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(scene_kind(s, ("i", "v")) for s in scenes)
    value, count, random = (np.zeros(len(records)) for _ in range(3))
    for i, r in enumerate(records):
        positives = int(r.meta["true_positives"])
        items = positives + int(r.meta["hard_negatives"]) + int(r.meta["distractors"])
        count[i] = items > 0
        if positives:
            counted = (r["lt"], r["eq"])
            value[i] = average_precision_from_counts(*counted, eq_before=r["eq_before"], ties="file")[0]
            random[i] = chance_average_precision(items, positives)
    sums = SceneSums(scenes, kinds, value, count, random)
    scores = [macro_score("ap", sums), macro_score(f"keypoint_{role}_ap", sums)]
    for kind, name in KIND_NAMES.items():
        scores.append(macro_score(f"{role}_{name}_ap", sums.of_kind(kind)))
        scores.append(macro_score("ap", sums.of_kind(kind), group=group_name(kind=kind)))
    scores += by_scene("ap", sums)
    for label in ("true_positives", "hard_negatives", "distractors"):
        total = sum(int(r.meta[label]) for r in records)
        name = f"retrieval_num_{label}" if role == "retrieval" else f"total_{label}"
        scores.append(count_score(name, total))
    return with_protocol(scores, "workbench")


def raw_values(image: ComparedFeatures) -> NDArray[Any]:
    """Return the descriptors as DescriptorWorkbench reads them.

    A row marked invalid becomes zero, except a row with NaN or infinity, which is unchanged.
    """
    values = image.values
    if values.dtype.kind != "f":
        values = values.astype(np.float32)
    failed = ~image.valid & np.isfinite(values).all(axis=1)
    return np.where(failed[:, None], values.dtype.type(0), values)
