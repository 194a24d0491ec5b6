# SPDX-License-Identifier: BSD-3-Clause
"""Symmetric bootstrap-t: agreement with a plain loop, families, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.core.scores import SceneValues
from tiepoint.stats.bootstrap_t import bootstrap_t_family
from tiepoint.stats.paired import BOOTSTRAP_T, all_pairs, compare_pairs
from tiepoint.stats.resampling import make_scene_score
from tiepoint.stats.samples import sample_of_scenes

ONE_PAIR = np.array([[0, 1]])


def plain_t(d: list[float]) -> float:
    mean = sum(d) / len(d)
    variance = sum((x - mean) ** 2 for x in d) / (len(d) - 1)
    return abs(mean) / math.sqrt(max(variance, 1e-30) / len(d))


def test_bootstrap_t_one_pair_matches_plain_loop() -> None:
    rng = np.random.default_rng(1)
    d = (rng.exponential(size=9) - 0.4).tolist()
    mean = sum(d) / 9
    observed, reached, draws = plain_t(d), 0, 20_000
    for _ in range(draws):
        chosen = rng.integers(0, 9, 9)
        reached += plain_t([d[k] - mean for k in chosen]) >= observed
    x = np.column_stack([d, np.zeros(9)]) / 9
    f = bootstrap_t_family(x, ONE_PAIR, np.zeros(9, dtype=np.int64), resamples=20_000)
    assert f.statistic[0] == pytest.approx(observed)
    p = reached / draws
    assert f.p[0] == pytest.approx(p, abs=5 * math.sqrt(2 * p * (1 - p) / draws))


def test_bootstrap_t_family_adjusts_and_keeps_order() -> None:
    x = np.random.default_rng(2).normal([0.0, 0.5, 1.5], 1, (14, 3)) / 14
    f = bootstrap_t_family(x, all_pairs(3), np.zeros(14, dtype=np.int64))
    assert (f.adjusted >= f.p).all()
    assert np.argsort(f.statistic).tolist() == np.argsort(-f.adjusted, kind="stable").tolist()
    assert f.smallest_p == pytest.approx(1 / 10_001)


def test_bootstrap_t_no_difference_gives_p_one() -> None:
    x = np.ones((8, 2)) / 8
    f = bootstrap_t_family(x, ONE_PAIR, np.zeros(8, dtype=np.int64), resamples=200)
    assert (f.statistic[0], f.p[0]) == (0, 1)


def test_bootstrap_t_interval_excludes_zero_exactly_if_separated() -> None:
    rng = np.random.default_rng(3)
    tables = [
        SceneValues(tuple(f"s{k:02d}" for k in range(12)), tuple("iv" * 6), rng.normal(m, 0.1, (1, 12)))
        for m in (0.5, 0.52, 0.7)
    ]
    sample = sample_of_scenes([make_scene_score(t) for t in tables])
    result = compare_pairs(sample, all_pairs(3), test=BOOTSTRAP_T)
    assert result.separated.tolist() == ((result.low > 0) | (result.high < 0)).tolist()
    assert result.separated.any()
    assert result.reach == pytest.approx(result.family.critical(0.95))
