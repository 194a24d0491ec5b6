# SPDX-License-Identifier: BSD-3-Clause
"""Pooled scores (one list over all scenes) from counts by scene and distance bin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.errors import InputError, UnknownNameError
from ..model.scores import PooledBins
from .resample import Resamples, grid

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


def pooled_statistic(bins: PooledBins) -> float:
    """The score as the bins give it; it differs from the exact one by what binning loses.

    >>> bins = PooledBins(("a",), ("i",), np.array([[3.0, 1.0]]), np.array([[0, 0, 1, 4]]), "auc")
    >>> pooled_statistic(bins)
    0.875
    """
    one = np.ones((1, len(bins.scenes)))
    return float(weighted_statistics(bins, one)[0])


def weighted_statistics(bins: PooledBins, weights: Array) -> Array:
    """The score for each row of scene weights, (r,).

    A positive pair carries the weight of its scene. A negative pair within a scene carries that weight
    too; one between two scenes carries the product of both, because it is there only as often as both
    are. The proportion of positives to negatives is a choice of the list, not of the scenes, so both
    totals are kept as they were.

    Args:
        bins: counts.
        weights: (r, scenes).
    """
    positives = np.asarray(bins.positives, dtype=np.float64).T
    first, second, counts = _pair_counts(bins)
    within = first == second
    # Rounded weights make every sum of weighted counts exact, whatever the threads and blocks.
    top = max(float(np.max(weights, initial=1.0)), 1.0)
    step = grid(top * top * max(positives.sum(), counts.sum(), 1.0))
    out = np.empty(len(weights))
    for start in range(0, len(weights), _BLOCK):
        w = np.ascontiguousarray(weights[start : start + _BLOCK].T)
        joint = w[first]
        joint[~within] *= w[second[~within]]
        out[start : start + w.shape[1]] = binned_statistic(
            _kept_total(positives @ (np.rint(w * step) / step), positives.sum()),
            _kept_total(counts @ (np.rint(joint * step) / step), counts.sum()),
            bins.statistic,
        )
    return out


def _kept_total(counts: Array, total: Any) -> Array:
    """Counts (bins, r) with every list brought back to the total it had, as (r, bins)."""
    counts = np.ascontiguousarray(counts.T)
    now = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(now > 0, counts * (total / now), 0.0)


def _pair_counts(bins: PooledBins) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Distinct pairs of scenes, first (p,), second (p,), and their counts by bin (bins, p)."""
    n, width = np.asarray(bins.positives).shape
    rows = np.asarray(bins.negatives, dtype=np.int64).reshape(-1, 4)
    if n != len(bins.scenes) or len(bins.kinds) != n:
        raise InputError(
            f"pooled bins: {len(bins.scenes)} scenes, {len(bins.kinds)} kinds, {n} rows of positives"
        )
    if len(rows) and (rows.min() < 0 or rows[:, :2].max() >= n or rows[:, 2].max() >= width):
        raise InputError(
            f"pooled bins: negatives name a scene outside 0…{n - 1} or a bin outside 0…{width - 1}"
        )
    low, high = rows[:, :2].min(axis=1), rows[:, :2].max(axis=1)
    code, pair = np.unique(low * n + high, return_inverse=True)
    counts = np.bincount(pair * width + rows[:, 2], weights=rows[:, 3], minlength=len(code) * width)
    by_bin: Array = np.ascontiguousarray(counts.astype(np.float64).reshape(len(code), width).T)
    return code // n, code % n, by_bin


def pooled_influence(bins: PooledBins, strata: NDArray[np.int64]) -> Array:
    """Influence of each scene on a pooled score by leaving it out, (scenes,).

    u_s = (n_h - 1)/n_h (score - score without s), comparable with the influence of a scene mean.
    """
    n = len(strata)
    size = np.bincount(strata)[strata]
    # The other scenes of the stratum stand in for the one left out.
    weights = np.ones((n, n))
    for s in range(n):
        same = strata == strata[s]
        weights[s, same] = size[s] / max(size[s] - 1, 1)
        weights[s, s] = 0.0 if size[s] > 1 else 1.0
    return (size - 1) / size * (pooled_statistic(bins) - weighted_statistics(bins, weights))


def pooled_resampled(bins: PooledBins, draws: Resamples) -> Array:
    """The pooled score of each resample of scenes, (r,)."""
    return weighted_statistics(bins, draws.weights())
