# SPDX-License-Identifier: BSD-3-Clause
"""Families of many pairs: the compiled sweeps against plain loops over pairs and patterns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.stats import sign_flip
from tiepoint.stats.paired import all_pairs
from tiepoint.stats.samples import MethodSample
from tiepoint.stats.sign_flip import sign_blocks, sign_flip_family, wide_family


def plain_t(x: np.ndarray, strata: np.ndarray, signs: np.ndarray, a: int, b: int) -> float:
    """|sum D| / se of one pair under one pattern, scene by scene."""
    total, spread, squares = 0.0, 0.0, 0.0
    for h in sorted(set(strata.tolist())):
        d = [float(s * (p - q)) for s, p, q, k in zip(signs, x[:, a], x[:, b], strata, strict=True) if k == h]
        n, part, square = len(d), sum(d), sum(v * v for v in d)
        total, squares = total + part, squares + square
        spread += (square - part * part / n) * n / max(n - 1, 1)
    return math.sqrt(total * total / max(spread, squares * 1e-13, 1e-300))


@pytest.mark.parametrize("strata_count", [1, 2, 3])
def test_sweeps_are_the_loops_over_pairs_and_patterns(
    strata_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(strata_count)
    x = rng.random((18, 5)) / 18 + np.linspace(0, 0.06, 5)
    strata = np.sort(np.arange(18) % strata_count)
    pairs, flips, seed = all_pairs(5), 300, 4
    signs = np.concatenate(list(sign_blocks(18, flips, seed)), axis=1)
    t = np.array([[plain_t(x, strata, s, a, b) for s in signs.T] for a, b in pairs])
    observed = t[:, 0] * (1 - 1e-10)
    order = sorted(range(len(pairs)), key=lambda k: -t[k, 0])
    adjusted, before = np.zeros(len(pairs)), 0.0
    for place, k in enumerate(order):
        reached = sum(max(t[j, r] for j in order[place:]) >= observed[k] for r in range(t.shape[1]))
        before = adjusted[k] = max(before, reached / t.shape[1])
    monkeypatch.setattr(sign_flip, "_COMPILED_FROM", 1)
    found = sign_flip_family(x, pairs, strata, flips=flips, seed=seed)
    assert np.allclose(found.null_maximum, t.max(axis=0), rtol=1e-9)
    assert np.array_equal(found.adjusted, adjusted)
    assert np.array_equal(found.p, (t >= observed[:, None]).mean(axis=1))
    wide = wide_family(x, strata, flips=flips, seed=seed)
    assert np.allclose(wide.null_maximum, found.null_maximum, rtol=1e-12)
    single = (t.max(axis=0)[None, :] >= observed[:, None]).mean(axis=1)
    assert np.array_equal(wide.adjusted_p(found.statistic), single)
    value = x.sum(axis=0)
    apart = [
        (a, b) if value[a] > value[b] else (b, a)
        for (a, b), p in zip(pairs, single, strict=True)
        if p <= 0.05
    ]
    assert apart
    assert wide.below.tolist() == [sum(up == m for up, _ in apart) for m in range(5)]
    assert wide.above.tolist() == [sum(down == m for _, down in apart) for m in range(5)]


def test_compiled_and_plain_families_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    x, strata = rng.random((40, 12)) / 40, (np.arange(40) >= 15).astype(np.int64)
    x[:, 3] = x[:, 2]  # a pair without any difference
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(sign_flip, "_COMPILED_FROM", least)
        found.append(sign_flip_family(x, all_pairs(12), strata, flips=3000, seed=1))
    for name in ("statistic", "p", "adjusted", "null_maximum"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name))


def test_fewer_patterns_are_taken_for_more_pairs() -> None:
    rng = np.random.default_rng(0)
    x, strata = rng.random((30, 8)) / 30, np.zeros(30, np.int64)
    assert wide_family(x, strata, flips=5000, max_statistics=28 * 2000).flips == 2000
    assert wide_family(x, strata, flips=5000, max_statistics=1).flips == 500


def test_resamples_made_when_wanted_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiepoint.core.scores import SceneValues
    from tiepoint.stats import samples as samples
    from tiepoint.stats.resampling import make_scene_score

    rng = np.random.default_rng(3)
    names, kinds = tuple(f"s{i:02d}" for i in range(44)), ("i", "v") * 22
    scores = [make_scene_score(SceneValues(names, kinds, rng.random((2, 44)))) for _ in range(5)]
    found: list[MethodSample] = []
    for most in (300, 1):
        monkeypatch.setattr(samples, "MAX_RESAMPLED_METHODS", most)
        found.append(samples.sample_of_scenes(scores, resamples=200))
    kept, made = found
    assert made.resampled is None
    assert np.array_equal(
        made.resampled_scores(np.array([4, 0, 2])), kept.resampled_scores(np.array([4, 0, 2]))
    )
    for a, b in zip(made.bounds(), kept.bounds(), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(made.difference_bounds(all_pairs(5)), kept.difference_bounds(all_pairs(5)), strict=True):
        assert np.array_equal(a, b)


def test_wide_family_cached_equals_computed(tmp_path, monkeypatch):
    monkeypatch.setenv("TIEPOINT_CACHE", str(tmp_path))
    x, strata = np.random.default_rng(3).normal(size=(12, 30)), np.zeros(12, int)
    computed = wide_family(x, strata, flips=600, seed=5)
    assert not list(tmp_path.rglob("*.bin"))  # small families are not cached
    monkeypatch.setattr(sign_flip, "_CACHED_STATISTICS", 0)
    for damage in (b"", b"", b"x"):
        for path in tmp_path.rglob("*.bin"):
            path.write_bytes(path.read_bytes() + damage)
        found = wide_family(x, strata, flips=600, seed=5)
        assert found.null_maximum.tobytes() == computed.null_maximum.tobytes()
        assert found.above.tolist() == computed.above.tolist()
        assert found.below.tolist() == computed.below.tolist()
    assert len(list(tmp_path.rglob("*.bin"))) == 1
    wide_family(x, strata, flips=600, seed=6)
    wide_family(x + 1e-3 * x**2, strata, flips=600, seed=5)
    assert len(list(tmp_path.rglob("*.bin"))) == 3
