# SPDX-License-Identifier: BSD-3-Clause
"""Scores of several methods on the same scenes, with scene influences and bootstrap resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.scores import PooledBins
from .interval_bounds import bca_bounds, edge_bounds, standard_error, t_bounds
from .pooled import (
    pooled_contributions,
    pooled_influence,
    pooled_resampled,
    pooled_slope,
    pooled_statistic,
    scene_shares,
)
from .resampling import RESAMPLES, Resamples, SceneScore, resample, seed_of, strata_of

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
BOOTSTRAP_FROM = 40
STUDENT_FROM = 6
"""Minimum numbers of scenes for intervals by the BCa bootstrap and by Student t."""

FLAT = 1e-12
"""Largest standard error, relative to the score, that counts as no spread."""

MAX_RESAMPLED_METHODS = 300
"""Maximum number of methods whose resampled scores are all in memory at the same time."""


@dataclass(frozen=True)
class MethodSample:
    """Scores of m methods on s scenes.

    `value` (m,) are the scores, `influence` (s, m) the influence of each scene, `strata` (s,) the stratum of
    each scene. `resampled` (r, m) are the resampled scores; None if there are fewer than 40 scenes. It is
    also None for many methods, because the scores would not fit into memory. `draw` then computes the
    resampled scores of selected methods. Tests use `contributions` (s, m), whose columns sum to the scores;
    for pooled scores see `pooled_contributions`. `by_scene` (m, s) is the mean over cells in each scene; None
    for pooled scores. `singleton_scenes` are scenes that are the only scene of a cell, so that their spread
    is unknown.
    """

    value: Array
    influence: Array
    resampled: Array | None
    strata: Ints
    contributions: Array | None = None
    by_scene: Array | None = None
    singleton_scenes: tuple[str, ...] = ()
    draw: Callable[[Ints], Array] | None = None

    @property
    def n_scenes(self) -> int:
        """Number of distinct scenes."""
        return len(self.strata)

    @property
    def interval_kind(self) -> str:
        """Kind of interval, by the number of scenes: `bca`, `t` or `none`. With singleton scenes, `none`."""
        if self.singleton_scenes:
            return "none"
        kind = "none" if self.n_scenes < STUDENT_FROM else "t"
        return kind if self.resampled is None and self.draw is None else "bca"

    @property
    def flat(self) -> NDArray[np.bool_]:
        """Whether each score has no spread over scenes, up to rounding, (m,)."""
        se = standard_error(self.influence, self.strata)[0]
        return np.asarray(se <= FLAT * np.abs(self.value))

    def resampled_scores(self, columns: Ints) -> Array:
        """Return the resampled scores of some methods, (r, k)."""
        if self.resampled is not None:
            return self.resampled[:, columns]
        assert self.draw is not None, "a sample of few scenes has no resamples"
        return self.draw(columns)

    def only(self, columns: Ints) -> MethodSample:
        """Return the sample restricted to some of the methods, including their resampled scores."""
        has_none = self.resampled is None and self.draw is None
        resampled = None if has_none else self.resampled_scores(columns)
        return self._combine(lambda x: x[..., columns], resampled)

    def minus(self, pairs: Ints, *, with_resampled: bool = True) -> MethodSample:
        """Return the score differences (first - second) of method pairs (k, 2), as a sample of k scores.

        Resampled differences of thousands of pairs may not fit into memory. Skip them if they are not needed,
        or use `difference_bounds`.
        """
        a, b = pairs[:, 0], pairs[:, 1]
        resampled = None
        if with_resampled and self.resampled is not None:
            resampled = self.resampled[:, a] - self.resampled[:, b]
        elif with_resampled and self.draw is not None:
            columns, places = np.unique(np.concatenate([a, b]), return_inverse=True)
            some = self.draw(columns)
            resampled = some[:, places[: len(a)]] - some[:, places[len(a) :]]
        return self._combine(lambda x: x[..., a] - x[..., b], resampled)

    def _combine(self, combine: Callable[[Array], Array], resampled: Array | None) -> MethodSample:
        """Apply `combine` to all arrays and return the new sample. Methods are the last axis of arrays."""
        c, by_scene = self.contributions, self.by_scene
        return MethodSample(
            combine(self.value),
            combine(self.influence),
            resampled,
            self.strata,
            None if c is None else combine(c),
            None if by_scene is None else combine(by_scene.T).T,
            self.singleton_scenes,
        )

    def difference_bounds(self, pairs: Ints, *, level: float = 0.95) -> tuple[Array, Array]:
        """Compute the interval of the difference of each pair (k, 2), in blocks of pairs to save memory."""
        low, high = np.empty(len(pairs)), np.empty(len(pairs))
        for start in range(0, len(pairs), 64):
            part = slice(start, start + 64)
            low[part], high[part] = self.minus(pairs[part]).bounds(level=level)
        return low, high

    def chosen_bounds(
        self, columns: Ints, *, level: float = 0.95, bounded: bool = False
    ) -> tuple[Array, Array]:
        """Compute the intervals of the scores of some methods, in blocks of methods to save memory."""
        low, high = np.empty(len(columns)), np.empty(len(columns))
        for start in range(0, len(columns), 64):
            part = slice(start, start + 64)
            low[part], high[part] = self.only(columns[part]).bounds(level=level, bounded=bounded)
        return low, high

    def bounds(self, *, level: float = 0.95, bounded: bool = False) -> tuple[Array, Array]:
        """Compute the interval of each score as low (m,) and high (m,). NaN if there are fewer than 6 scenes.

        Set `bounded` if the scores are between 0 and 1. Differences are not bounded. A score without spread
        has no interval (NaN), except a bounded mean with all scenes at 0 or 1; see `edge_bounds`.
        """
        k = len(self.value)
        if self.interval_kind == "none" or k == 0:
            return np.full(k, np.nan), np.full(k, np.nan)
        if self.draw is not None:
            return self.chosen_bounds(np.arange(k), level=level, bounded=bounded)
        low, high = self._spread_bounds(level, bounded)
        edges = bounded and self.by_scene is not None
        for i in np.flatnonzero(self.flat):
            low[i], high[i] = (
                edge_bounds(self.value[i], self.n_scenes, level=level) if edges else (np.nan,) * 2
            )
        return low, high

    def _spread_bounds(self, level: float, bounded: bool) -> tuple[Array, Array]:
        """Compute intervals by BCa or Student t, from the spread of the scenes."""
        k = len(self.value)
        se, df = standard_error(self.influence, self.strata)
        if self.resampled is not None:
            return bca_bounds(self.value, self.resampled, self.influence, self.strata, level=level, df=df)
        out = np.empty((k, 2))
        for i in range(k):
            out[i] = t_bounds(self.value[i], se[i], df[i], level=level)
            outside = out[i, 0] < 0 or out[i, 1] > 1 or not 0.1 <= self.value[i] <= 0.9
            if bounded and outside:
                out[i] = t_bounds(self.value[i], se[i], df[i], level=level, logit=True)
        return out[:, 0], out[:, 1]


def seed_for(scenes: Sequence[str], kinds: Sequence[str], seed: int | None) -> int:
    """Return the given seed, or one derived from the names and kinds of the scenes."""
    return seed_of("scenes", list(scenes), list(kinds)) if seed is None else seed


def sample_of_scenes(
    scores: Sequence[SceneScore], *, seed: int | None = None, resamples: int = RESAMPLES
) -> MethodSample:
    """Build a sample of methods whose scores are means over the same scenes, in the same order."""
    first = scores[0]
    strata = first.strata
    resampled, draw = None, None
    if len(strata) >= BOOTSTRAP_FROM:
        samples = resample(strata, resamples=resamples, seed=seed_for(first.scenes, first.kinds, seed))
        if len(scores) > MAX_RESAMPLED_METHODS:
            draw = partial(_resampled, scores, samples)
        else:
            resampled = _resampled(scores, samples, np.arange(len(scores)))
    by_scene = []
    for s in scores:
        present = s.weights > 0
        by_scene.append(np.where(present, s.values, 0.0).sum(axis=0) / present.sum(axis=0))
    return MethodSample(
        np.array([s.value() for s in scores]),
        np.stack([s.influence() for s in scores], axis=1),
        resampled,
        strata,
        np.stack([s.contributions() for s in scores], axis=1),
        np.array(by_scene),
        first.singleton_scenes,
        draw,
    )


def _resampled(scores: Sequence[SceneScore], samples: Resamples, columns: Ints) -> Array:
    """Return the resampled scores of some methods, (r, k), as one matrix product if possible."""
    chosen = [scores[int(c)] for c in columns]
    if len(chosen) > 2 and all(s.has_even_weights(samples) for s in chosen):
        return samples.weigh(np.stack([s.contributions() for s in chosen], axis=1), own_grid=True)
    return np.stack([s.resample_scores(samples) for s in chosen], axis=1)


def sample_of_pooled(
    bins: Sequence[PooledBins],
    *,
    values: Sequence[float] | None = None,
    seed: int | None = None,
    resamples: int = RESAMPLES,
) -> MethodSample:
    """Build a sample of methods with pooled scores over the same scenes.

    If the exact scores `values` are given, resampled scores are shifted by the difference between exact and
    binned scores.
    """
    first = bins[0]
    strata = strata_of(first.kinds)
    binned = np.array([pooled_statistic(b) for b in bins])
    exact = binned if values is None else np.asarray(values, dtype=np.float64)
    resampled: Array | None = None
    draw: Callable[[Ints], Array] | None = None
    if len(strata) >= BOOTSTRAP_FROM:
        samples = resample(strata, resamples=resamples, seed=seed_for(first.scenes, first.kinds, seed))

        def draw_some(columns: Ints) -> Array:
            scores = [pooled_resampled(bins[int(c)], samples) for c in columns]
            return np.asarray(np.stack(scores, axis=1) + (exact - binned)[columns])

        if len(bins) > MAX_RESAMPLED_METHODS:
            draw = draw_some
        else:
            resampled = draw_some(np.arange(len(bins)))
    influence = np.stack([pooled_influence(b, strata) for b in bins], axis=1)
    slopes = np.stack([pooled_slope(b) for b in bins], axis=1)
    shares = np.mean([scene_shares(b) for b in bins], axis=0)
    contributions = pooled_contributions(exact, slopes, shares, strata)
    return MethodSample(exact, influence, resampled, strata, contributions, draw=draw)
