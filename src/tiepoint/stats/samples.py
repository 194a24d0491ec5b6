# SPDX-License-Identifier: BSD-3-Clause
"""Several methods on the same scenes: their scores, how scenes move them, and the resampled scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.scores import PooledBins
from .interval_bounds import bca_bounds, standard_error, t_bounds
from .pooled import (
    pooled_contributions,
    pooled_influence,
    pooled_resampled,
    pooled_slope,
    pooled_statistic,
    scene_shares,
)
from .resampling import RESAMPLES, Resamples, SceneScore, resample, seed_of, strata_of

Array = NDArray[np.float64]
BOOTSTRAP_FROM = 40
STUDENT_FROM = 6
"""Scenes from which on intervals come from the BCa bootstrap, and from Student t."""

MAX_RESAMPLED_METHODS = 300
"""Methods whose resampled scores are all in memory at once."""


@dataclass(frozen=True)
class MethodSample:
    """m methods on s scenes.

    `value` (m,), `influence` (s, m), `resampled` (r, m) from 40 scenes on, else None, `strata` (s,).
    `contributions` (s, m), whose sums are the values, are what is tested; for pooled scores see
    `pooled_contributions`. For scores that are means over scenes also `by_scene` (m, s), the mean over cells
    in each scene; None for pooled scores. `alone` are scenes
    that are the only one of a cell, whose spread is unknown. Of many methods the resampled scores would fill
    the memory: then `resampled` is None and `draw` makes those of some columns.
    """

    value: Array
    influence: Array
    resampled: Array | None
    strata: NDArray[np.int64]
    contributions: Array | None = None
    by_scene: Array | None = None
    alone: tuple[str, ...] = ()
    draw: Callable[[NDArray[np.int64]], Array] | None = None

    @property
    def n_scenes(self) -> int:
        """Number of distinct scenes."""
        return len(self.strata)

    @property
    def interval_kind(self) -> str:
        """`bca`, `t` or `none`, by the number of scenes; `none` where one is the only scene of a cell."""
        if self.alone:
            return "none"
        few = "none" if self.n_scenes < STUDENT_FROM else "t"
        return few if self.resampled is None and self.draw is None else "bca"

    def drawn(self, columns: NDArray[np.int64]) -> Array:
        """The resampled scores of some methods, (r, k), where there are any."""
        if self.resampled is not None:
            return self.resampled[:, columns]
        assert self.draw is not None, "a sample of few scenes has no resamples"
        return self.draw(columns)

    def only(self, columns: NDArray[np.int64]) -> MethodSample:
        """The sample of some of the methods, with their resampled scores."""
        c = self.contributions
        return MethodSample(
            self.value[columns],
            self.influence[:, columns],
            None if self.resampled is None and self.draw is None else self.drawn(columns),
            self.strata,
            None if c is None else c[:, columns],
            None if self.by_scene is None else self.by_scene[columns],
            self.alone,
        )

    def minus(self, pairs: NDArray[np.int64], *, with_resampled: bool = True) -> MethodSample:
        """Differences first - second of pairs (k, 2) of methods, as a sample of k scores.

        Thousands of pairs times ten thousand resamples fill the memory: leave those out where they are not
        needed, and see `difference_bounds`.
        """
        a, b = pairs[:, 0], pairs[:, 1]
        c = self.contributions
        return MethodSample(
            self.value[a] - self.value[b],
            self.influence[:, a] - self.influence[:, b],
            self._resampled_minus(a, b) if with_resampled else None,
            self.strata,
            None if c is None else c[:, a] - c[:, b],
            None if self.by_scene is None else self.by_scene[a] - self.by_scene[b],
            self.alone,
        )

    def _resampled_minus(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Array | None:
        if self.resampled is not None:
            return self.resampled[:, a] - self.resampled[:, b]
        if self.draw is None:
            return None
        columns, places = np.unique(np.concatenate([a, b]), return_inverse=True)
        drawn = self.draw(columns)
        return drawn[:, places[: len(a)]] - drawn[:, places[len(a) :]]

    def difference_bounds(self, pairs: NDArray[np.int64], *, level: float = 0.95) -> tuple[Array, Array]:
        """Interval of the difference of each pair (k, 2), a few pairs at a time."""
        low, high = np.empty(len(pairs)), np.empty(len(pairs))
        for start in range(0, len(pairs), 64):
            part = slice(start, start + 64)
            low[part], high[part] = self.minus(pairs[part]).bounds(level=level)
        return low, high

    def chosen_bounds(
        self, columns: NDArray[np.int64], *, level: float = 0.95, bounded: bool = False
    ) -> tuple[Array, Array]:
        """Interval of each score of some methods, a few at a time."""
        low, high = np.empty(len(columns)), np.empty(len(columns))
        for start in range(0, len(columns), 64):
            part = slice(start, start + 64)
            low[part], high[part] = self.only(columns[part]).bounds(level=level, bounded=bounded)
        return low, high

    def bounds(self, *, level: float = 0.95, bounded: bool = False) -> tuple[Array, Array]:
        """Interval of each score, low (m,), high (m,); NaN below 6 scenes.

        Args:
            level: coverage aimed at.
            bounded: scores live between 0 and 1 (differences do not).
        """
        k = len(self.value)
        if self.interval_kind == "none" or k == 0:
            return np.full(k, np.nan), np.full(k, np.nan)
        if self.draw is not None:
            return self.chosen_bounds(np.arange(k), level=level, bounded=bounded)
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
    """The given seed, or one from the names and kinds of the scenes."""
    return seed_of("scenes", list(scenes), list(kinds)) if seed is None else seed


def sample_of_scenes(
    scores: Sequence[SceneScore], *, seed: int | None = None, resamples: int = RESAMPLES
) -> MethodSample:
    """Methods whose scores are means over the same scenes (same names in the same order)."""
    first = scores[0]
    strata = first.strata
    drawn, draw = None, None
    if len(strata) >= BOOTSTRAP_FROM:
        draws = resample(strata, resamples=resamples, seed=seed_for(first.scenes, first.kinds, seed))
        if len(scores) > MAX_RESAMPLED_METHODS:
            draw = partial(_resampled, scores, draws)
        else:
            drawn = _resampled(scores, draws, np.arange(len(scores)))
    by_scene = []
    for s in scores:
        there = s.weights > 0
        by_scene.append(np.where(there, s.values, 0.0).sum(axis=0) / there.sum(axis=0))
    return MethodSample(
        np.array([s.value() for s in scores]),
        np.stack([s.influence() for s in scores], axis=1),
        drawn,
        strata,
        np.stack([s.contributions() for s in scores], axis=1),
        np.array(by_scene),
        first.alone,
        draw,
    )


def _resampled(scores: Sequence[SceneScore], draws: Resamples, columns: NDArray[np.int64]) -> Array:
    """The resampled scores of some methods, (r, k); many at once where their weights allow it."""
    chosen = [scores[int(c)] for c in columns]
    if len(chosen) > 2 and all(s.evenly_weighed(draws) for s in chosen):
        return draws.weigh(np.stack([s.contributions() for s in chosen], axis=1), own_grid=True)
    return np.stack([s.resampled(draws) for s in chosen], axis=1)


def sample_of_pooled(
    bins: Sequence[PooledBins],
    *,
    values: Sequence[float] | None = None,
    seed: int | None = None,
    resamples: int = RESAMPLES,
) -> MethodSample:
    """Methods with pooled scores over the same scenes.

    Args:
        bins: counts of each method, scenes in the same order.
        values: the exact scores; resampled ones are shifted by what binning changed.
        seed: of the resamples.
        resamples: their number.
    """
    first = bins[0]
    strata = strata_of(first.kinds)
    binned = np.array([pooled_statistic(b) for b in bins])
    exact = binned if values is None else np.asarray(values, dtype=np.float64)
    drawn: Array | None = None
    draw: Callable[[NDArray[np.int64]], Array] | None = None
    if len(strata) >= BOOTSTRAP_FROM:
        draws = resample(strata, resamples=resamples, seed=seed_for(first.scenes, first.kinds, seed))

        def draw_some(columns: NDArray[np.int64]) -> Array:
            made = [pooled_resampled(bins[int(c)], draws) for c in columns]
            return np.asarray(np.stack(made, axis=1) + (exact - binned)[columns])

        if len(bins) > MAX_RESAMPLED_METHODS:
            draw = draw_some
        else:
            drawn = draw_some(np.arange(len(bins)))
    influence = np.stack([pooled_influence(b, strata) for b in bins], axis=1)
    slopes = np.stack([pooled_slope(b) for b in bins], axis=1)
    shares = np.mean([scene_shares(b) for b in bins], axis=0)
    contributions = pooled_contributions(exact, slopes, shares, strata)
    return MethodSample(exact, influence, drawn, strata, contributions, draw=draw)
