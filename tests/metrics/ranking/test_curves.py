# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import InputError
from tiepoint.metrics import average_precision, precision_recall_curve, roc_auc, roc_curve
from tiepoint.metrics.ranking.curves import precision_at_recall

RULES = ("expected", "group", "optimistic", "pessimistic", "file")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(RULES),
    st.sampled_from(["trec", "trapezoid"]),
    st.integers(3, 40),
    st.sampled_from([4, 30, 10**6]),
)
def test_thinning_keeps_the_area(seed, ties, flavour, points, levels):
    rng = np.random.default_rng(seed)
    y = rng.random(200) < 0.4
    y[:2] = True, False
    d = rng.integers(0, levels, 200) - levels * 0.3 * y
    d[rng.random(200) < 0.1] = np.inf
    pr = precision_recall_curve(d, y, flavour=flavour, ties=ties, max_points=points)
    assert pr.area == pytest.approx(average_precision(d, y, flavour=flavour, ties=ties), abs=1e-12)
    assert len(pr.x) == len(pr.y) <= points
    roc = roc_curve(d, y, ties=ties, max_points=points)
    assert roc.area == pytest.approx(roc_auc(d, y, ties=ties), abs=1e-12)
    assert len(roc.x) == len(roc.y) <= points + 1
    for axis in (pr.x, roc.x, roc.y):
        assert (np.diff(axis) >= -1e-15).all()
    assert (roc.x[0], roc.y[0], roc.x[-1]) == (0.0, 0.0, 1.0)


def test_long_list_is_thinned():
    rng = np.random.default_rng(0)
    y = rng.random(100_000) < 0.2
    d = rng.normal(size=100_000) - y
    roc, pr = roc_curve(d, y), precision_recall_curve(d, y)
    assert len(roc.x) <= 1001
    assert len(pr.x) <= 1000
    assert roc.area == pytest.approx(roc_auc(d, y), abs=1e-12)
    assert pr.area == pytest.approx(average_precision(d, y), abs=1e-12)


def test_empty_classes_give_no_curve():
    assert np.isnan(roc_curve([1, 2], [1, 1]).y).all()
    assert np.isnan(precision_recall_curve([1, 2], [0, 0]).y).all()
    with pytest.raises(InputError, match="at least 3 points"):
        roc_curve([1, 2], [1, 0], max_points=2)


def walked(distances: np.ndarray, right: np.ndarray, recall: np.ndarray, could: int) -> list[float]:
    """Precision of the item that lifts recall to each level, 0 where none does; no ties."""
    values = []
    for level in recall:
        found, value = 0, 0.0
        for seen, i in enumerate(np.argsort(distances), start=1):
            if np.isinf(distances[i]):
                break
            found += int(right[i])
            if right[i] and found / could >= level:
                value = found / seen
                break
        values.append(value)
    return values


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_every_list_is_read_like_one_walked_by_hand(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    distances = rng.permutation(len(owner)).astype(float)
    distances[rng.uniform(size=len(owner)) < 0.2] = np.inf
    right = rng.uniform(size=len(owner)) < 0.5
    could = np.array(sizes) + rng.integers(0, 3, len(sizes))
    recall = (np.arange(7) + 0.5) / 7
    found = precision_at_recall(distances, right, owner, len(sizes), recall=recall, normaliser=could)
    for i, n in enumerate(could):
        if n == 0:
            assert np.isnan(found[i]).all()
        else:
            mine = owner == i
            assert found[i].tolist() == pytest.approx(walked(distances[mine], right[mine], recall, n))


@pytest.mark.parametrize("ties", ["expected", "group"])
def test_the_mean_over_recalls_is_the_average_precision(ties: str) -> None:
    rng = np.random.default_rng(0)
    d, right = rng.integers(0, 30, 200).astype(float), rng.uniform(size=200) < 0.4
    recall = (np.arange(20000) + 0.5) / 20000
    found = precision_at_recall(
        d, right, np.zeros(200, int), 1, recall=recall, normaliser=right.sum() + 10, ties=ties
    )
    wanted = average_precision(d, right, normaliser=int(right.sum()) + 10, ties=ties)
    assert found.mean() == pytest.approx(wanted, abs=1e-4)
