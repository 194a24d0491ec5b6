# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of scores: BCa from 40 scenes on, Student t from 6 to 39, none below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..core.scores import PooledBins, SceneValues
from .duplicates import merge_duplicates
from .pooled import PooledMemo, pooled_influence, pooled_resampled, pooled_statistic
from .resampling import RESAMPLES, make_scene_score, resample, strata_of
from .samples import BOOTSTRAP_FROM, STUDENT_FROM, MethodSample, sample_of_scenes, seed_for


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
    score, merged = merge_duplicates(make_scene_score(values))
    n = len(score.scenes)
    note = "; ".join("merged duplicates " + " = ".join(group) for group in merged) or None
    if n < STUDENT_FROM:
        return _no_interval(n, level, note)
    if score.alone:
        one = len(score.alone) == 1
        which = (
            "is the only scene of its cell, so its" if one else "are the only scenes of their cells, so their"
        )
        why = f"{', '.join(score.alone)} {which} spread is unknown"
        return Interval(None, None, "none", n, why if note is None else f"{note}; {why}", level)
    if bounded is None:
        inside = score.values[score.weights > 0]
        bounded = bool((inside >= 0).all() and (inside <= 1).all())
    sample = sample_of_scenes([score], seed=seed, resamples=resamples)
    low, high = (float(b[0]) for b in sample.bounds(level=level, bounded=bounded))
    return _interval(score.value(), low, high, sample.interval_kind, n, note, level)


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
    drawn = None
    if n >= BOOTSTRAP_FROM:
        draws = resample(strata, resamples=resamples, seed=seed_for(bins.scenes, bins.kinds, seed))
        drawn = pooled_resampled(bins, draws, memo=memo)[:, None]
    sample = MethodSample(np.array([exact if drawn is None else binned]), influence, drawn, strata)
    low, high = (float(b[0]) for b in sample.bounds(level=level, bounded=True))
    if drawn is not None:
        low, high = (float(np.clip(b + exact - binned, 0, 1)) for b in (low, high))
    return _interval(exact, low, high, sample.interval_kind, n, None, level)


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
