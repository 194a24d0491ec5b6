# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of more methods than have letters: ranks over all pairs, differences to the best alone."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.report.compare import methods as comparing
from tiepoint.report.compare.methods import compare_methods

SCENES = tuple(f"s{i:02d}" for i in range(20))


def tables(count: int) -> dict[str, SceneValues]:
    rng = np.random.default_rng(0)
    level = rng.random(20) * 0.3
    shifts = 0.05 * (np.arange(count) % 4)
    return {
        f"m{i:03d}": SceneValues(SCENES, ("v",) * 20, (level + s + rng.normal(0, 0.01, 20))[None])
        for i, s in enumerate(shifts)
    }


def test_many_methods_have_the_ranks_that_all_their_pairs_give(monkeypatch: pytest.MonkeyPatch) -> None:
    given = tables(12)
    few = compare_methods(given, flips=4000)
    monkeypatch.setattr(comparing, "MAX_STEP_DOWN_METHODS", 5)
    many = compare_methods(given, flips=4000)
    assert many.wide
    assert not few.wide
    assert [(r.method, r.value, r.low, r.high) for r in many.rows] == [
        (r.method, r.value, r.low, r.high) for r in few.rows
    ]
    # The groups lie far apart, so that step-down has nothing more to separate.
    assert [(r.rank_best, r.rank_worst) for r in many.rows] == [(r.rank_best, r.rank_worst) for r in few.rows]
    assert {(r.rank_best, r.rank_worst) for r in many.rows} == {(1, 3), (4, 6), (7, 9), (10, 12)}
    assert not any(r.letters for r in many.rows)
    assert len(many.pairs) == many.family_size == 11
    assert many.pairs_size == few.pairs_size == 66
    for a, b in zip(many.rows, few.rows, strict=True):
        assert (a.versus is None) == (b.versus is None)
        if a.versus and b.versus:
            assert (a.versus.difference, a.versus.single_low, a.versus.wins) == (
                b.versus.difference,
                b.versus.single_low,
                b.versus.wins,
            )
            assert a.versus.low == pytest.approx(b.versus.low, rel=0.05)
            assert a.versus.p_adjusted >= b.versus.p_adjusted
    words = str(many)
    assert "max-T over all pairs" in words
    assert "step-down" not in words
    assert "rank ranges hold jointly at 95 %, by max-T over all 66 pairs" in words
    assert "share a letter" not in words


def test_only_differences_to_the_baseline_of_many_methods_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MAX_STEP_DOWN_METHODS", 5)
    found = compare_methods(tables(8), baseline="m002", flips=2000)
    assert found.pair("m001", "m002").second == "m002"
    assert found.pair("m002", "m001").first == "m002"
    with pytest.raises(
        InputError, match="only differences to m002 are computed; compare m000 and m001 alone"
    ):
        found.pair("m000", "m001")
    assert found.to_dict()["wide"] is True
    assert "wide" not in compare_methods(tables(3), flips=2000).to_dict()


def test_many_equal_methods_are_one() -> None:
    one = tables(1)["m000"]
    found = compare_methods({f"m{i:03d}": one for i in range(400)}, flips=2000)
    assert found.n_methods == 1
    assert sum(r.identical_to == "m000" for r in found.rows) == 399
    assert not found.wide


def test_many_pooled_scores_have_ranks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(comparing, "MAX_STEP_DOWN_METHODS", 3)

    def bins(scale: float) -> PooledBins:
        pos = rng.poisson(40 * np.exp(-np.arange(12) / scale), (10, 12)).astype(float)
        rows = np.array([[s, (s + 1) % 10, b, 5] for s in range(10) for b in range(2, 12)])
        return PooledBins(tuple("abcdefghij"), ("v",) * 10, pos, rows, "ap")

    found = compare_methods({f"m{i}": bins(scale) for i, scale in enumerate((1.0, 1.1, 4.0, 9.0, 9.5))})
    assert found.wide
    assert found.pooled
    assert found.rows[0].rank_worst is not None
    assert found.rows[0].rank_worst < 5
    assert found.rows[-1].rank_worst == 5
    assert "sign-flip test of the contributions of scenes to the pooled score (all 512 patterns)" in str(
        found
    )
