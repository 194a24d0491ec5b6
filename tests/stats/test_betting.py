# SPDX-License-Identifier: BSD-3-Clause
"""Capital of bets on a mean, its confidence sequence, and closed testing."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from less_golden import golden, needs_golden, needs_zeb, zeb_values
from tiepoint.stats.betting import BETS, adjusted_evidence, capitals, confidence_set, unit_bounds
from tiepoint.stats.racing import keyed_uniform, racing_order


def capital_by_loops(d: list[float], w: list[float] | None, m: float, sign: int) -> float:
    """Restatement: product of factors by bet, then the mean over bets."""
    total = 0.0
    for j in range(8):
        g = 0.9 * 2.0**-j
        capital, seen, left = 1.0, 0.0, 1.0
        for t, x in enumerate(d):
            drawn = seen + left * x
            gain = sign * (drawn - m)
            room = m - (seen - left) if sign > 0 else (seen + left) - m
            if room <= 1e-9:
                if gain > 1e-9:
                    return math.inf
            else:
                capital *= 1 + g * gain / room
            if w is not None:
                seen, left = seen + w[t] * x, left - w[t]
        total += capital / 8
    return total


def small() -> dict[str, Any]:
    found: dict[str, Any] = golden()["race_small"]
    return found


def small_race() -> tuple[np.ndarray, np.ndarray]:
    race = small()
    place = [race["keys"].index(key) for key in race["order"]]
    a, b = (np.array(race["values"][name])[place] for name in "ab")
    return a - b, np.array(race["weights"])[place]


@needs_golden
def test_racing_order_small_matches_recorded() -> None:
    race = small()
    weights = dict(zip(race["keys"], race["weights"], strict=True))
    assert [keyed_uniform("tiepoint-race", 0, k) for k in race["keys"]] == pytest.approx(
        race["uniform"], abs=1e-12
    )
    assert racing_order(weights, 0) == race["order"]
    assert [float(b) for b in BETS] == race["bets"]


@needs_golden
def test_capital_small_matches_recorded_at_every_step() -> None:
    race = small()
    d, w = small_race()
    for n in range(1, 25):
        units = unit_bounds(d[:n], w[:n])
        state = (units.lowest[-1], units.highest[-1], units.drawn[-1])
        assert state == pytest.approx(race["lower_upper_U"][n - 1], abs=1e-11)
        for m, label in ((0.0, "m0"), (0.2, "m02")):
            for side, value in zip(("plus", "minus"), capitals(units, m), strict=True):
                recorded = float(race[f"K_{side}_{label}"][n - 1])
                assert value == pytest.approx(recorded, rel=1e-9), (n, side, label)


@needs_golden
def test_confidence_small_matches_recorded() -> None:
    race = small()
    d, w = small_race()
    for n, recorded in race["confidence_at"].items():
        found = confidence_set(unit_bounds(d[: int(n)], w[: int(n)]), 0.05)
        assert found == pytest.approx(recorded, abs=1e-8), n
    for n, recorded in race["confidence_new_units_at"].items():
        found = confidence_set(unit_bounds(d[: int(n)], None), 0.05)
        assert found == pytest.approx(recorded, abs=1e-8), n


@needs_golden
@pytest.mark.parametrize("case", ["last_unit_at_the_end", "certain", "all_equal"])
def test_capital_edges_match_recorded(case: str) -> None:
    edge = golden()["race_edges"][case]
    d, w = edge["d"], edge["w"]
    for side in ("plus", "minus"):
        for n, recorded in enumerate(edge.get(f"K_{side}_m0", ()), start=1):
            found = capitals(unit_bounds(d[:n], w[:n]), 0.0)[side == "minus"]
            assert found == pytest.approx(float(recorded), rel=1e-9)


@needs_golden
def test_adjusted_evidence_matches_recorded() -> None:
    for case in golden()["race_edges"]["adjusted"]:
        assert adjusted_evidence(case["e"]).tolist() == pytest.approx(case["adjusted"], rel=1e-9)


def test_adjusted_evidence_equals_minimum_over_all_subsets() -> None:
    """The definition of closed testing: the smallest average over all sets that contain the hypothesis."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        e = np.exp(rng.normal(0, 3, 6))
        for i, found in enumerate(adjusted_evidence(e)):
            sets = ([j for j in range(6) if bits >> j & 1] for bits in range(64) if bits >> i & 1)
            assert found == pytest.approx(min(np.mean(e[s]) for s in sets))


@pytest.mark.parametrize("sign", [1, -1])
def test_capital_at_the_truth_has_mean_one_over_all_orders(sign: int) -> None:
    """All 120 orders of 5 weighted units, each with its probability under draws in proportion to weight."""
    rng = np.random.default_rng(3)
    w = rng.dirichlet(np.ones(5))
    d = rng.uniform(-1, 1, 5)
    truth = float(w @ d)
    means = np.zeros(5)
    for order in permutations(range(5)):
        probability, left = 1.0, 1.0
        for i in order:
            probability *= w[i] / left
            left -= w[i]
        own = list(order)
        for n in range(1, 6):
            found = capitals(unit_bounds(d[own[:n]], w[own[:n]]), truth)[sign < 0]
            loops = capital_by_loops(d[own[:n]].tolist(), w[own[:n]].tolist(), truth, sign)
            assert found == pytest.approx(loops, rel=1e-9)
            means[n - 1] += probability * found
    assert means == pytest.approx(np.ones(5), abs=1e-9)


@needs_golden
@needs_zeb
@pytest.mark.parametrize("pair", golden()["zeb_sample"]["two_methods"] if golden() else [])
def test_confidence_zeb_sample_matches_recorded(pair: str) -> None:
    values, weights = zeb_values()
    order = racing_order(weights, 0)
    assert order[:10] == golden()["zeb_sample"]["first_ten"]
    recorded = golden()["zeb_sample"]["two_methods"][pair]
    a, b = pair.split(" - ")
    d = np.array([values[a][u] - values[b][u] for u in order])
    w = np.array([weights[u] for u in order])
    assert d @ w == pytest.approx(recorded["D"], abs=1e-11)
    n = recorded["steps"]
    units = unit_bounds(d[:n], w[:n])
    assert capitals(units, 0.0) == pytest.approx((recorded["K_plus"], recorded["K_minus"]), rel=1e-9)
    assert sum(capitals(unit_bounds(d[: n - 1], w[: n - 1]), 0.0)) / 2 < 20
    assert confidence_set(units, 0.05) == pytest.approx(recorded["confidence_at_stop"], abs=1e-8)
