# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from tiepoint.core.errors import InputError
from tiepoint.metrics import average_precision, average_precision_of_lists, chance_average_precision

sys.path.insert(0, str(Path(__file__).parent))
from ranking_oracle import ap_of_order, mean_over_orders, stable_labels

D8 = [0.1, 0.2, 0.2, 0.4, 0.5, 0.5, 0.7, 0.9]
Y8 = [1, 0, 1, 1, 0, 1, 0, 0]
RULES = ("expected", "group", "optimistic", "pessimistic", "file")

lists = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf]), st.booleans()), min_size=1, max_size=7
)


def ranks_list(n, ranks):
    y = np.zeros(n, int)
    y[np.array(ranks) - 1] = 1
    return np.arange(n, dtype=float), y


@pytest.mark.parametrize(
    ("ties", "trec", "trapezoid"),
    [
        ("file", 0.7708333333, 0.73125),
        ("pessimistic", 0.7708333333, 0.73125),
        ("optimistic", 0.8875, 0.8708333333),
    ],
)
def test_golden_eight_items(ties, trec, trapezoid):
    assert average_precision(D8, Y8, ties=ties) == pytest.approx(trec, abs=5e-11)
    assert average_precision(D8, Y8, ties=ties, flavour="trapezoid") == pytest.approx(trapezoid, abs=5e-11)


@pytest.mark.parametrize(
    ("ranks", "trec", "trapezoid"),
    [((1, 2, 3, 4, 10), 0.9, 0.8944444444), ((2, 5, 9, 40, 100), 0.2766666667, 0.2000660451)],
)
def test_golden_120_items(ranks, trec, trapezoid):
    d, y = ranks_list(120, ranks)
    for ties in RULES:
        assert average_precision(d, y, ties=ties) == pytest.approx(trec, abs=5e-11)
        assert average_precision(d, y, ties=ties, flavour="trapezoid") == pytest.approx(trapezoid, abs=5e-11)


@pytest.mark.parametrize(
    ("normaliser", "trec", "trapezoid"),
    [
        (6, 0.4027777778, 0.3819444444),
        ("retrieved", 0.8055555556, 0.7638888889),
        (3, 0.8055555556, 0.7638888889),
    ],
)
def test_golden_matching_normalisers(normaliser, trec, trapezoid):
    d, y = np.arange(6.0), [1, 0, 1, 1, 0, 0]
    assert average_precision(d, y, normaliser=normaliser) == pytest.approx(trec, abs=5e-11)
    value = average_precision(d, y, normaliser=normaliser, flavour="trapezoid")
    assert value == pytest.approx(trapezoid, abs=5e-11)


def test_golden_late_single_match():
    d, y = ranks_list(1175, [943])
    assert average_precision(d, y, normaliser=1175, flavour="trapezoid") == pytest.approx(
        1 / (2 * 943 * 1175)
    )


@settings(deadline=None, max_examples=150)
@given(lists, st.sampled_from(["trec", "trapezoid"]), st.sampled_from([None, 1, 2, 3, 5]), st.booleans())
def test_closed_form_equals_enumeration(items, flavour, cutoff, retrieved):
    d, y = [i[0] for i in items], [int(i[1]) for i in items]
    total = None if retrieved else sum(y)
    if not any(v and x < np.inf for x, v in zip(d, y, strict=True)):
        return

    def measure(order):
        return np.nan_to_num(ap_of_order(order, total, flavour, cutoff))

    value = average_precision(
        d, y, flavour=flavour, cutoff=cutoff, normaliser="retrieved" if retrieved else "all"
    )
    assert np.nan_to_num(value) == pytest.approx(mean_over_orders(d, y, measure), abs=1e-12)


@settings(deadline=None, max_examples=150)
@given(lists, st.sampled_from(["trec", "trapezoid"]), st.sampled_from([None, 2, 4]))
def test_file_order_equals_plain_loop(items, flavour, cutoff):
    d, y = [i[0] for i in items], [int(i[1]) for i in items]
    value = average_precision(d, y, ties="file", flavour=flavour, cutoff=cutoff)
    assert value == pytest.approx(
        ap_of_order(stable_labels(d, y), sum(y), flavour, cutoff), abs=1e-12, nan_ok=True
    )


@settings(deadline=None, max_examples=100)
@given(lists, st.randoms(use_true_random=False), st.sampled_from(["trec", "trapezoid"]))
def test_order_of_rules_and_permutation_invariance(items, random, flavour):
    d, y = np.array([i[0] for i in items]), np.array([int(i[1]) for i in items])
    if not y.any():
        assert np.isnan(average_precision(d, y))
        return
    value = {t: average_precision(d, y, ties=t, flavour=flavour) for t in RULES}
    assert value["optimistic"] >= value["expected"] - 1e-12
    assert value["expected"] >= value["pessimistic"] - 1e-12
    assert value["optimistic"] + 1e-12 >= value["file"] >= value["pessimistic"] - 1e-12
    order = list(range(len(d)))
    random.shuffle(order)
    for t in ("expected", "group", "optimistic", "pessimistic"):
        assert average_precision(d[order], y[order], ties=t, flavour=flavour) == pytest.approx(
            value[t], abs=1e-14
        )


