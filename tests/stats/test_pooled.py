# SPDX-License-Identifier: BSD-3-Clause
"""Pooled scores from bins: equal to lists written out, and scenes weighed as if they were repeated."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.core.scores import PooledBins
from tiepoint.stats.intervals import pooled_interval
from tiepoint.stats.pooled import (
    binned_statistic,
    pooled_influence,
    pooled_slope,
    pooled_statistic,
    scene_shares,
    weighted_statistics,
)
from tiepoint.stats.pooled_pairs import SceneCounts


def weighted(b, counts, strata=None, factors=None):
    """The score for rows of scene counts; one stratum and no factors where none are given."""
    strata = np.zeros(len(b.scenes), int) if strata is None else strata
    factors = np.ones((len(counts), strata.max() + 1)) if factors is None else factors
    return weighted_statistics(b, lambda: SceneCounts(counts, strata, factors))


def bins_of(seed: int, n: int = 5, width: int = 12, statistic: str = "auc", lines: int = 300) -> PooledBins:
    rng = np.random.default_rng(seed)
    pos = rng.poisson(6 * np.exp(-np.arange(width) / 3) + 0.2, (n, width)).astype(float)
    pairs = np.sort(rng.integers(0, n, (lines, 2)), axis=1)
    neg = np.column_stack([pairs, rng.integers(0, width, lines), rng.integers(1, 4, lines)])
    kinds = tuple("iv"[k % 2] for k in range(n))
    return PooledBins(tuple(f"s{k:03d}" for k in range(n)), kinds, pos, neg, statistic)


def written_out(b: PooledBins, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bins of all positives and negatives when scene s is there weights[s] times, by plain loops."""
    pos, neg = [], []
    for s, row in enumerate(b.positives):
        for k, count in enumerate(row):
            pos += [k] * int(count * weights[s])
    for s, t, k, count in b.negatives:
        times = weights[s] if s == t else weights[s] * weights[t]
        neg += [int(k)] * int(count * times)
    return np.array(pos), np.array(neg)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [2, 0, 1, 3, 1], [0, 0, 4, 1, 0]])
def test_auc_of_repeated_scenes_is_mann_whitney_of_the_list_written_out(weights: list[int]) -> None:
    b = bins_of(1)
    pos, neg = written_out(b, np.array(weights))
    labels = np.r_[np.ones(len(pos)), np.zeros(len(neg))]
    expected = roc_auc_score(labels, -np.r_[pos, neg])
    assert weighted(b, np.array([weights], dtype=float))[0] == pytest.approx(expected, abs=1e-9)


def test_fpr95_by_plain_counting() -> None:
    b = bins_of(2, statistic="fpr95")
    p, n = b.positives.sum(axis=0), np.zeros(12)
    for _, _, k, count in b.negatives:
        n[k] += count
    goal, seen, passed = 0.95 * p.sum(), 0.0, 0.0
    for k in range(12):
        if seen + p[k] >= goal:
            passed += (goal - seen) / p[k] * n[k]
            break
        seen, passed = seen + p[k], passed + n[k]
    assert pooled_statistic(b) == pytest.approx(passed / n.sum())


def test_ap_of_single_items_is_the_limit_of_many_orders() -> None:
    rng = np.random.default_rng(0)
    p, n = np.array([[4000.0, 2500.0, 6000.0]]), np.array([[1000.0, 7000.0, 9000.0]])
    order_mean = []
    for _ in range(30):
        labels = np.concatenate(
            [
                rng.permutation(np.r_[np.ones(int(a)), np.zeros(int(c))])
                for a, c in zip(p[0], n[0], strict=True)
            ]
        )
        hits = np.cumsum(labels)
        order_mean.append((hits / np.arange(1, len(labels) + 1))[labels == 1].mean())
    assert binned_statistic(p, n, "ap")[0] == pytest.approx(np.mean(order_mean), abs=0.0005)


def test_ap_extremes() -> None:
    one, none = np.array([[5.0, 0.0]]), np.array([[0.0, 5.0]])
    assert binned_statistic(one, none, "ap")[0] == 1
    mixed = np.array([[7.0, 0.0]])
    assert binned_statistic(mixed, 3 * mixed, "ap")[0] == pytest.approx(0.25)
    assert np.isnan(binned_statistic(np.zeros((1, 2)), none, "ap")[0])
    with pytest.raises(UnknownNameError, match="auc"):
        binned_statistic(one, none, "acu")


def test_scaling_all_weights_changes_nothing() -> None:
    for statistic in ("ap", "auc", "fpr95"):
        b = bins_of(3, statistic=statistic)
        both = weighted(b, np.array([[1.0] * 5, [3.0] * 5]))
        if statistic == "auc":
            continue
        # Pairs between scenes grow with the square, pairs within with the weight: only their mixture moves.
        within = bins_of(3, statistic=statistic)
        only = within.negatives[within.negatives[:, 0] == within.negatives[:, 1]]
        b = PooledBins(b.scenes, b.kinds, b.positives, only, statistic)
        both = weighted(b, np.array([[1.0] * 5, [3.0] * 5]))
        assert both[0] == pytest.approx(both[1], abs=1e-12)


