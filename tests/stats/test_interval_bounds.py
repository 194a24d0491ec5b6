# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of a family of differences: they hold at once, and agree with the tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.stats.interval_bounds import (
    family_half_width,
    intervals_matching_tests,
    standard_error,
    wide_family_half_width,
)
from tiepoint.stats.paired import PairedResult, against, all_pairs, compare_pairs, compare_pairs_wide
from tiepoint.stats.resampling import make_scene_score
from tiepoint.stats.samples import MethodSample, sample_of_pooled, sample_of_scenes
from tiepoint.stats.sign_flip import sign_flip_family


def sample_of(x: np.ndarray, kinds: int = 2, resamples: int = 300) -> MethodSample:
    """Methods (columns) on scenes (rows)."""
    n = len(x)
    names, kind = tuple(f"s{k:03d}" for k in range(n)), tuple("iv"[k % kinds] for k in range(n))
    scores = [make_scene_score(SceneValues(names, kind, row[None])) for row in x.T]
    return sample_of_scenes(scores, resamples=resamples)


def pooled_bins(rng: np.random.Generator, n: int, nearer: float) -> PooledBins:
    pos = rng.poisson(30 * np.exp(-np.arange(20) / (8 - nearer)), (n, 20)).astype(float)
    pair = rng.integers(0, n, (n * 60, 2))
    rows = np.column_stack([pair, rng.integers(2, 20, len(pair)), np.ones(len(pair), dtype=int)])
    return PooledBins(
        tuple(f"s{k:03d}" for k in range(n)), tuple("iv"[k % 2] for k in range(n)), pos, rows, "ap"
    )


def check_agreement(found: PairedResult) -> tuple[int, int]:
    """0 is left out exactly where the pair is separated; how many are separated, and how many end at 0."""
    cut = 0
    for d, low, high, p in zip(found.difference, found.low, found.high, found.family.adjusted, strict=True):
        assert low <= d <= high
        ends = (low == 0 and d > 0) or (high == 0 and d < 0)
        assert (low > 0 or high < 0 or ends) == (p <= 0.05) or (ends and p > 0.05)
        cut += ends and p <= 0.05
        if p > 0.05:
            assert low <= 0 <= high
    return int((found.family.adjusted <= 0.05).sum()), cut


@pytest.mark.parametrize(("n", "seed"), [(7, 0), (8, 1), (20, 2), (44, 3)])
def test_intervals_leave_out_zero_exactly_where_the_test_separates(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = 0.5 + rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.05, (n, 6)) + np.linspace(0, 0.5 / np.sqrt(n), 6)
    found = compare_pairs(sample_of(x), all_pairs(6), flips=2000)
    apart, _ = check_agreement(found)
    assert 0 < apart < 15
    assert (found.high - found.low).sum() > 1.1 * (found.single_bounds[1] - found.single_bounds[0]).sum()


@pytest.mark.parametrize("n", [8, 42])
def test_intervals_of_pooled_scores_agree_too(n: int) -> None:
    rng = np.random.default_rng(n)
    bins = [pooled_bins(rng, n, nearer) for nearer in (0, 0.1, 3, 6, 6.1)]
    sample = sample_of_pooled(bins, resamples=200)
    found = compare_pairs(sample, all_pairs(5), flips=2000)
    apart, _ = check_agreement(found)
    assert 0 < apart < 10
    assert sample.contributions is not None
    assert sample.contributions.sum(axis=0) == pytest.approx(sample.value, abs=1e-9)


def test_few_scenes_separate_what_is_far_apart_with_a_p_they_can_have() -> None:
    rng = np.random.default_rng(5)
    bins = [pooled_bins(rng, 8, nearer) for nearer in (0, 1, 2, 3, 4, 5, 6)]
    found = compare_pairs(sample_of_pooled(bins), all_pairs(7))
    assert found.family.smallest_p == 1 / 128
    assert found.family.adjusted.min() == 1 / 128
    assert found.separated[5]  # the first and the last
    identical = compare_pairs(sample_of_pooled([bins[0], bins[0]]), all_pairs(2))
    assert identical.family.adjusted[0] == 1
    one = compare_pairs(sample_of_pooled([pooled_bins(rng, 1, 0), pooled_bins(rng, 1, 6)]), all_pairs(2))
    assert one.family.adjusted[0] == 1


def test_step_down_may_know_the_direction_and_no_least_size() -> None:
    low, high = intervals_matching_tests(
        np.array([1.0, -1.0, 1.0]), np.array([2.0, 2.0, 0.5]), np.array([True, True, False])
    )
    assert low.tolist() == [0.0, -3.0, 0.0]
    assert high.tolist() == [3.0, 0.0, 1.5]


def test_reach_of_one_pair_is_students_t_and_grows_with_the_family() -> None:
    x = np.random.default_rng(1).normal(0, 1, (12, 8))
    strata = np.zeros(12, dtype=np.int64)
    one = family_half_width(x, all_pairs(2), strata)
    assert one == pytest.approx(stats.t.ppf(0.975, 11), rel=0.05)
    families = [family_half_width(x, pairs, strata) for pairs in (against(0, 8), all_pairs(8))]
    assert one < families[0] < families[1]
    assert families[1] < stats.t.ppf(1 - 0.025 / 28, 11) * 1.05  # Bonferroni
    assert family_half_width(np.ones((12, 2)), all_pairs(2), strata) == 0


def test_intervals_hold_all_differences_at_once_where_those_of_the_test_would_not() -> None:
    rng = np.random.default_rng(2)
    n, effect = 20, 5.0 * np.arange(5)
    pairs, strata = all_pairs(5), (np.arange(n) % 2).astype(np.int64)
    true = effect[pairs[:, 0]] - effect[pairs[:, 1]]
    ours = theirs = 0
    for _ in range(200):
        x = (effect + rng.normal(0, 1, (n, 5))) / n
        gap = x[:, pairs[:, 0]] - x[:, pairs[:, 1]]
        t = np.abs(gap.sum(axis=0) - true) / standard_error(gap, strata)[0]
        ours += bool((t <= family_half_width(x, pairs, strata)).all())
        theirs += bool((t <= sign_flip_family(x, pairs, strata, flips=500).critical()).all())
    assert 0.92 <= ours / 200 <= 0.99
    assert theirs / 200 < 0.9


def test_many_methods_have_intervals_of_all_pairs() -> None:
    rng = np.random.default_rng(3)
    x = 0.5 + rng.normal(0, 0.05, (30, 12)) + np.linspace(0, 0.15, 12)
    sample = sample_of(x)
    wide = compare_pairs_wide(sample, np.arange(12), 11, flips=2000)
    apart, cut = check_agreement(wide.shown)
    assert 0 < apart < 11
    assert cut <= 2  # single-step: only what the two ways of finding a quantile differ by
    every = family_half_width(sample.influence, all_pairs(12), sample.strata)
    assert wide_family_half_width(sample.influence, sample.strata, flips=2000) == pytest.approx(
        every, rel=0.06
    )
    assert wide.above.sum() == wide.below.sum() > 0
