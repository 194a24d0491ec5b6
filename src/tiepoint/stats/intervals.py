# SPDX-License-Identifier: BSD-3-Clause
"""Confidence intervals of scores: BCa bootstrap, Student t, or bootstrap over images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.scores import PooledBins, SceneValues
from .duplicates import merge_duplicates
from .pooled import PooledMemo, pooled_influence, pooled_resampled, pooled_statistic
from .resampling import RESAMPLES, make_scene_score, resample, strata_of
from .samples import BOOTSTRAP_FROM, STUDENT_FROM, MethodSample, sample_of_scenes, seed_for

Floats = NDArray[np.float64]

MIN_IMAGES = 6
IMAGE_RESAMPLES = 2000
NO_SPREAD = "all scenes have the same value, so there is no interval"
_RESAMPLE_BATCH = 4_000_000


@dataclass(frozen=True)
class Interval:
    """Confidence interval of a score.

    `kind` is `bca`, `t`, `one-sided` or `none`. For `none` the bounds are None and `note` has the reason.
    """

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
    """Compute the confidence interval of a score that is a mean of scene values.

    Distinct scenes are the independent units, and are resampled within their kind. With 40 or more scenes the
    method is the BCa bootstrap. With 6 to 39 scenes it is Student t with the stratified standard error. The
    logit scale is used if the score is within 0.1 of 0 or 1, or if the plain bounds leave the range 0 to 1.
    With fewer than 6 scenes there is no interval. Scenes with equal values also have no interval, with
    one exception: if all values of a bounded score are 0 or all are 1, one end is a one-sided bound; see
    `edge_bounds`.

    Args:
        values: scenes, kinds, cells and weights.
        level: nominal coverage.
        seed: random seed of the resamples; by default derived from the names and kinds of the scenes, so that
            all methods and scores on the same scenes share their resamples.
        resamples: number of bootstrap resamples.
        bounded: whether the score is between 0 and 1; by default, whether all its values are. Pass False
            for errors in pixels.

    Returns:
        The interval, which contains the score.

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
    if alone := score.singleton_scenes:
        which = (
            "is the only scene of its cell, so its"
            if len(alone) == 1
            else "are the only scenes of their cells, so their"
        )
        reason = f"{', '.join(alone)} {which} spread is unknown"
        return Interval(None, None, "none", n, reason if note is None else f"{note}; {reason}", level)
    if bounded is None:
        inside = score.values[score.weights > 0]
        bounded = bool((inside >= 0).all() and (inside <= 1).all())
    sample = sample_of_scenes([score], seed=seed, resamples=resamples)
    low, high = (float(b[0]) for b in sample.bounds(level=level, bounded=bounded))
    if np.isnan(low):
        flat = NO_SPREAD if note is None else f"{note}; {NO_SPREAD}"
        return Interval(None, None, "none", n, flat, level)
    if sample.flat[0]:
        edge = f"all {n} scenes are at {score.value():g}: {one_sided(level)}"
        return Interval(low, high, "one-sided", n, edge if note is None else f"{note}; {edge}", level)
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
    """Compute the confidence interval of a pooled score (AP, AUC or FPR95) from its binned counts.

    A pooled score is computed from one ranked list that contains the pairs of all scenes. Conventions and
    arguments are those of `scene_interval`. The t interval uses the jackknife standard error. If the exact
    score `value` is given, the interval is shifted by the difference between the exact and the binned score.
    If no scene changes the score, there is no interval, not even a one-sided one. Scores on the same scenes
    may share a `memo` to save time; the results are the same.
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
    resampled = None
    if n >= BOOTSTRAP_FROM:
        samples = resample(strata, resamples=resamples, seed=seed_for(bins.scenes, bins.kinds, seed))
        resampled = pooled_resampled(bins, samples, memo=memo)[:, None]
    sample = MethodSample(np.array([exact if resampled is None else binned]), influence, resampled, strata)
    if sample.flat[0]:
        return Interval(None, None, "none", n, NO_SPREAD, level)
    low, high = (float(b[0]) for b in sample.bounds(level=level, bounded=True))
    if resampled is not None:
        low, high = (float(np.clip(b + exact - binned, 0, 1)) for b in (low, high))
    return _interval(exact, low, high, sample.interval_kind, n, None, level)


def image_interval(
    values: Floats,
    images: Sequence[tuple[str, str]],
    weights: Floats,
    *,
    classes: Sequence[str] | None = None,
    level: float = 0.95,
    resamples: int = IMAGE_RESAMPLES,
) -> tuple[float, float] | None:
    """Compute the percentile interval of a weighted mean over pairs by resampling images.

    The mean is over n pairs with values (n,), image names and weights (n,). An image that is sampled k times
    has weight k. The weight of a pair is multiplied by the weights of its two images. NaN values are skipped.
    The interval is valid for other images **of the same scenes**, not for new scenes. A resample without any
    pair is sampled again. With the `classes` of pairs, the images of each class are resampled separately. The
    random seed is derived from the image names. None if there are fewer than 6 images in total or in a class,
    or if all resamples give the same mean.

    >>> pairs = [(a, b) for a in "abcdef" for b in "abcdef" if a < b]
    >>> low, high = image_interval(np.linspace(0, 1, 15), pairs, np.ones(15))
    >>> 0 < low < 0.5 < high < 1
    True
    """
    names = sorted({name for pair in images for name in pair})
    class_of: dict[str, str] = {}  # an image of several classes belongs to the first
    for pair, label in zip(images, classes or [""] * len(images), strict=True):
        for name in pair:
            class_of.setdefault(name, label)
    labels = np.array([class_of[name] for name in names])
    strata = [np.flatnonzero(labels == label) for label in sorted(set(labels.tolist()))]
    if min(map(len, strata), default=0) < MIN_IMAGES:
        return None
    place = {name: i for i, name in enumerate(names)}
    known = np.isfinite(values)
    first = np.array([place[a] for a, _ in images])[known]
    second = np.array([place[b] for _, b in images])[known]
    seed = int.from_bytes(hashlib.sha256("\0".join(names).encode()).digest()[:8], "big")
    rng = np.random.Generator(np.random.PCG64(seed))
    means: list[Floats] = []
    while sum(map(len, means)) < resamples:
        counts = np.zeros((resamples, len(names)))
        for members in strata:
            n = len(members)
            counts[:, members] += rng.multinomial(n, np.full(n, 1 / n), size=resamples)
        for some in np.array_split(counts, max(1, resamples * len(first) // _RESAMPLE_BATCH)):
            weight = some[:, first] * some[:, second] * weights[known]
            total = weight.sum(axis=1)
            means.append((weight @ values[known])[total > 0] / total[total > 0])
    low, high = np.quantile(np.concatenate(means)[:resamples], [(1 - level) / 2, (1 + level) / 2])
    return (float(low), float(high)) if low < high else None


def one_sided(level: float) -> str:
    """Describe the interval of a mean whose scenes are all at 0 or all at 1.

    >>> one_sided(0.95)
    'the other end of the interval is the one-sided 95 % bound'
    """
    return f"the other end of the interval is the one-sided {100 * level:g} % bound"


def _interval(
    value: float, low: float, high: float, kind: str, n: int, note: str | None, level: float
) -> Interval:
    return Interval(min(low, value), max(high, value), kind, n, note, level)


def _no_interval(n: int, level: float, note: str | None) -> Interval:
    few = f"{n} scene{'' if n == 1 else 's'}: shown one by one, no interval below {STUDENT_FROM}"
    return Interval(None, None, "none", n, few if note is None else f"{note}; {few}", level)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level is {level}; pass a number between 0 and 1 such as 0.95")
