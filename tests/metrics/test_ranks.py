# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.metrics import (
    chance_average_precision,
    hit_at_k,
    precision_at_k,
    rank_histogram,
    recall_at_k,
    reciprocal_rank,
)
from tiepoint.metrics.ranking.ranks import rank_bounds
from tiepoint.model.errors import InputError

counts = st.tuples(st.integers(0, 30), st.integers(0, 100))


@given(counts)
def test_reciprocal_rank_is_the_mean_over_ranks(c):
    lt, eq = c
    mean = np.mean([1 / (lt + 1 + i) for i in range(eq + 1)])
    assert reciprocal_rank([lt], [eq])[0] == pytest.approx(mean, rel=1e-13)
    assert reciprocal_rank([lt], [eq], ties="optimistic")[0] == 1 / (lt + 1)
    assert reciprocal_rank([lt], [eq], ties="pessimistic")[0] == 1 / (lt + eq + 1)
    assert reciprocal_rank([lt], [eq], eq_before=[eq // 2], ties="file")[0] == 1 / (lt + eq // 2 + 1)


@given(counts, st.integers(1, 120))
def test_hit_at_k_is_the_share_of_ranks(c, k):
    lt, eq = c
    share = np.mean([lt + 1 + i <= k for i in range(eq + 1)])
    assert hit_at_k([lt], [eq], k)[0] == pytest.approx(share, abs=1e-14)


@given(st.lists(counts, min_size=1, max_size=20))
def test_histogram_adds_up_and_agrees_with_hits(rows):
    lt, eq = np.array(rows).T
    edges = [1, 2, 6, 11, np.inf]
    h = rank_histogram(lt, eq, edges)
    assert h.sum() == pytest.approx(len(rows))
    assert h[0] == pytest.approx(hit_at_k(lt, eq, 1).sum())
    assert h[:3].sum() == pytest.approx(hit_at_k(lt, eq, 10).sum())


def test_unretrieved_answers_score_nothing():
    assert reciprocal_rank([0, 0], [0, 0], retrieved=[True, False]).tolist() == [1.0, 0.0]
    assert hit_at_k([0, 0], [0, 0], 5, retrieved=[True, False]).tolist() == [1.0, 0.0]
    assert rank_histogram([0, 0], [0, 0], [1, 10], retrieved=[True, False]).tolist() == [1.0]


def test_means():
    assert precision_at_k([1, 1, 0], 10) == pytest.approx(2 / 30)
    assert recall_at_k([2, 0, 0], [4, 1, 0]) == pytest.approx(0.25)
    assert np.isnan(precision_at_k([], 3))
    assert np.isnan(recall_at_k([0], [0]))


def test_chance_of_one_answer_is_harmonic():
    n = 927
    assert chance_average_precision(n, 1) == pytest.approx(sum(1 / k for k in range(1, n + 1)) / n)
    assert reciprocal_rank([0], [n - 1])[0] == pytest.approx(chance_average_precision(n, 1))


def test_errors():
    with pytest.raises(InputError, match="at least 1"):
        hit_at_k([0], [0], 0)
    with pytest.raises(InputError, match="increasing ranks"):
        rank_histogram([0], [0], [3, 1])
    with pytest.raises(InputError, match="eq_before"):
        rank_bounds([0], [0], ties="file")
    with pytest.raises(InputError, match="items >= 1"):
        chance_average_precision(3, 4)
