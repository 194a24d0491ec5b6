# SPDX-License-Identifier: BSD-3-Clause
"""Counts of nearer and equal items must give what the whole list gives, for every rule."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import InputError
from tiepoint.metrics import (
    average_precision,
    average_precision_from_counts,
    fpr_at_recall,
    fpr_at_recall_from_counts,
    roc_auc,
    roc_auc_from_counts,
)

RULES = ("expected", "group", "optimistic", "pessimistic", "file")


def count(d, y):
    """lt, eq, eq_before of each relevant item among the irrelevant ones, by plain loops."""
    rows = []
    for i in range(len(d)):
        if y[i]:
            others = [j for j in range(len(d)) if not y[j]]
            lt = sum(d[j] < d[i] for j in others)
            eq = [j for j in others if d[j] == d[i]]
            rows.append((lt, len(eq), sum(j < i for j in eq), d[i] < np.inf))
    return [list(c) for c in zip(*rows, strict=True)]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf]), st.booleans()), min_size=2, max_size=14
    ),
    st.sampled_from(RULES),
    st.sampled_from(["trec", "trapezoid"]),
    st.sampled_from([None, 3]),
)
@example([(0.0, False), (1.0, True), (2.0, True)], "group", "trec", None)
def test_counts_equal_lists(items, ties, flavour, cutoff):
    d, y = [i[0] for i in items], [int(i[1]) for i in items]
    if not sum(y):
        return
    if ties == "group":  # relevant items that tie among themselves alone cannot be seen in counts
        right = [v for v, r in zip(d, y, strict=True) if r and v < np.inf]
        wrong = {v for v, r in zip(d, y, strict=True) if not r}
        assume(all(right.count(v) == 1 or v in wrong for v in right))
    lt, eq, before, found = count(d, y)
    for normaliser in ("all", "retrieved", 20):
        kwargs = {"flavour": flavour, "ties": ties, "normaliser": normaliser, "cutoff": cutoff}
        value = average_precision_from_counts(lt, eq, eq_before=before, retrieved=found, **kwargs)[0]
        assert value == pytest.approx(average_precision(d, y, **kwargs), abs=1e-12, nan_ok=True)
    negatives = len(y) - sum(y)
    if negatives:
        area = roc_auc_from_counts(lt, eq, negatives, eq_before=before, retrieved=found, ties=ties)[0]
        assert area == pytest.approx(roc_auc(d, y, ties=ties), abs=1e-12)
        rate = fpr_at_recall_from_counts(lt, eq, negatives, eq_before=before, retrieved=found, ties=ties)
        assert rate == pytest.approx(fpr_at_recall(d, y, ties=ties), abs=1e-12)


def test_many_lists():
    rng = np.random.default_rng(3)
    lt, eq, owner, expected = [], [], [], []
    for i in range(30):
        d, y = rng.integers(0, 6, 25), rng.random(25) < 0.3
        y[0] = True
        a, b, _, _ = count(d, y)
        lt += a
        eq += b
        owner += [i] * len(a)
        expected.append(average_precision(d, y))
    order = rng.permutation(len(lt))
    value = average_precision_from_counts(
        np.array(lt)[order], np.array(eq)[order], owner=np.array(owner)[order], lists=31
    )
    assert value[:30] == pytest.approx(expected, abs=1e-13)
    assert np.isnan(value[30])


def test_large_tie_costs_nothing():
    """Ten thousand right answers in ties of a million: closed form, no expansion."""
    lt, eq = np.zeros(10_000, int), np.full(10_000, 10**6)
    value = average_precision_from_counts(lt, eq, owner=np.arange(10_000), lists=10_000)
    assert value == pytest.approx(14.392727722864724 / (10**6 + 1), rel=1e-12)


def test_errors():
    with pytest.raises(InputError, match="eq_before"):
        average_precision_from_counts([0], [1], ties="file")
    with pytest.raises(InputError, match="the same length"):
        average_precision_from_counts([0, 1], [1])
    assert np.isnan(fpr_at_recall_from_counts([0], [0], 0))
