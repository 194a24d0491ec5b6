# SPDX-License-Identifier: BSD-3-Clause
"""Scores by kind of scene, and where the order of two methods turns around between kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...core.scores import PooledBins
from ...stats.pooled import lists_of, pooled_statistic
from ...stats.scene_score import SceneScore

ByKind = tuple[tuple[str, float], ...]
"""(kind, score of its scenes alone) in order of the names; empty where there is one kind only."""


def scene_kinds(score: SceneScore) -> ByKind:
    """The score of the scenes of each kind: the mean over cells of the weighted mean over these scenes.

    >>> values = np.array([[0.2, 0.4, 0.9]])
    >>> scene_kinds(SceneScore(("a", "b", "c"), ("i", "i", "v"), values, np.ones((1, 3))))
    (('i', 0.3), ('v', 0.9))
    """
    found = []
    for kind in sorted(set(score.kinds)):
        at = np.array([k == kind for k in score.kinds])
        weights, values = score.weights[:, at], score.values[:, at]
        there = weights.sum(axis=1) > 0
        cells = (weights * values).sum(axis=1)[there] / weights.sum(axis=1)[there]
        found.append((kind, round(float(cells.mean()), 15)))
    return tuple(found) if len(found) > 1 else ()


def pooled_kinds(bins: PooledBins) -> ByKind:
    """The pooled score of each kind: its scenes alone, without pairs that lead to scenes of another kind."""
    kinds = sorted(set(bins.kinds))
    if len(kinds) < 2:
        return ()
    made = [(k, float(np.mean([pooled_statistic(_only(b, k)) for b in lists_of(bins)]))) for k in kinds]
    return tuple((k, v) for k, v in made if np.isfinite(v))


def _only(bins: PooledBins, kind: str) -> PooledBins:
    at = np.flatnonzero([k == kind for k in bins.kinds])
    new = np.full(len(bins.kinds), -1)
    new[at] = np.arange(len(at))
    pairs = np.asarray(bins.negatives).reshape(-1, 4).copy()
    pairs[:, 0], pairs[:, 1] = new[pairs[:, 0]], new[pairs[:, 1]]
    kept = pairs[(pairs[:, 0] >= 0) & (pairs[:, 1] >= 0)]
    return replace(
        bins,
        scenes=tuple(bins.scenes[i] for i in at),
        kinds=(kind,) * len(at),
        positives=bins.positives[at],
        negatives=kept,
        also=(),
    )


def kind_differences(first: ByKind, second: ByKind) -> ByKind:
    """The difference first - second in each kind that both have.

    >>> kind_differences((("i", 0.75), ("v", 0.25)), (("i", 0.5), ("v", 0.5)))
    (('i', 0.25), ('v', -0.25))
    """
    other = dict(second)
    return tuple((kind, value - other[kind]) for kind, value in first if kind in other)


def turns_around(differences: Sequence[tuple[str, float]]) -> bool:
    """Whether a method is ahead in one kind and behind in another.

    >>> turns_around([("i", 0.2), ("v", -0.1)]), turns_around([("i", 0.2), ("v", 0.0)])
    (True, False)
    """
    signs = {np.sign(value) for _, value in differences}
    return {-1.0, 1.0} <= signs
