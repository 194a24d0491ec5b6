# SPDX-License-Identifier: BSD-3-Clause
from fractions import Fraction

import numpy as np
import pytest

from tiepoint.metrics.ranking.ties import harmonic_difference


@pytest.mark.parametrize("start", [0, 1, 31, 32, 33, 1000, 10**6])
@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 64, 1000])
def test_equals_exact_fractions(start, count):
    exact = float(sum((Fraction(1, k) for k in range(start + 1, start + count + 1)), Fraction(0)))
    assert harmonic_difference(start, count) == pytest.approx(exact, rel=1e-15, abs=0)


def test_long_and_far_runs():
    assert harmonic_difference(0, 10**6) == pytest.approx(14.392726722865723, rel=1e-15)
    far = harmonic_difference([10**9], [3])[0]
    assert far == pytest.approx(sum(1 / k for k in range(10**9 + 1, 10**9 + 4)), rel=1e-15)


def test_broadcast():
    assert harmonic_difference([[0], [1]], [1, 2]).shape == (2, 2)
    assert harmonic_difference(np.zeros(0), np.zeros(0)).shape == (0,)
