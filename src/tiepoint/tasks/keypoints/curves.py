# SPDX-License-Identifier: BSD-3-Clause
"""Curves of keypoint tasks that are means over scenes: success at k, precision over recall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...model.curves import SceneCurves
from ...model.records import Records
from ..scene_means import mean_precision_recall
from .ranking_scores import RANKS, query_values


def ranking_scene_curves(records: Sequence[Records]) -> Iterator[SceneCurves]:
    """Share of queries with a right answer among the first k, over k; every query counts the same."""
    tables = [(r, t) for r in records if len(t := query_values(r, 0))]
    if not tables:
        return
    ranks = np.arange(1, RANKS + 1)
    yield SceneCurves(
        "all",
        "success_at_k",
        ranks.astype(np.float64),
        tuple(str(r.meta["scene"]) for r, _ in tables),
        tuple(str(r.meta["kind"]) for r, _ in tables),
        np.array([[t.values[f"success{k}"].mean() for k in ranks] for _, t in tables]),
        np.array([float(len(t)) for _, t in tables]),
    )


def matching_scene_curves(records: Sequence[Records]) -> Iterator[SceneCurves]:
    """Precision over recall of the first neighbours, the mean over image pairs; its area is `map`."""
    if not records:
        return
    pairs = [(s, image, pair) for s, r in enumerate(records) for image, pair in enumerate(r.meta["pairs"])]
    rows = [records[s]["image"] == image for s, image, _ in pairs]
    distance, right = (
        np.concatenate([records[s][name][at] for (s, _, _), at in zip(pairs, rows, strict=True)])
        for name in ("distance", "right")
    )
    yield mean_precision_recall(
        "all",
        distance,
        right,
        np.repeat(np.arange(len(pairs)), [int(at.sum()) for at in rows]),
        np.array([int(pair["answered"]) for _, _, pair in pairs]),
        np.array([s for s, _, _ in pairs], np.int64),
        scenes=[str(r.meta["scene"]) for r in records],
        kinds=[str(r.meta["kind"]) for r in records],
    )