def test_influence_of_a_scene_is_what_leaving_it_out_changes() -> None:
    b = bins_of(4, n=6)
    strata = np.zeros(6, dtype=np.int64)
    full = pooled_statistic(b)
    for s in range(6):
        pos, neg = written_out(b, np.where(np.arange(6) == s, 0, 1))
        labels = np.r_[np.ones(len(pos)), np.zeros(len(neg))]
        less = roc_auc_score(labels, -np.r_[pos, neg])
        # The rest is scaled up; only the mixture of pairs within and between scenes differs by that.
        assert pooled_influence(b, strata)[s] == pytest.approx(5 / 6 * (full - less), abs=2e-3)


def test_a_score_leans_on_a_scene_by_half_of_twice_against_never() -> None:
    b = bins_of(8, n=6)
    for s, slope in enumerate(pooled_slope(b)):
        found = []
        for times in (2, 0):
            pos, neg = written_out(b, np.where(np.arange(6) == s, times, 1))
            labels = np.r_[np.ones(len(pos)), np.zeros(len(neg))]
            found.append(roc_auc_score(labels, -np.r_[pos, neg]))
        assert slope == pytest.approx((found[0] - found[1]) / 2, abs=1e-9)


def test_shares_are_those_of_lines_and_sum_to_one() -> None:
    b = bins_of(8, n=6)
    shares = scene_shares(b)
    assert shares.sum() == pytest.approx(1)
    lines = sum(int(c) * (int(s == 2) + int(t == 2)) for s, t, _, c in b.negatives)
    own = b.positives[2].sum() / b.positives.sum() + lines / (2 * b.negatives[:, 3].sum())
    assert shares[2] == pytest.approx(own / 2)


def test_a_scene_without_which_there_is_no_score_leans_nowhere() -> None:
    b = bins_of(8, n=1, lines=30)
    assert pooled_slope(b).tolist() == [0.0]


def test_rules_by_number_of_scenes() -> None:
    kinds = [pooled_interval(bins_of(5, n=n), resamples=500).kind for n in (5, 6, 39, 40)]
    assert kinds == ["none", "t", "t", "bca"]


def test_interval_moves_with_the_exact_value_and_is_deterministic() -> None:
    b = bins_of(6, n=45)
    binned = pooled_statistic(b)
    a = pooled_interval(b, resamples=800)
    shifted = pooled_interval(b, value=binned + 0.001, resamples=800)
    assert a == pooled_interval(b, resamples=800)
    assert shifted.low == pytest.approx(a.low + 0.001)  # type: ignore[operator]
    assert a.low < binned < a.high  # type: ignore[operator]


def test_no_negatives_is_no_interval_with_a_reason() -> None:
    b = bins_of(6, n=10)
    i = pooled_interval(PooledBins(b.scenes, b.kinds, b.positives, np.zeros((0, 4), dtype=np.int64), "auc"))
    assert i.kind == "none"
    assert "no negatives" in str(i.note)


@pytest.mark.parametrize("line", [(0, 9, 1, 1), (0, 1, 99, 1), (-1, 0, 0, 1)])
def test_negatives_outside_the_table_are_an_error(line: tuple[int, ...]) -> None:
    b = bins_of(6)
    with pytest.raises(InputError, match="outside"):
        pooled_statistic(PooledBins(b.scenes, b.kinds, b.positives, np.array([line]), "auc"))


def test_counts_beyond_single_precision_are_exact_too() -> None:
    rng = np.random.default_rng(1)
    n = 6
    rows = np.array([[s, t, k, 9_000_001 + s] for s in range(n) for t in range(s, n) for k in range(3)])
    pos = rng.integers(1, 9, (n, 3)).astype(float)
    b = PooledBins(tuple("abcdef"), ("v",) * n, pos, rows, "auc")
    counts = rng.integers(0, 4, (5, n)).astype(float)
    neg = np.zeros((5, 3))
    for s, t, k, count in rows:
        neg[:, k] += count * (counts[:, s] if s == t else counts[:, s] * counts[:, t])
    assert weighted(b, counts) == pytest.approx(binned_statistic(counts @ pos, neg, "auc"), abs=1e-13)


def test_pairs_between_scenes_carry_both_factors_and_pairs_within_one() -> None:
    b = bins_of(9, n=4)
    strata, factors = np.array([0, 1, 0, 1]), np.array([[2.0, 1.5]])
    counts = np.array([[1.0, 2.0, 0.0, 1.0]])
    weight = counts[0] * factors[0][strata]
    pos, neg = weight @ b.positives, np.zeros(12)
    for s, t, k, count in b.negatives:
        neg[k] += count * (weight[s] if s == t else weight[s] * weight[t])
    assert weighted(b, counts, strata, factors) == pytest.approx(
        binned_statistic(pos[None], neg[None], "auc"), abs=1e-12
    )
