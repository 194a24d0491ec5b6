# SPDX-License-Identifier: BSD-3-Clause
"""Means over several pooled lists, and the work that scores on the same scenes share."""

from dataclasses import replace

import numpy as np
import pytest

from tiepoint.core.scores import PooledBins
from tiepoint.stats import pooled_pairs
from tiepoint.stats.intervals import pooled_interval
from tiepoint.stats.pooled import PooledMemo, pooled_statistic, weighted_statistics
from tiepoint.stats.pooled_pairs import PairStack, SceneCounts
from tiepoint.stats.resampling import strata_of


def made(seed, scenes=44, bins=9):
    rng = np.random.default_rng(seed)
    positives = rng.integers(0, 40, (scenes, bins)) * np.arange(bins, 0, -1)
    pairs = [
        (a, b, k, int(rng.integers(1, 30)))
        for a in range(scenes)
        for b in (a, (a + 3) % scenes)
        for k in range(bins)
    ]
    names = tuple(f"{'iv'[i % 2]}_{i}" for i in range(scenes))
    kinds = tuple(n[0] for n in names)
    return PooledBins(names, kinds, positives.astype(float), np.array(pairs), "auc")


def test_the_mean_over_lists_is_the_mean_for_every_weighting():
    one, two = made(0), made(1)
    both = replace(one, also=(two,))
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 3, (5, len(one.scenes))).astype(float)
    scenes = SceneCounts(counts, np.zeros(len(one.scenes), int), np.ones((5, 1)))
    each = [weighted_statistics(b, lambda: scenes) for b in (one, two)]
    assert weighted_statistics(both, lambda: scenes) == pytest.approx(np.mean(each, axis=0), abs=1e-15)
    assert pooled_statistic(both) == pytest.approx((pooled_statistic(one) + pooled_statistic(two)) / 2)


def test_sharing_work_changes_no_bit():
    one, two = made(0), made(1)
    half = replace(one, positives=np.floor(one.positives / 2), statistic="ap")
    scores = [one, two, half, replace(one, statistic="fpr95"), replace(one, also=(two,))]
    memo, told = PooledMemo(), PooledMemo(scores)
    for bins in scores:
        alone = pooled_interval(bins, resamples=400)
        assert pooled_interval(bins, resamples=400, memo=memo) == alone
        assert pooled_interval(bins, resamples=400, memo=told) == alone
    assert pooled_interval(scores[-1], resamples=400).low != pooled_interval(one, resamples=400).low


def plain_counts(bins, weights, factors):
    """Positives and negatives by bin of one choice of scenes, pair by pair."""
    width = bins.positives.shape[1]
    kind = {k: h for h, k in enumerate(sorted(set(bins.kinds)))}
    of = [factors[kind[k]] for k in bins.kinds]
    near = [0.0] * width
    for weight, factor, row in zip(weights, of, bins.positives.tolist(), strict=True):
        near = [total + weight * factor * count for total, count in zip(near, row, strict=True)]
    far = [0.0] * width
    for a, b, place, count in bins.negatives.tolist():
        far[place] += count * weights[a] * of[a] * (1 if a == b else weights[b] * of[b])
    return near, far


def test_stacked_lists_have_the_counts_of_each_alone(monkeypatch):
    """Lists of other pairs stay apart, tables may be shared, and neither blocks nor threads matter."""
    one, two = made(0), made(1)
    other = replace(two, negatives=two.negatives[9:])
    small = replace(one, positives=one.positives[:, :9] // 2)
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, (7, len(one.scenes))).astype(float)
    factors = np.tile([1.25, 1.5], (7, 1))
    scenes = SceneCounts(counts, strata_of(one.kinds), factors)
    stack = PairStack.of([one, two, other, small], scenes.strata)
    assert [b is c for b, c in zip(stack.lists, (one, two, small), strict=True)] == [True] * 3
    for many, block in ((1 << 60, 512), (0, 2)):
        monkeypatch.setattr(pooled_pairs, "_MIN_THREADED_OPS", many)
        monkeypatch.setattr(pooled_pairs, "_BLOCK", block)
        found = stack.each(scenes, lambda _, p, q: np.stack([p, q], axis=1))
        for bins, both in zip(stack.lists, found, strict=True):
            totals = bins.positives.sum(), bins.negatives[:, 3].sum()
            for r in range(7):
                own = plain_counts(bins, counts[r], factors[r])
                for got, plain, total in zip(both[r], own, totals, strict=True):
                    assert got == pytest.approx(np.array(plain) * total / sum(plain), rel=1e-12)


def test_the_interval_of_a_mean_is_no_wider_than_its_lists():
    one, two = made(0), made(1)
    width = [i.high - i.low for i in (pooled_interval(b, resamples=2000) for b in (one, two))]
    together = pooled_interval(replace(one, also=(two,)), resamples=2000)
    assert 0 < together.high - together.low <= max(width)
