# SPDX-License-Identifier: BSD-3-Clause
"""Skewness and its limits: agreement with SciPy and with simulated normal samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tiepoint.stats.skewness import skewness, skewness_limit


def test_skewness_matches_scipy() -> None:
    x = np.random.default_rng(0).exponential(size=(20, 5))
    assert skewness(x) == pytest.approx(stats.skew(x))
    assert skewness(np.full((6, 1), 0.3)).tolist() == [0]


@pytest.mark.parametrize("n", [6, 9, 20, 50, 115, 800])
def test_skewness_limit_is_exceeded_by_one_percent_of_normal_samples(n: int) -> None:
    samples = 20_000
    x = np.random.default_rng(n).normal(size=(samples, n))
    centred = x - x.mean(axis=1, keepdims=True)
    own = (centred**3).mean(axis=1) / (centred**2).mean(axis=1) ** 1.5
    share = (np.abs(own) > skewness_limit(n)).mean()
    assert share == pytest.approx(0.01, abs=4 * np.sqrt(0.01 * 0.99 / samples))


def test_skewness_limit_many_scenes_falls_as_root_of_n() -> None:
    assert skewness_limit(4000) == pytest.approx(skewness_limit(1000) / 2)
    assert skewness_limit(10**6) == pytest.approx(2.576 * np.sqrt(6e-6), rel=0.03)
