# SPDX-License-Identifier: BSD-3-Clause
"""Pooled scores (one list over all scenes) from counts by scene and distance bin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..model.errors import UnknownNameError
from ..model.scores import PooledBins
from .pair_groups import pair_groups
from .resample import Resamples

Array = NDArray[np.float64]
STATISTICS = ("ap", "auc", "fpr95")
_BLOCK = 512


def binned_statistic(positives: Array, negatives: Array, statistic: str) -> Array:
    """AP, AUC or FPR at 95 % recall of lists given by their counts in bins of rising distance.

    Items of one bin are in random order (the expectation over orders, in the limit of many items):
    for `ap`, a bin with p positives and n negatives behind P and N adds the integral over u in 0…1 of
    p (P + p u) / (P + N + (p + n) u) to the sum that is divided by all positives;
    `auc` counts half of the pairs within a bin; `fpr95` is interpolated linearly within its bin.

    Args:
        positives: (r, bins), counts or weights.
        negatives: (r, bins).
        statistic: `ap`, `auc` or `fpr95`.

    Returns:
        (r,); NaN where a list has no positives or (auc, fpr95) no negatives.

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
    # With nothing before, the precision within the bin is its share of positives throughout.
    inside = slope + np.where(items > 0, (before_p - slope * before) * log_term, 0.0)
    total = positives.sum(axis=1)
    return np.where(total > 0, (positives * inside).sum(axis=1) / total, np.nan)


def pooled_statistic(bins: PooledBins, *, memo: PooledMemo | None = None) -> float:
    """The score as the bins give it; it differs from the exact one by what binning loses.

    >>> bins = PooledBins(("a",), ("i",), np.array([[3.0, 1.0]]), np.array([[0, 0, 1, 4]]), "auc")
    >>> pooled_statistic(bins)
    0.875
    """
    return float(weighted_statistics(bins, np.ones((1, len(bins.scenes))), memo=memo, name="whole")[0])


