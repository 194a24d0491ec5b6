# SPDX-License-Identifier: BSD-3-Clause
"""Means over several pooled lists, and the work that scores on the same scenes share."""

from dataclasses import replace

import numpy as np
import pytest

from tiepoint.model.scores import PooledBins
from tiepoint.stats.intervals import pooled_interval
from tiepoint.stats.pooled import PooledMemo, pooled_statistic, weighted_statistics


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
    each = [weighted_statistics(b, counts) for b in (one, two)]
    assert weighted_statistics(both, counts) == pytest.approx(np.mean(each, axis=0), abs=1e-15)
    assert pooled_statistic(both) == pytest.approx((pooled_statistic(one) + pooled_statistic(two)) / 2)


def test_sharing_work_changes_no_bit():
    one, two = made(0), made(1)
    half = replace(one, positives=np.floor(one.positives / 2), statistic="ap")
    scores = [one, two, half, replace(one, statistic="fpr95"), replace(one, also=(two,))]
    memo = PooledMemo()
    for bins in scores:
        alone = pooled_interval(bins, resamples=400)
        assert pooled_interval(bins, resamples=400, memo=memo) == alone
    assert pooled_interval(scores[-1], resamples=400).low != pooled_interval(one, resamples=400).low


def test_the_interval_of_a_mean_is_no_wider_than_its_lists():
    one, two = made(0), made(1)
    width = [i.high - i.low for i in (pooled_interval(b, resamples=2000) for b in (one, two))]
    together = pooled_interval(replace(one, also=(two,)), resamples=2000)
    assert 0 < together.high - together.low <= max(width)
