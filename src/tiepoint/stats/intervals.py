# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of scores: BCa from 40 scenes on, Student t from 6 to 39, none below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.errors import InputError
from ..model.scores import PooledBins, SceneValues
from .bca import bca_bounds
from .duplicates import merge_duplicates
from .pooled import PooledMemo, pooled_influence, pooled_resampled, pooled_statistic
from .resample import RESAMPLES, resample, seed_of, strata_of
from .scene_score import scene_score
from .student import standard_error, t_bounds

BOOTSTRAP_FROM = 40
STUDENT_FROM = 6
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Bounds of a score. `kind` is `bca`, `t` or `none` (then low and high are None and `note` says why)."""

    low: float | None
    high: float | None
    kind: str
    n_scenes: int
    note: str | None = None
    level: float = 0.95


def scene_interval(
    values: SceneValues,
    *,
    level: float = 0.95,
    seed: int | None = None,
    resamples: int = RESAMPLES,
    bounded: bool | None = None,
) -> Interval:
    """Interval of a score that is a mean of scene values.

    The independent unit is the distinct scene, resampled within its kind. From 40 scenes on the interval is
    the BCa bootstrap; from 6 to 39 Student t with the stratified standard error, on the logit scale when the
    score lies within 0.1 of 0 or 1 or the plain bounds leave that range; below 6 there is none.

    Args:
        values: scenes, kinds, cells and weights.
        level: coverage aimed at.
        seed: of the resamples; by default from the names and kinds of the scenes, so that all
            methods and scores on the same scenes share their resamples.
        resamples: number of bootstrap resamples.
        bounded: whether the score lives between 0 and 1; by default, whether all its values do.
            Say False for errors in pixels.

    Returns:
        The interval; never narrower than a point, and it always holds the score.

    >>> x = SceneValues(tuple("abcdef"), ("v",) * 6, np.array([[0.4, 0.5, 0.6, 0.5, 0.45, 0.55]]))
    >>> i = scene_interval(x); i.kind, i.n_scenes, round(i.low, 4), round(i.high, 4)
    ('t', 6, 0.4258, 0.5742)
    """
    _check_level(level)
    score, merged = merge_duplicates(scene_score(values))
    n = len(score.scenes)
    note = "; ".join("merged duplicates " + " = ".join(group) for group in merged) or None
    if n < STUDENT_FROM:
        return _no_interval(n, level, note)
    if score.alone:
        why = f"{', '.join(score.alone)} is the only scene of its cell, so its spread is unknown"
        return Interval(None, None, "none", n, why if note is None else f"{note}; {why}", level)
    strata, influence = score.strata, score.influence()[:, None]
    if n >= BOOTSTRAP_FROM:
        draws = resample(strata, resamples=resamples, seed=seed_for(score.scenes, score.kinds, seed))
        low, high = bca_bounds(
            np.array([score.value()]),
            score.resampled(draws)[:, None],
            influence,
            strata,
            level=level,
            df=standard_error(influence, strata)[1],
        )
        return _interval(score.value(), float(low[0]), float(high[0]), "bca", n, note, level)
    if bounded is None:
        inside = score.values[score.weights > 0]
        bounded = bool((inside >= 0).all() and (inside <= 1).all())
    return _student(score.value(), influence, strata, bounded, note, level)


def pooled_interval(
    bins: PooledBins,
    *,
    value: float | None = None,
    level: float = 0.95,
    seed: int | None = None,
    resamples: int = RESAMPLES,
    memo: PooledMemo | None = None,
) -> Interval:
    """Interval of a pooled score (AP, AUC, FPR95 of one list over all scenes), through its bins.

    Same rules as `scene_interval`; the t interval uses the standard error of leaving scenes out.

    Args:
        bins: counts by scene and bin.
        value: the exact score; the interval is shifted by what binning changed.
        level: coverage aimed at.
        seed: as in `scene_interval`.
        resamples: number of bootstrap resamples.
        memo: where intervals of scores on the same scenes share their work; the result is the same.
    """
    _check_level(level)
    n = len(bins.scenes)
    if n < STUDENT_FROM:
        return _no_interval(n, level, None)
    binned = pooled_statistic(bins, memo=memo)
    exact = binned if value is None else value
    if not np.isfinite(binned):
        return Interval(None, None, "none", n, "the list has no positives or no negatives", level)
    strata = strata_of(bins.kinds)
    influence = pooled_influence(bins, strata, memo=memo)[:, None]
    if n < BOOTSTRAP_FROM:
        return _student(exact, influence, strata, True, None, level)
    draws = resample(strata, resamples=resamples, seed=seed_for(bins.scenes, bins.kinds, seed))
    low, high = bca_bounds(
        np.array([binned]),
        pooled_resampled(bins, draws, memo=memo)[:, None],
        influence,
        strata,
        level=level,
        df=standard_error(influence, strata)[1],
    )
    low, high = np.clip([low[0] + exact - binned, high[0] + exact - binned], 0, 1)
    return _interval(exact, float(low), float(high), "bca", n, None, level)


def seed_for(scenes: Sequence[str], kinds: Sequence[str], seed: int | None) -> int:
    """The given seed, or one from the names and kinds of the scenes."""
    return seed_of("scenes", list(scenes), list(kinds)) if seed is None else seed


def _student(
    value: float, influence: Array, strata: NDArray[np.int64], bounded: bool, note: str | None, level: float
) -> Interval:
    se, df = standard_error(influence, strata)
    low, high = t_bounds(value, float(se[0]), float(df[0]), level=level)
    if bounded and (low < 0 or high > 1 or not 0.1 <= value <= 0.9):
        low, high = t_bounds(value, float(se[0]), float(df[0]), level=level, logit=True)
    return _interval(value, low, high, "t", len(strata), note, level)


def _interval(
    value: float, low: float, high: float, kind: str, n: int, note: str | None, level: float
) -> Interval:
    if low == high:
        flat = "all scenes have the same value, so the interval is a point"
        note = flat if note is None else f"{note}; {flat}"
    return Interval(min(low, value), max(high, value), kind, n, note, level)


def _no_interval(n: int, level: float, note: str | None) -> Interval:
    few = f"{n} scene{'' if n == 1 else 's'}: shown one by one, no interval below {STUDENT_FROM}"
    return Interval(None, None, "none", n, few if note is None else f"{note}; {few}", level)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level is {level}; expected a number between 0 and 1 such as 0.95")