@pytest.mark.parametrize("levels", [5, 100, 10**9])
def test_group_rule_is_scikit_learn(levels):
    rng = np.random.default_rng(levels)
    d = rng.integers(0, levels, 3000).astype(float)
    y = rng.random(3000) < 0.2
    assert average_precision(d, y, ties="group") == pytest.approx(average_precision_score(y, -d), abs=1e-12)


@pytest.mark.parametrize("flavour", ["trec", "trapezoid"])
@pytest.mark.parametrize("before", [0, 1, 500])
def test_long_tie_equals_place_by_place(flavour, before):
    """Ties of more than 64 places use another formula; it must not show."""
    m, r, cutoff = 1000, 300, before + 700
    d = np.r_[np.arange(before) - 1000.0, np.zeros(m)]
    y = np.r_[np.arange(before) % 3 == 0, np.arange(m) < r].astype(int)
    hits = int(y[:before].sum())
    acc = sum(
        (r / m)
        * (
            (hits + 1 + (p - 1) * (r - 1) / (m - 1)) / (before + p)
            if flavour == "trec"
            else (
                (hits + 1 + (p - 1) * (r - 1) / (m - 1)) / (before + p)
                + ((hits + (p - 1) * (r - 1) / (m - 1)) / (before + p - 1) if before + p > 1 else 1.0)
            )
            / 2
        )
        for p in range(1, 701)
    )
    head = ap_of_order(list(y[:before]), 1, flavour) if before else 0.0
    value = average_precision(d, y, flavour=flavour, cutoff=cutoff, normaliser=int(y.sum()))
    assert value == pytest.approx((acc + head) / y.sum(), rel=1e-13)


def test_many_lists_equal_one_by_one():
    rng = np.random.default_rng(0)
    owner = np.sort(rng.integers(0, 40, 900))
    d, y = rng.integers(0, 8, 900).astype(float), rng.random(900) < 0.3
    d[rng.random(900) < 0.1] = np.inf
    for ties in RULES:
        for normaliser in ("all", "retrieved"):
            for cutoff in (None, 6):
                many = average_precision_of_lists(
                    d, y, owner, 41, ties=ties, normaliser=normaliser, cutoff=cutoff
                )
                for i in range(41):
                    one = average_precision(
                        d[owner == i], y[owner == i], ties=ties, normaliser=normaliser, cutoff=cutoff
                    )
                    assert many[i] == pytest.approx(one, abs=1e-14, nan_ok=True)


def test_infinite_is_never_retrieved_but_counts():
    assert average_precision([1, np.inf], [1, 1]) == 0.5
    assert average_precision([1, np.inf], [1, 1], normaliser="retrieved") == 1.0
    assert average_precision([np.inf, np.inf], [1, 0]) == 0.0
    assert np.isnan(average_precision([np.inf], [1], normaliser="retrieved"))


def test_constant_list_scores_chance():
    y = np.r_[np.ones(100), np.zeros(500)]
    value = average_precision(np.zeros(600), y)
    assert value == pytest.approx(chance_average_precision(600, 100))
    rng = np.random.default_rng(1)
    random = [average_precision(rng.random(600), y) for _ in range(400)]
    assert abs(np.mean(random) - value) < 4 * np.std(random) / 20
    assert average_precision(np.zeros(600), y, ties="file") == 1.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"flavour": "voc"}, "unknown flavour 'voc'"),
        ({"normaliser": "some"}, "unknown normaliser 'some'"),
        ({"ties": "lucky"}, "unknown tie rule 'lucky'"),
        ({"cutoff": 0}, "at least 1"),
        ({"normaliser": 1}, "below the number of relevant items of the list; pass at least 2"),
    ],
)
def test_wrong_choices(kwargs, message):
    with pytest.raises(InputError, match=message):
        average_precision([1, 2, 3], [1, 1, 0], **kwargs)


def test_wrong_lists():
    with pytest.raises(InputError, match="distance 1 is NaN"):
        average_precision([1, np.nan], [1, 0])
    with pytest.raises(InputError, match="the same length"):
        average_precision([1, 2], [1])
    with pytest.raises(InputError, match="between 0 and 1"):
        average_precision([1, 2], [1, -1])
    with pytest.raises(InputError, match="0 or 1"):
        average_precision([1, 2], [0.5, 0.5], normaliser="retrieved")
    with pytest.raises(InputError, match="ascending order"):
        average_precision_of_lists([1, 2], [1, 0], [1, 0], 2)


def test_uncertain_relevance_equals_enumeration():
    d, v = [1.0, 1.0, 1.0, 2.0], [0.5, 0.25, 0.0, 1.0]
    total = 0.0
    for bits in range(16):
        y = [(bits >> i) & 1 for i in range(4)]
        weight = np.prod([v[i] if y[i] else 1 - v[i] for i in range(4)])
        if weight:
            total += weight * mean_over_orders(d, y, lambda order: ap_of_order(order, 4))
    assert average_precision(d, v, normaliser=4) == pytest.approx(total, abs=1e-14)