class PooledMemo:
    """What scores on the same scenes share: resampled negatives of a list, and the statistics of a list.

    AUC, AP and FPR95 of a list have the same negatives, and the mean over lists the statistics of each. Use
    one memo for scores with the same seed and number of resamples only.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[object, ...], list[Array]] = {}
        self._kept: list[object] = []

    def key(self, name: str, *arrays: Array | NDArray[np.int64], more: str = "") -> tuple[object, ...]:
        """Key by identity of arrays, which are kept alive so that identities stay theirs."""
        self._kept += arrays
        return (name, more, *(id(a) for a in arrays))


def weighted_statistics(
    bins: PooledBins,
    counts: Array,
    strata: NDArray[np.int64] | None = None,
    factors: Array | None = None,
    *,
    memo: PooledMemo | None = None,
    name: str = "",
) -> Array:
    """The score for each row of scene counts, (r,).

    A positive pair carries the weight of its scene. A negative pair within a scene carries that weight
    too; one between two scenes carries the product of both, because it is there only as often as both
    are. The proportion of positives to negatives is a choice of the list, not of the scenes, so both
    totals are kept as they were.

    Args:
        bins: counts by scene and bin.
        counts: how often each scene is there, whole numbers (r, scenes).
        strata: (scenes,); one stratum if absent.
        factors: what the counts of each stratum are multiplied by to be weights, (r, strata); 1 if absent.
        memo: where scores on the same scenes share what they have in common.
        name: of these counts, in the memo.

    Of several lists it is the mean.
    """
    if bins.also:
        lists = (replace(bins, also=()), *bins.also)
        each = [weighted_statistics(one, counts, strata, factors, memo=memo, name=name) for one in lists]
        return np.asarray(np.mean(each, axis=0))
    memo = PooledMemo() if memo is None else memo
    key = memo.key(name, bins.positives, bins.negatives, more=bins.statistic)
    if key not in memo.found:
        parts = _weighted_counts(bins, counts, strata, factors, memo, name)
        memo.found[key] = [binned_statistic(p, q, bins.statistic) for p, q in parts]
    return np.concatenate([np.empty(0), *memo.found[key]])


def _weighted_counts(
    bins: PooledBins,
    counts: Array,
    strata: NDArray[np.int64] | None,
    factors: Array | None,
    memo: PooledMemo,
    name: str = "",
) -> Iterator[tuple[Array, Array]]:
    """Positives and negatives by bin for blocks of rows of scene counts, each (rows, bins)."""
    n = len(bins.scenes)
    strata = np.zeros(n, dtype=np.int64) if strata is None else strata
    factors = np.ones((len(counts), int(strata.max(initial=0)) + 1)) if factors is None else factors
    positives = np.asarray(bins.positives, dtype=np.float64).T
    key = memo.key(name, bins.negatives)
    known = memo.found.get(key)
    groups = [] if known is not None else pair_groups(bins, strata)
    total = sum(g.total for g in groups)
    made: list[Array] = []
    for number, start in enumerate(range(0, len(counts), _BLOCK)):
        part = slice(start, start + _BLOCK)
        c = np.ascontiguousarray(counts[part].T, dtype=np.float32)
        f = factors[part].T
        p = np.zeros((len(positives), c.shape[1]))
        for h in range(len(f)):
            p += f[h] * (positives[:, strata == h] @ c[strata == h].astype(np.float64))
        if known is None:
            q = np.zeros_like(p)
            for g in groups:
                q += g.factor(f) * g.product(c)
            made.append(_kept_total(q, total))
        yield _kept_total(p, float(positives.sum())), made[-1] if known is None else known[number]
    memo.found.setdefault(key, made)


def pooled_influence(bins: PooledBins, strata: NDArray[np.int64], *, memo: PooledMemo | None = None) -> Array:
    """Influence of each scene on a pooled score by leaving it out, (scenes,).

    u_s = (n_h - 1)/n_h (score - score without s), comparable with the influence of a scene mean; the other
    scenes of the stratum stand in for the one left out.
    """
    n = len(strata)
    size = np.bincount(strata)
    counts = np.ones((n, n)) - np.eye(n) * (size[strata] > 1)
    factors = np.ones((n, len(size)))
    factors[np.arange(n), strata] = size[strata] / np.maximum(size[strata] - 1, 1)
    share = (size[strata] - 1) / size[strata]
    without = weighted_statistics(bins, counts, strata, factors, memo=memo, name="without")
    return share * (pooled_statistic(bins, memo=memo) - without)


def pooled_resampled(bins: PooledBins, draws: Resamples, *, memo: PooledMemo | None = None) -> Array:
    """The pooled score of each resample of scenes, (r,)."""
    return weighted_statistics(bins, *_drawn(bins, draws), memo=memo, name="drawn")


def pooled_counts(bins: PooledBins, draws: Resamples) -> tuple[Array, Array]:
    """Positives and negatives by bin of each resample of scenes, (r, bins) each; of the first list alone."""
    parts = list(_weighted_counts(replace(bins, also=()), *_drawn(bins, draws), PooledMemo()))
    return np.concatenate([p for p, _ in parts]), np.concatenate([q for _, q in parts])


def _drawn(bins: PooledBins, draws: Resamples) -> tuple[Array, NDArray[np.int64], Array]:
    r, n = len(draws.counts[0]), len(bins.scenes)
    counts, strata = np.empty((r, n)), np.empty(n, dtype=np.int64)
    for h, (member, drawn) in enumerate(zip(draws.members, draws.counts, strict=True)):
        counts[:, member], strata[member] = drawn, h
    return counts, strata, np.tile(draws.factors, (r, 1))


def _kept_total(counts: Array, total: float) -> Array:
    """Counts (bins, r) with every list brought back to the total it had, as (r, bins)."""
    counts = np.ascontiguousarray(counts.T)
    now = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(now > 0, counts * (total / now), 0.0)
