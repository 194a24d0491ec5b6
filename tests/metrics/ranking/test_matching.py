# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.metrics import average_precision, expected_validity, ratio_dissimilarity
from tiepoint.metrics.ranking.matching import chance_matching_average_precision


def test_validity_of_ties_and_failures():
    v = expected_validity([0, 0, 1, 0], [1, 5, 1, 1], retrieved=[True, True, True, False])
    assert v.tolist() == [1.0, 0.2, 0.0, 0.0]
    with pytest.raises(InputError, match="must be at least 1"):
        expected_validity([0], [0])


def test_guessing_scores_chance():
    """Mean over simulated random matchers equals the closed form; so does a constant descriptor."""
    n = 12
    chance = chance_matching_average_precision(n, n)
    rng = np.random.default_rng(5)
    values = [
        average_precision(rng.random(n), rng.integers(0, n, n) == np.arange(n), normaliser=n)
        for _ in range(20_000)
    ]
    assert abs(np.mean(values) - chance) < 4 * np.std(values) / np.sqrt(len(values))
    constant = average_precision(np.zeros(n), expected_validity(np.zeros(n), np.full(n, n)), normaliser=n)
    assert constant == pytest.approx(chance, rel=1e-13)


def test_ratio_is_rank_equivalent_to_the_squared_inverse_ratio():
    rng = np.random.default_rng(2)
    d1 = rng.random(50) + 0.1
    d2 = d1 + rng.random(50)
    assert np.array_equal(np.argsort(ratio_dissimilarity(d1, d2)), np.argsort(-(d2**2) / d1**2))
