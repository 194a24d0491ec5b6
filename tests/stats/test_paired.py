# SPDX-License-Identifier: BSD-3-Clause
"""Paired differences: effect sizes, scenes won, intervals, pooled scores."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.scores import SceneValues
from tiepoint.stats.intervals import scene_interval
from tiepoint.stats.paired import all_pairs, compare_pairs, effect_size, smallest_resolvable, win_tie_loss
from tiepoint.stats.resampling import make_scene_score
from tiepoint.stats.samples import sample_of_pooled, sample_of_scenes


def test_effect_is_mean_over_deviation_and_does_not_grow_with_scenes() -> None:
    d = np.random.default_rng(0).normal(0.5, 1, 40)
    se = d.std(ddof=1) / np.sqrt(40)
    assert effect_size(d.mean(), se, 40) == pytest.approx(d.mean() / d.std(ddof=1))
    assert np.isnan(effect_size(0.1, 0.0, 40))


def test_resolvable_difference_shrinks_with_scenes_and_grows_with_the_family() -> None:
    assert smallest_resolvable(0.01, 100) < smallest_resolvable(0.02, 100)
    assert smallest_resolvable(0.01, 100) < smallest_resolvable(0.01, 100, critical=3.1)


def test_wins_ties_losses_leave_out_missing_scenes() -> None:
    a = np.array([0.5, 0.5, 0.5, 0.5, np.nan])
    b = np.array([0.4, 0.5 + 5e-10, 0.6, np.nan, 0.1])
    assert win_tie_loss(a, b) == (1, 1, 1)


def test_differences_have_the_interval_of_their_scene_differences() -> None:
    rng = np.random.default_rng(1)
    names = tuple(f"s{k:03d}" for k in range(50))
    a, b = rng.random((1, 50)), rng.random((1, 50))
    sample = sample_of_scenes([make_scene_score(SceneValues(names, ("v",) * 50, x)) for x in (a, b)])
    found = compare_pairs(sample, all_pairs(2), flips=500)
    alone = scene_interval(SceneValues(names, ("v",) * 50, a - b))
    low, high = found.single_bounds
    assert (low[0], high[0]) == pytest.approx((alone.low, alone.high), abs=1e-9)
    assert found.wins is not None
    assert found.wins[0].sum() == 50


@pytest.mark.parametrize("n", [12, 60])
def test_pooled_differences_are_separated_when_they_are_large(n: int) -> None:
    from tiepoint.core.scores import PooledBins

    rng = np.random.default_rng(n)

    def bins(shift: float) -> PooledBins:
        pos = rng.poisson(30 * np.exp(-np.arange(20) / (3 + shift)), (n, 20)).astype(float)
        pair = rng.integers(0, n, (n * 40, 2))
        rows = np.column_stack([pair, rng.integers(3, 20, len(pair)), np.ones(len(pair), dtype=int)])
        return PooledBins(tuple(f"s{k:03d}" for k in range(n)), ("v",) * n, pos, rows, "auc")

    sample = sample_of_pooled([bins(0), bins(0), bins(4)], resamples=1000)
    found = compare_pairs(sample, all_pairs(3))
    assert (found.family.adjusted <= 0.05).tolist() == [False, True, True]
    assert found.wins is None
    assert found.low[0] < 0 < found.high[0]
    assert found.low[1] > 0
