# SPDX-License-Identifier: BSD-3-Clause
"""Pooled scores, from one ranked list over all scenes, computed from counts by scene and distance bin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.errors import UnknownNameError
from ..core.scores import PooledBins
from .pooled_pairs import PairStack, SceneCounts
from .resampling import Resamples, strata_of, stratum_members

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
STATISTICS = ("ap", "auc", "fpr95")


def binned_statistic(positives: Array, negatives: Array, statistic: str) -> Array:
    """Compute AP, AUC or FPR at 95 % recall of ranked lists from counts in bins of ascending distance.

    Items within a bin count as randomly ordered: the result is the expectation over orders for many items.
    `ap` is a sum over bins, divided by the number of positives. A bin with p positives and n negatives, after
    P positives and N negatives in earlier bins, adds the integral over u in 0…1 of p (P + p u) / (P + N + (p
    + n) u). `auc` counts half of the pairs within a bin. `fpr95` is interpolated linearly within its bin.

    `positives` and `negatives` (r, bins) are counts or weights. Returns one value per list, (r,). The value
    is NaN for a list without positives, and for `auc` and `fpr95` also for a list without negatives.

    >>> one = np.array([[1.0, 0.0]]); binned_statistic(one, one[:, ::-1], "auc").tolist()
    [1.0]
    """
    if statistic not in STATISTICS:
        raise UnknownNameError("pooled statistic", statistic, STATISTICS)
    with np.errstate(invalid="ignore", divide="ignore"):
        if statistic == "ap":
            return _ap(positives, negatives)
        p_before = np.cumsum(positives, axis=1) - positives
        both = positives.sum(axis=1) * negatives.sum(axis=1)
        if statistic == "auc":
            below = (negatives * (p_before + positives / 2)).sum(axis=1)
            return np.where(both > 0, below / both, np.nan)
        goal = 0.95 * positives.sum(axis=1)
        at = np.argmax(p_before + positives >= goal[:, None] * (1 - 1e-12), axis=1)
        row = np.arange(len(at))
        part = np.clip((goal - p_before[row, at]) / positives[row, at], 0, 1)
        n_before = (np.cumsum(negatives, axis=1) - negatives)[row, at]
        fpr = (n_before + part * negatives[row, at]) / negatives.sum(axis=1)
        return np.where(both > 0, fpr, np.nan)


def _ap(positives: Array, negatives: Array) -> Array:
    items = positives + negatives
    before_p = np.cumsum(positives, axis=1) - positives
    before = np.cumsum(items, axis=1) - items
    slope = np.where(items > 0, positives / items, 0.0)
    log_term = np.where(before > 0, np.log1p(items / before) / items, 0.0)
    # With nothing before it, the precision within the bin is its share of positives.
    inside = slope + np.where(items > 0, (before_p - slope * before) * log_term, 0.0)
    total = positives.sum(axis=1)
    return np.where(total > 0, (positives * inside).sum(axis=1) / total, np.nan)


def pooled_statistic(bins: PooledBins, *, memo: PooledMemo | None = None) -> float:
    """Compute a pooled score from binned counts. It differs slightly from the exact score.

    >>> bins = PooledBins(("a",), ("i",), np.array([[3.0, 1.0]]), np.array([[0, 0, 1, 4]]), "auc")
    >>> pooled_statistic(bins)
    0.875
    """
    strata = strata_of(bins.kinds)

    def once() -> SceneCounts:
        return SceneCounts(np.ones((1, len(strata))), strata, np.ones((1, int(strata.max(initial=0)) + 1)))

    return float(weighted_statistics(bins, once, memo=memo, name="whole")[0])


class PooledMemo:
    """Cache for resampling, shared by several pooled scores on the same scenes.

    AUC, AP and FPR95 of a ranked list use the same negatives. The ranked lists of one benchmark use the same
    pairs of scenes. A mean over lists uses the statistics of each list. Statistics of all `scores` on the
    same pairs of scenes are computed together, with bit-identical results. Use one memo only for scores with
    the same seed and number of resamples.
    """

    def __init__(self, scores: Iterable[PooledBins] = ()) -> None:
        self.lists = [one for bins in scores for one in lists_of(bins)]
        self._values: dict[tuple[object, ...], tuple[PooledBins, Array]] = {}
        self._stacks: dict[tuple[object, ...], PairStack] = {}

    def stack(self, one: PooledBins, strata: Ints) -> PairStack:
        """Stack a ranked list with all other lists in `scores` that have the same pairs of scenes."""
        key = (strata.tobytes(), *_identity(one))
        if key not in self._stacks:
            alike = (b for b in self.lists if (b.scenes, b.kinds) == (one.scenes, one.kinds))
            stack = PairStack.of(list({_identity(b): b for b in (one, *alike)}.values()), strata)
            self._stacks |= {(strata.tobytes(), *_identity(b)): stack for b in stack.lists}
        return self._stacks[key]

    def get(self, name: str, one: PooledBins) -> Array | None:
        """Return the cached statistics of a ranked list for the scene counts `name`. None if not cached."""
        entry = self._values.get((name, *_identity(one)))
        return None if entry is None else entry[1]

    def put(self, name: str, one: PooledBins, values: Array) -> None:
        """Cache the statistics of a ranked list. Keep the list alive, because its key uses object ids."""
        self._values[name, *_identity(one)] = (one, values)


def lists_of(bins: PooledBins) -> tuple[PooledBins, ...]:
    """Return the ranked lists over which a score is averaged: one or several.

    >>> one = PooledBins(("a",), ("i",), np.array([[3.0]]), np.array([[0, 0, 0, 4]]), "auc")
    >>> len(lists_of(one)), len(lists_of(replace(one, also=(one, one))))
    (1, 3)
    """
    return (replace(bins, also=()), *bins.also) if bins.also else (bins,)


def _identity(one: PooledBins) -> tuple[object, ...]:
    return one.statistic, id(one.positives), id(one.negatives)


def weighted_statistics(
    bins: PooledBins, scenes: Callable[[], SceneCounts], *, memo: PooledMemo | None = None, name: str = ""
) -> Array:
    """Compute a pooled score for each row of scene counts, (r,). Average over its ranked lists.

    A pair within one scene, positive or negative, has the weight of its scene. A negative pair between two
    scenes has the product of both weights. The weights are scaled so that the total numbers of positives and
    negatives stay constant, because their ratio is a property of the ranked list, not of the scenes.

    `scenes` is a function that returns the scene counts. It is called only if the memo has no result for
    `name`.
    """
    memo = PooledMemo() if memo is None else memo
    each = [_of_list(one, scenes, memo, name) for one in lists_of(bins)]
    return np.asarray(np.mean(each, axis=0)) if bins.also else each[0]


def _of_list(one: PooledBins, scenes: Callable[[], SceneCounts], memo: PooledMemo, name: str) -> Array:
    cached = memo.get(name, one)
    if cached is not None:
        return cached
    counts = scenes()
    stack = memo.stack(one, counts.strata)
    each = stack.each(counts, lambda own, p, q: binned_statistic(p, q, own.statistic))
    for own, values in zip(stack.lists, each, strict=True):
        memo.put(name, own, values)
    return next(v for own, v in zip(stack.lists, each, strict=True) if _identity(own) == _identity(one))


def pooled_influence(bins: PooledBins, strata: Ints, *, memo: PooledMemo | None = None) -> Array:
    """Compute the jackknife influence of each scene on a pooled score, (scenes,).

    u_s = (n_h - 1)/n_h (score - score without s), which is comparable to the influence of a scene on a mean.
    The weights of the other scenes of the stratum are increased to replace the omitted scene.
    """
    size = np.bincount(strata)
    share = (size[strata] - 1) / size[strata]

    def without() -> SceneCounts:
        n = len(strata)
        factors = np.ones((n, len(size)))
        factors[np.arange(n), strata] = size[strata] / np.maximum(size[strata] - 1, 1)
        return SceneCounts(np.ones((n, n)) - np.eye(n) * (size[strata] > 1), strata, factors)

    left = weighted_statistics(bins, without, memo=memo, name="without")
    return share * (pooled_statistic(bins, memo=memo) - left)


def pooled_slope(bins: PooledBins, *, memo: PooledMemo | None = None) -> Array:
    """Compute the derivative of a pooled score by the weight of each scene, (scenes,).

    The slope is half of the difference between the score with the scene counted twice and the score without
    the scene. `pooled_influence` only omits the scene, which overstates its effect if the scene is a large
    part of the ranked list. For a plain mean of n scenes the slope is about (x_s - mean)/n. It is 0 if there
    is no score without the scene.
    """
    n = len(bins.scenes)
    strata = strata_of(bins.kinds)

    def twice_and_never() -> SceneCounts:
        counts = np.concatenate([1 + np.eye(n), 1 - np.eye(n)])
        return SceneCounts(counts, strata, np.ones((2 * n, int(strata.max(initial=0)) + 1)))

    twice, never = np.split(weighted_statistics(bins, twice_and_never, memo=memo, name="twice"), 2)
    return np.nan_to_num((twice - never) / 2, nan=0.0)


def scene_shares(bins: PooledBins) -> Array:
    """Return the share of each scene in the ranked lists, (scenes,). The sum over scenes is 1.

    The share is the mean over several ranked lists. In a list, all positives together have weight one half,
    and so do all negatives. A pair between two scenes is divided between both.

    >>> rows = np.array([[0, 0, 0, 1], [0, 1, 0, 2]])
    >>> two = PooledBins(("a", "b"), ("i", "i"), np.array([[1.0], [3.0]]), rows, "ap")
    >>> scene_shares(two).round(4).tolist()
    [0.4583, 0.5417]
    """
    shares = []
    for one in lists_of(bins):
        positives = np.asarray(one.positives, dtype=np.float64).sum(axis=1)
        rows = np.asarray(one.negatives, dtype=np.int64).reshape(-1, 4)
        negatives = sum(np.bincount(rows[:, k], weights=rows[:, 3], minlength=len(positives)) for k in (0, 1))
        parts = [x / x.sum() for x in (positives, np.asarray(negatives)) if x.sum() > 0]
        even = np.full(len(positives), 1 / max(len(positives), 1))
        shares.append(np.mean(parts, axis=0) if parts else even)
    return np.asarray(np.mean(shares, axis=0))


def pooled_contributions(values: Array, slopes: Array, shares: Array, strata: Ints) -> Array:
    """Compute the contribution of each scene to k pooled scores, (scenes, k). The columns sum to the scores.

    The contribution of a scene is its share of the score plus the slope of the score. Slopes are centred
    within each kind of scenes. For n scenes of h kinds they are multiplied by sqrt((n - 1)/(n - h)), because
    the centre of each kind is estimated. Without the factor, tests on few scenes of two or three kinds
    reject too often.

    `values` (k,) are the scores, `slopes` (scenes, k) the `pooled_slope` of each score, and `shares`
    (scenes,) the `scene_shares`.

    >>> x = np.array([0.2, 0.4, 0.9]); slope = (x - x.mean())[:, None] / 3
    >>> parts = pooled_contributions(np.array([0.5]), slope, np.full(3, 1 / 3), np.zeros(3, dtype=int))
    >>> (3 * parts[:, 0]).round(4).tolist()
    [0.2, 0.4, 0.9]
    """
    moved = np.array(slopes, dtype=np.float64)
    kinds = stratum_members(strata)
    for member in kinds:
        moved[member] -= moved[member].mean(axis=0)
    n, k = len(strata), len(kinds)
    wider = np.sqrt((n - 1) / (n - k)) if n > k else 1.0
    return np.asarray(shares[:, None] * values + moved * wider)


def pooled_resampled(bins: PooledBins, samples: Resamples, *, memo: PooledMemo | None = None) -> Array:
    """Compute the pooled score of each resample of scenes, (r,)."""
    return weighted_statistics(bins, lambda: _scene_counts(samples), memo=memo, name="drawn")


def pooled_counts(bins: PooledBins, samples: Resamples) -> tuple[Array, Array]:
    """Count the positives and negatives of each resample by bin, (r, bins) each, in the first ranked list."""
    scenes = _scene_counts(samples)
    stack = PairStack.of([replace(bins, also=())], scenes.strata)
    (both,) = stack.each(scenes, lambda _, p, q: np.concatenate([p, q], axis=1))
    width = both.shape[1] // 2
    return both[:, :width], both[:, width:]


def _scene_counts(samples: Resamples) -> SceneCounts:
    r, n = len(samples.counts[0]), sum(len(m) for m in samples.members)
    counts, strata = np.empty((r, n)), np.empty(n, dtype=np.int64)
    for h, (member, own) in enumerate(zip(samples.members, samples.counts, strict=True)):
        counts[:, member], strata[member] = own, h
    return SceneCounts(counts, strata, np.tile(samples.factors, (r, 1)))
