# SPDX-License-Identifier: BSD-3-Clause
"""Sign-flip tests: agreement with SciPy, uniform p-values, families, power."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from tiepoint.core.errors import InputError
from tiepoint.stats.interval_bounds import standard_error
from tiepoint.stats.multiplicity import benjamini_hochberg
from tiepoint.stats.paired import against, all_pairs, smallest_resolvable
from tiepoint.stats.sign_flip import sign_blocks, sign_flip_family

ONE = np.array([[0, 1]])


def single(d: np.ndarray, strata: np.ndarray | None = None, **options: int) -> float:
    """P-value of differences that add up to their mean, against zero."""
    both = np.column_stack([d, np.zeros(len(d))]) / len(d)
    strata = np.zeros(len(d), dtype=np.int64) if strata is None else strata
    return float(sign_flip_family(both, ONE, strata, **options).p[0])


def test_exact_test_is_scipys_permutation_test_of_t() -> None:
    d = np.array([0.4, -0.1, 0.35, 0.2, 0.5, -0.05, 0.3, 0.15])

    def t(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        z = x - y
        return np.abs(z.mean(axis=axis) / z.std(ddof=1, axis=axis))

    theirs = stats.permutation_test(
        (d, np.zeros(8)), t, permutation_type="samples", alternative="greater", vectorized=True
    )
    assert single(d) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_statistic_is_students_t() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 30)
    family = sign_flip_family(np.column_stack([d, 0 * d]) / 30, ONE, np.zeros(30, dtype=np.int64))
    assert family.statistic[0] == pytest.approx(abs(stats.ttest_1samp(d, 0).statistic))


def test_random_flips_approach_the_t_test_on_normal_data() -> None:
    for seed, shift in enumerate((0.1, 0.2, 0.35)):
        d = np.random.default_rng(seed).normal(shift, 1, 60)
        assert single(d) == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=0.01)


@pytest.mark.parametrize(("n", "flips"), [(12, 100_000), (40, 4000)])
def test_p_values_are_uniform_without_a_difference(
    population: dict[str, np.ndarray], n: int, flips: int
) -> None:
    rng = np.random.default_rng(n)
    real = population["SOSNet"] - population["hardnet+"]
    k = 1500
    d = rng.choice(real, (n, k)) * rng.choice([-1.0, 1.0], (n, k))
    strata = (np.arange(n) % 2).astype(np.int64)
    family = sign_flip_family(np.column_stack([d, np.zeros(n)]), against(k, k + 1), strata, flips=flips)
    assert stats.kstest(family.p, "uniform").pvalue > 0.01
    assert 0.037 < (family.p <= 0.05).mean() < 0.063


def test_skewed_differences_of_mean_zero_keep_the_level() -> None:
    rng = np.random.default_rng(2)
    n, k = 40, 1500
    d = rng.exponential(1, (n, k)) - 1
    family = sign_flip_family(
        np.column_stack([d, np.zeros(n)]), against(k, k + 1), np.zeros(n, dtype=np.int64), flips=3000
    )
    assert 0.03 < (family.p <= 0.05).mean() < 0.08


def test_all_patterns_once_with_the_data_first() -> None:
    signs = np.concatenate(list(sign_blocks(10, 1000, 0)), axis=1)
    assert signs.shape == (10, 512)
    assert (signs[:, 0] == 1).all()
    assert (signs[0] == 1).all()
    assert len({tuple(column) for column in signs.T}) == 512


def test_random_patterns_start_with_the_data_and_are_balanced() -> None:
    signs = np.concatenate(list(sign_blocks(30, 20000, 4)), axis=1)
    assert signs.shape == (30, 20001)
    assert (signs[:, 0] == 1).all()
    assert np.abs(signs[:, 1:].mean(axis=1)).max() < 0.04
    again = np.concatenate(list(sign_blocks(30, 20000, 4)), axis=1)
    assert (signs == again).all()


def plain_family(y: np.ndarray, pairs: list[tuple[int, int]], strata: np.ndarray) -> tuple[list, list]:
    """Raw and step-down p-values by enumeration of all patterns, in plain loops."""
    n = len(y)

    def t(signs: tuple[int, ...], a: int, b: int) -> float:
        d = [s * (y[i, a] - y[i, b]) for i, s in enumerate(signs)]
        variance = 0.0
        for h in set(strata.tolist()):
            part = [d[i] for i in range(n) if strata[i] == h]
            m = sum(part) / len(part)
            variance += len(part) / (len(part) - 1) * sum((x - m) ** 2 for x in part)
        return abs(sum(d)) / variance**0.5

    patterns = list(product((1, -1), repeat=n))
    observed = [t((1,) * n, a, b) for a, b in pairs]
    null = [[t(s, a, b) for a, b in pairs] for s in patterns]
    order = sorted(range(len(pairs)), key=lambda k: -observed[k])
    raw = [sum(row[k] >= observed[k] - 1e-9 for row in null) / len(null) for k in range(len(pairs))]
    adjusted, running = [0.0] * len(pairs), 0.0
    for place, k in enumerate(order):
        hits = sum(max(row[j] for j in order[place:]) >= observed[k] - 1e-9 for row in null)
        running = max(running, hits / len(null))
        adjusted[k] = running
    return raw, adjusted


def test_family_equals_plain_enumeration() -> None:
    rng = np.random.default_rng(7)
    y = rng.random((8, 4)) + np.array([0.0, 0.05, 0.3, 0.6])
    strata = np.array([0, 1, 0, 1, 0, 1, 1, 0])
    pairs = all_pairs(4)
    family = sign_flip_family(y, pairs, strata)
    raw, adjusted = plain_family(y, [tuple(p) for p in pairs.tolist()], strata)
    assert family.exact
    assert family.p == pytest.approx(raw, abs=1e-12)
    assert family.adjusted == pytest.approx(adjusted, abs=1e-12)
    assert (family.adjusted >= family.p).all()


def test_family_wise_errors_stay_at_five_percent_beside_true_differences() -> None:
    rng = np.random.default_rng(9)
    pairs = all_pairs(5)
    null = [k for k, (a, b) in enumerate(pairs.tolist()) if a < 4 and b < 4]
    wrong = found = 0
    for _ in range(400):
        y = rng.normal(0, 1, (11, 5)) + rng.normal(0, 3, (11, 1))
        y[:, 4] += 3.0
        family = sign_flip_family(y, pairs, np.zeros(11, dtype=np.int64))
        wrong += bool((family.adjusted[null] <= 0.05).any())
        found += int((np.delete(family.adjusted, null) <= 0.05).sum())
    assert wrong / 400 < 0.075
    assert found / 1600 > 0.85


def test_a_planted_difference_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(12)
    n, k = 40, 600
    noise = rng.normal(0, 1, (n, k))
    se = 1 / np.sqrt(n)
    planted = smallest_resolvable(se, n - 1, power=0.8)
    family = sign_flip_family(
        np.column_stack([noise + planted, np.zeros(n)]),
        against(k, k + 1),
        np.zeros(n, dtype=np.int64),
        flips=4000,
    )
    assert 0.75 < (family.p <= 0.05).mean() < 0.85


def test_critical_value_of_one_comparison_is_that_of_t() -> None:
    d = np.random.default_rng(1).normal(0, 1, 60)
    family = sign_flip_family(np.column_stack([d, 0 * d]), ONE, np.zeros(60, dtype=np.int64))
    assert family.critical(0.95) == pytest.approx(stats.t.ppf(0.975, 59), rel=0.02)


def test_no_difference_anywhere_is_p_one() -> None:
    y = np.tile(np.linspace(0, 1, 9)[:, None], (1, 2))
    assert sign_flip_family(y, ONE, np.zeros(9, dtype=np.int64)).p[0] == 1


def test_the_same_difference_everywhere_reaches_the_smallest_p() -> None:
    assert single(np.full(9, 0.1)) == 2**-8
    assert single(np.full(30, 0.1), flips=500) == 1 / 501


def test_same_bits_whatever_the_order_of_methods() -> None:
    y = np.random.default_rng(3).random((50, 6))
    strata = (np.arange(50) % 2).astype(np.int64)
    pairs = all_pairs(6)
    order = np.array([3, 1, 5, 0, 2, 4])
    a = sign_flip_family(y, pairs, strata, flips=2000, seed=1)
    b = sign_flip_family(y[:, order], np.argsort(order)[pairs], strata, flips=2000, seed=1)
    assert (a.adjusted == b.adjusted).all()
    assert (a.p == b.p).all()


def test_no_scenes_is_an_error() -> None:
    with pytest.raises(InputError, match="no scene"):
        sign_flip_family(np.zeros((0, 2)), ONE, np.zeros(0, dtype=np.int64))


def test_exploratory_adjustment_agrees_with_scipy() -> None:
    p = np.array([0.001, 0.04, 0.03, 0.2, 0.011, 0.5])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


def test_sign_flip_and_t_use_the_same_standard_error() -> None:
    d = np.random.default_rng(5).random(20)
    strata = (np.arange(20) % 2).astype(np.int64)
    t = sign_flip_family(np.column_stack([d, 0 * d]), ONE, strata).statistic[0]
    assert t == pytest.approx(d.sum() / standard_error(d[:, None], strata)[0][0])
