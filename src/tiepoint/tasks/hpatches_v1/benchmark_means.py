# SPDX-License-Identifier: BSD-3-Clause
"""Scores of benchmarks with the scenes they are means of, and their mean over benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.records import Records
from ...model.scores import SceneValues, Score, group_name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BenchmarkMean:
    """A score of one benchmark that is a weighted mean of scene values (NaN: the scene has none)."""

    benchmark: str
    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Floats
    weights: Floats
    n: int
    chance: float | None = None
    note: str | None = None

    @property
    def value(self) -> float:
        """The score, NaN without any scene value."""
        known = np.isfinite(self.values) & (self.weights > 0)
        if not known.any():
            return float("nan")
        return float(np.sum(self.values[known] * self.weights[known]) / np.sum(self.weights[known]))


def mean_by_scene(
    records: Records,
    values: Floats,
    scene: NDArray[np.int64],
    *,
    scale: float = 1.0,
    chance: float | None = None,
    note: str | None = None,
) -> BenchmarkMean:
    """Scene means of item values (image pairs, patches, queries); NaN items are left out of their scene."""
    count = len(records.meta["scenes"])
    known = np.isfinite(values)
    weights = np.bincount(scene[known], minlength=count).astype(np.float64)
    sums = np.bincount(scene[known], weights=values[known], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(weights > 0, scale * sums / weights, np.nan)
    meta = records.meta
    return BenchmarkMean(
        meta["benchmark"],
        tuple(meta["scenes"]),
        tuple(meta["kinds"]),
        means,
        weights,
        len(values),
        chance,
        note,
    )


def scores_of_means(metric: str, means: Sequence[BenchmarkMean], protocol: str) -> list[Score]:
    """One score per benchmark, one per scene (mean over the benchmarks that have it), and `all`."""
    scores = [
        Score(
            metric,
            group_name(benchmark=m.benchmark),
            m.value,
            m.n,
            protocol,
            scenes=None
            if np.isnan(m.value)
            else SceneValues(m.scenes, m.kinds, m.values[None], m.weights[None]),
            chance=m.chance,
            note=m.note,
        )
        for m in means
    ]
    together = _union(means)
    notes = tuple(dict.fromkeys(m.note for m in means if m.note))
    chances = [m.chance for m in means if m.chance is not None]
    scores.append(
        Score(
            metric,
            group_name(),
            float(np.mean([m.value for m in means])),
            sum(m.n for m in means),
            protocol,
            scenes=together if all(np.isfinite(m.value) for m in means) else None,
            chance=float(np.mean(chances)) if len(chances) == len(means) else None,
            note="; ".join(notes) or None,
        )
    )
    weights = np.asarray(together.weights)
    for i, scene in enumerate(together.scenes):
        column = together.cells[:, i]
        known = np.isfinite(column) & (weights[:, i] > 0)
        if known.any():
            n = int(weights[known, i].sum())
            scores.append(Score(metric, group_name(scene=scene), float(column[known].mean()), n, protocol))
    return scores


def _union(means: Sequence[BenchmarkMean]) -> SceneValues:
    """One row of cells per benchmark over all scenes."""
    kinds = {s: k for m in means for s, k in zip(m.scenes, m.kinds, strict=True)}
    scenes = tuple(kinds)
    place = {s: i for i, s in enumerate(scenes)}
    cells = np.full((len(means), len(scenes)), np.nan)
    weights = np.zeros((len(means), len(scenes)))
    for row, m in enumerate(means):
        at = [place[s] for s in m.scenes]
        cells[row, at] = m.values
        weights[row, at] = m.weights
    return SceneValues(scenes, tuple(kinds[s] for s in scenes), cells, weights)
