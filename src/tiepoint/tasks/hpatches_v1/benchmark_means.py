# SPDX-License-Identifier: BSD-3-Clause
"""Scores of benchmarks with the scenes they are means of, and their mean over benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ..scene_means import scene_means, score_from_scenes


def benchmark_score(
    metric: str,
    records: Records,
    values: NDArray[np.float64],
    scene: NDArray[np.int64],
    *,
    scale: float = 1.0,
    **more: Any,
) -> Score:
    """The score of one benchmark from the values of its items (image pairs, patches, queries).

    NaN items are left out of their scene; `scene` is the number of each item's.
    """
    meta = records.meta
    means, weights = scene_means(values, scene, len(meta["scenes"]), scale=scale)
    table = SceneValues(tuple(meta["scenes"]), tuple(meta["kinds"]), means[None], weights[None])
    return score_from_scenes(metric, group_name(benchmark=meta["benchmark"]), len(values), table, **more)


def with_mean(scores: Sequence[Score]) -> list[Score]:
    """Scores of benchmarks, then `all`, then one per scene (mean over the benchmarks that have it)."""
    metric, protocol = scores[0].metric, scores[0].protocol
    together = _union([s.scenes for s in scores if s.scenes is not None])
    notes = tuple(dict.fromkeys(s.note for s in scores if s.note))
    chances = [s.chance for s in scores if s.chance is not None]
    whole = Score(
        metric,
        group_name(),
        float(np.mean([s.value for s in scores])),
        sum(s.n for s in scores),
        protocol,
        scenes=together if all(np.isfinite(s.value) for s in scores) else None,
        chance=float(np.mean(chances)) if len(chances) == len(scores) else None,
        note="; ".join(notes) or None,
    )
    found = [replace(s, scenes=None) if np.isnan(s.value) else s for s in scores]
    found.append(whole)
    weights = np.asarray(together.weights)
    for i, scene in enumerate(together.scenes):
        column = together.cells[:, i]
        known = np.isfinite(column) & (weights[:, i] > 0)
        if known.any():
            n = int(weights[known, i].sum())
            found.append(Score(metric, group_name(scene=scene), float(column[known].mean()), n, protocol))
    return found


def _union(tables: Sequence[SceneValues]) -> SceneValues:
    """One row of cells per benchmark over all scenes."""
    kinds = {s: k for t in tables for s, k in zip(t.scenes, t.kinds, strict=True)}
    scenes = tuple(kinds)
    place = {s: i for i, s in enumerate(scenes)}
    cells = np.full((len(tables), len(scenes)), np.nan)
    weights = np.zeros((len(tables), len(scenes)))
    for row, t in enumerate(tables):
        at = [place[s] for s in t.scenes]
        cells[row, at] = t.cells[0]
        weights[row, at] = np.asarray(t.weights)[0]
    return SceneValues(scenes, tuple(kinds[s] for s in scenes), cells, weights)
