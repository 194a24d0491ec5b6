# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from tiepoint.core.errors import InputError
from tiepoint.metrics import fpr_at_recall, roc_auc
from tiepoint.metrics.ranking.roc import needed_positives

sys.path.insert(0, str(Path(__file__).parent))
from ranking_oracle import auc_of_order, fpr_of_order, mean_over_orders, stable_labels

D8 = [0.1, 0.2, 0.2, 0.4, 0.5, 0.5, 0.7, 0.9]
Y8 = [1, 0, 1, 1, 0, 1, 0, 0]

finite = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=7)
with_inf = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0, np.inf]), st.booleans()), min_size=2, max_size=7
)


def split(items):
    return [float(i[0]) for i in items], [int(i[1]) for i in items]


def test_golden():
    assert roc_auc(D8, Y8, ties="file") == pytest.approx(0.75)
    assert roc_auc(D8, Y8, ties="pessimistic") == pytest.approx(0.75)
    assert roc_auc(D8, Y8, ties="optimistic") == pytest.approx(0.875)
    assert roc_auc(D8, Y8) == pytest.approx(0.8125)
    for ranks, value in [((1, 2, 3, 4, 10), 0.9913043478), ((2, 5, 9, 40, 100), 0.7547826087)]:
        y = np.isin(np.arange(1, 121), ranks)
        assert roc_auc(np.arange(120.0), y) == pytest.approx(value, abs=5e-11)


@pytest.mark.parametrize("levels", [3, 50, 10**9])
def test_expected_is_mann_whitney(levels):
    rng = np.random.default_rng(levels)
    d, y = rng.integers(0, levels, 2000).astype(float), rng.random(2000) < 0.3
    assert roc_auc(d, y) == pytest.approx(roc_auc_score(y, -d), abs=1e-12)
    assert roc_auc(d, y, ties="group") == roc_auc(d, y)
    u = mannwhitneyu(-d[y], -d[~y]).statistic
    assert roc_auc(d, y) == pytest.approx(u / (y.sum() * (~y).sum()), abs=1e-12)


@settings(deadline=None, max_examples=120)
@given(with_inf, st.sampled_from([0.3, 0.5, 0.95, 1.0]))
def test_closed_forms_equal_enumeration(items, recall):
    d, y = split(items)
    p, n = sum(y), len(y) - sum(y)
    if not p or not n:
        assert np.isnan(roc_auc(d, y))
        assert np.isnan(fpr_at_recall(d, y))
        return
    stop = mean_over_orders(d, y, lambda o: auc_of_order(o, p, n))
    assert roc_auc(d, y, unretrieved="stop") == pytest.approx(stop, abs=1e-12)
    found = sum(v for x, v in zip(d, y, strict=True) if x < np.inf)
    rejected = sum(1 - v for x, v in zip(d, y, strict=True) if x == np.inf)
    assert roc_auc(d, y) == pytest.approx(stop + found * rejected / (p * n), abs=1e-12)
    rate = mean_over_orders(d, y, lambda o: fpr_of_order(o, p, n, recall))
    assert fpr_at_recall(d, y, recall=recall) == pytest.approx(rate, abs=1e-12)
    plain = stable_labels(d, y)
    assert roc_auc(d, y, ties="file", unretrieved="stop") == pytest.approx(
        auc_of_order(plain, p, n), abs=1e-12
    )
    rate = fpr_of_order(plain, p, n, recall)
    assert fpr_at_recall(d, y, recall=recall, ties="file") == pytest.approx(rate, abs=1e-12)


@settings(deadline=None, max_examples=80)
@given(finite, st.randoms(use_true_random=False))
def test_bounds_and_permutation(items, random):
    d, y = map(np.array, split(items))
    if y.all() or not y.any():
        return
    area = {t: roc_auc(d, y, ties=t) for t in ("optimistic", "expected", "pessimistic")}
    assert area["optimistic"] >= area["expected"] >= area["pessimistic"]
    rate = {t: fpr_at_recall(d, y, ties=t) for t in ("optimistic", "expected", "pessimistic", "group")}
    assert rate["optimistic"] <= rate["expected"] <= rate["pessimistic"] == rate["group"]
    order = list(range(len(d)))
    random.shuffle(order)
    assert roc_auc(d[order], y[order]) == pytest.approx(area["expected"], abs=1e-15)


def test_infinite_distances():
    assert roc_auc([1, np.inf, np.inf], [1, 1, 0]) == 0.5
    assert roc_auc([1, np.inf, np.inf], [1, 1, 0], unretrieved="stop") == 0.0
    assert fpr_at_recall([1, np.inf, 2], [1, 1, 0]) == 1.0


def test_constant_is_chance():
    y = np.r_[np.ones(50), np.zeros(200)]
    assert roc_auc(np.zeros(250), y) == 0.5
    assert fpr_at_recall(np.zeros(250), y) == pytest.approx(48 / 51)
    assert roc_auc(np.zeros(250), y, ties="file") == 1.0


def test_needed_positives_reads_the_curve():
    for p in range(1, 200):
        for recall in (0.29, 0.5, 0.95, 1.0):
            t = needed_positives(p, recall)
            assert t / p >= recall > (t - 1) / p


def test_errors():
    with pytest.raises(InputError, match="extend or stop"):
        roc_auc([1, 2], [1, 0], unretrieved="drop")
    with pytest.raises(InputError, match="recall must be"):
        fpr_at_recall([1, 2], [1, 0], recall=0)
    with pytest.raises(InputError, match="labels of 0 or 1"):
        roc_auc([1, 2], [0.5, 0])
