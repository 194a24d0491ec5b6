# SPDX-License-Identifier: BSD-3-Clause
"""Planned sizes of benchmarks: recorded figures, the test they turn round, edge cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from less_golden import golden, needs_golden
from tiepoint.stats.paired import smallest_resolvable
from tiepoint.stats.planning import (
    components,
    detectable,
    exact_power,
    race_length,
    scenes_needed,
    stratified_variance,
    variance_factors,
)


def plan() -> dict[str, Any]:
    found: dict[str, Any] = golden()["plan"]
    return found


@needs_golden
def test_components_match_recorded() -> None:
    recorded, found = plan()["components"], components(plan()["groups"])
    assert (found.scenes, found.pairs) == (recorded["S"], recorded["N"])
    names = {"mean": "mean", "between": "between", "within": "within", "icc": "icc"}
    for name, key in {**names, "scene_variance": "scene_variance"}.items():
        assert getattr(found, name) == pytest.approx(recorded[key], abs=1e-12), name


@needs_golden
@pytest.mark.parametrize(
    ("case", "pairs", "family"), [("as_now", None, 1), ("ten_pairs", 10, 1), ("three_methods", None, 3)]
)
def test_scenes_needed_match_recorded(case: str, pairs: int | None, family: int) -> None:
    recorded, groups = plan()[case], plan()["groups"]
    found, alpha = components(groups), 0.05 / family
    variance = found.variance(pairs)
    assert variance == pytest.approx(recorded["variance"], abs=1e-12)
    per = found.pairs_a_scene if pairs is None else pairs
    assert per == pytest.approx(recorded["pairs_a_scene"], abs=1e-11)
    scenes = scenes_needed(variance, 0.02, alpha=alpha)
    assert scenes == recorded["scenes"]
    assert math.ceil(scenes * per - 1e-9) == recorded["pairs"]
    low, high = variance_factors([np.mean(g) for g in groups])
    ends = [scenes_needed(variance * f, 0.02, alpha=alpha) for f in (low, high)]
    assert ends == recorded["scenes_80"]
    assert scenes_needed(found.between or 0.0, 0.02) == recorded["at_least_scenes_even_with_all_pairs"]
    assert found.design_effect(per) == pytest.approx(recorded["design_effect"])
    assert exact_power(variance, 0.02, scenes, alpha) == pytest.approx(recorded["power_at_answer"], abs=1e-9)


@needs_golden
def test_scenes_needed_table_matches_recorded() -> None:
    for r in plan()["scenes_needed"]:
        assert scenes_needed(r["sd"] ** 2, r["delta"], power=r["power"]) == r["scenes"]
    for r in plan()["power_exact"]:
        assert exact_power(r["sd"] ** 2, r["delta"], r["scenes"]) == pytest.approx(r["power"], abs=1e-9)


@needs_golden
def test_variance_interval_and_race_length_match_recorded() -> None:
    for r in plan()["variance_interval"]:
        found = np.array(variance_factors(r["means"])) * np.var(r["means"], ddof=1)
        assert found == pytest.approx(r["interval"], abs=1e-11)
    for r in plan()["race_length"]:
        assert race_length(r["sd"] ** 2, r["delta"], r["N"]) == pytest.approx(r["steps"], rel=1e-9)


@pytest.mark.parametrize(("sd", "delta"), [(0.1, 0.03), (0.03, 0.01), (0.3, 0.5)])
def test_scenes_needed_is_the_smallest_that_resolves(sd: float, delta: float) -> None:
    scenes = scenes_needed(sd**2, delta)
    assert scenes is not None
    assert smallest_resolvable(sd / math.sqrt(scenes), scenes - 1) <= delta
    if scenes > 2:
        assert smallest_resolvable(sd / math.sqrt(scenes - 1), scenes - 2) > delta
    assert detectable(sd**2, scenes) == pytest.approx(smallest_resolvable(sd / math.sqrt(scenes), scenes - 1))


def test_scenes_needed_edges() -> None:
    assert scenes_needed(1.0, 1e-4) is None
    assert scenes_needed(0.0, 0.01) == 2
    assert variance_factors([0.1, 0.1, 0.1]) == (1.0, 1.0)


def test_components_one_pair_a_scene_have_no_parts() -> None:
    found = components([[0.1], [0.2], [0.4]])
    assert (found.within, found.between, found.icc, found.design_effect(4)) == (None, None, None, None)
    with pytest.raises(ValueError, match="one pair"):
        found.variance(3)


def test_stratified_variance_equals_simulated_variance() -> None:
    rng = np.random.default_rng(0)
    v, i = rng.normal(0, 0.2, (40_000, 30)).mean(axis=1), rng.normal(0, 0.4, (40_000, 10)).mean(axis=1)
    expected = np.var(0.5 * v + 0.5 * i)
    found = stratified_variance({"v": 0.04, "i": 0.16}, {"v": 0.5, "i": 0.5}, {"v": 0.75, "i": 0.25}) / 40
    assert found == pytest.approx(expected, rel=0.03)
