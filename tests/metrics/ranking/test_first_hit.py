# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import InputError
from tiepoint.metrics import chance_average_precision, reciprocal_rank
from tiepoint.metrics.ranking.first_hit import rank_bounds

counts = st.tuples(st.integers(0, 30), st.integers(0, 100))


@given(counts)
def test_reciprocal_rank_is_the_mean_over_ranks(c):
    lt, eq = c
    mean = np.mean([1 / (lt + 1 + i) for i in range(eq + 1)])
    assert reciprocal_rank([lt], [eq])[0] == pytest.approx(mean, rel=1e-13)
    assert reciprocal_rank([lt], [eq], ties="optimistic")[0] == 1 / (lt + 1)
    assert reciprocal_rank([lt], [eq], ties="pessimistic")[0] == 1 / (lt + eq + 1)
    assert reciprocal_rank([lt], [eq], eq_before=[eq // 2], ties="file")[0] == 1 / (lt + eq // 2 + 1)


def test_unretrieved_answers_score_nothing():
    assert reciprocal_rank([0, 0], [0, 0], retrieved=[True, False]).tolist() == [1.0, 0.0]


def test_chance_of_one_answer_is_harmonic():
    n = 927
    assert chance_average_precision(n, 1) == pytest.approx(sum(1 / k for k in range(1, n + 1)) / n)
    assert reciprocal_rank([0], [n - 1])[0] == pytest.approx(chance_average_precision(n, 1))


def test_errors():
    with pytest.raises(InputError, match="eq_before"):
        rank_bounds([0], [0], ties="file")
    with pytest.raises(InputError, match="items >= 1"):
        chance_average_precision(3, 4)
