# SPDX-License-Identifier: BSD-3-Clause
"""Races of several methods: claims, who leaves when, how a race ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from less_golden import golden, needs_golden, needs_zeb, zeb_values
from tiepoint.core.errors import InputError
from tiepoint.stats.betting import bet, capital_of, unit_bounds
from tiepoint.stats.racing import Race, racing_order, running, scene_order


def run_race(
    values: dict[str, dict[str, float]], weights: dict[str, float], **how: Any
) -> tuple[Race, list[list[Any]]]:
    race = Race(list(values), **how)
    order = racing_order(weights, 0)
    for unit in order:
        race.step({m: values[m][unit] for m in race.active}, weights[unit], last=unit == order[-1])
        if race.over:
            break
    return race, [[c.better, c.worse, c.step] for c in race.claims]


@needs_golden
@pytest.mark.parametrize(("goal", "baseline"), [("order", None), ("best", None), ("baseline", "b")])
def test_race_three_methods_matches_recorded(goal: str, baseline: str | None) -> None:
    small = golden()["race_small"]
    weights = dict(zip(small["keys"], small["weights"], strict=True))
    values = {m: dict(zip(small["keys"], v, strict=True)) for m, v in small["values"].items()}
    race, claims = run_race(values, weights, goal=goal, baseline=baseline)
    recorded = small["three_methods"][goal]
    assert claims == recorded["claims"]
    assert race.evaluations == recorded["evaluations"]
    assert race.steps == recorded["steps"]
    assert race.over is (recorded["end"] == "decided")


@needs_golden
@pytest.mark.parametrize(("alpha", "label"), [(0.05, "stop_alpha_005"), (0.1, "stop_alpha_01")])
def test_race_two_methods_stops_where_recorded(alpha: float, label: str) -> None:
    small = golden()["race_small"]
    weights = dict(zip(small["keys"], small["weights"], strict=True))
    values = {m: dict(zip(small["keys"], small["values"][m], strict=True)) for m in "ab"}
    race, claims = run_race(values, weights, goal="order", alpha=alpha)
    assert claims == [["a", "b", small[label]]]
    low, high = race.interval("a", "b")
    assert 0 < low <= small["D"] <= high
    assert race.interval("b", "a") == (-high, -low)


@needs_golden
@needs_zeb
@pytest.mark.parametrize("goal", ["best", "order"])
def test_race_four_methods_matches_recorded(goal: str) -> None:
    values, weights = zeb_values()
    recorded = golden()["zeb_sample"]["four_methods"][goal]
    names = ["root_sift", "gim_lightglue", "gim_loftr", "gim_dkm"]
    race, claims = run_race({m: values[m] for m in names}, weights, goal=goal)
    assert claims == recorded["claims"]
    assert race.evaluations == recorded["evaluations"]
    assert race.steps == recorded["steps"]


@needs_golden
@needs_zeb
@pytest.mark.parametrize("pair", golden()["zeb_sample"]["two_methods"] if golden() else [])
def test_race_two_methods_of_zeb_sample_matches_recorded(pair: str) -> None:
    values, weights = zeb_values()
    recorded = golden()["zeb_sample"]["two_methods"][pair]
    a, b = pair.split(" - ")
    race, claims = run_race({m: values[m] for m in (b, a)}, weights, goal="order")
    assert claims == [[a, b, recorded["steps"]]]
    assert race.mean_difference(a, b) == pytest.approx(recorded["mean_at_stop"], abs=1e-11)
    assert race.interval(a, b) == pytest.approx(recorded["confidence_at_stop"], abs=1e-8)
    assert race.interval(b, a)[0] == -race.interval(a, b)[1]


@needs_golden
def test_running_small_matches_recorded() -> None:
    small = golden()["race_small"]
    sets = [(int(n), *ends) for n, ends in small["confidence_at"].items()]
    expected = [(int(n), *ends) for n, ends in small["confidence_running"].items()]
    assert np.array(running(sets)) == pytest.approx(np.array(expected), abs=1e-8)


def test_race_level_methods_end_without_claim() -> None:
    """All units used: the difference is known, and 0 is level, not a decision."""
    weights = dict.fromkeys([str(i) for i in range(20)], 1 / 20)
    values = {"a": dict.fromkeys(weights, 0.5), "b": dict.fromkeys(weights, 0.5)}
    race, claims = run_race(values, weights, goal="order")
    assert claims == []
    assert not race.over
    assert race.steps == 20
    assert race.interval("a", "b") == pytest.approx((0.0, 0.0), abs=1e-9)


def test_race_certain_difference_is_claimed_without_capital() -> None:
    weights = dict.fromkeys("abcde", 0.2)
    order = racing_order(weights, 0)
    values = {"x": {u: float(i < 3) for i, u in enumerate(order)}, "y": dict.fromkeys(order, 0.0)}
    for i in (3, 4):
        values["y"][order[i]] = 1.0
    assert run_race(values, weights, goal="order")[1] == [["x", "y", 3]]


def test_race_order_of_feeding_methods_changes_no_claim() -> None:
    rng = np.random.default_rng(0)
    weights = dict.fromkeys([f"u{i}" for i in range(300)], 1 / 300)
    values = {
        m: dict(zip(weights, rng.beta(2, 2, 300) * s, strict=True))
        for m, s in (("a", 1), ("b", 0.8), ("c", 0.6))
    }
    forward = run_race(values, weights, goal="order")[1]
    backward = run_race(dict(reversed(values.items())), weights, goal="order")[1]
    assert forward
    assert sorted(map(str, forward)) == sorted(map(str, backward))


@pytest.mark.parametrize(
    ("methods", "how", "said"),
    [
        (["a"], {}, "at least two"),
        (["a", "b"], {"alpha": 1.5}, "alpha"),
        (["a", "b"], {"goal": "baseline", "baseline": "z"}, "not in the race"),
        (["a", "b"], {"goal": "first"}, "goal"),
    ],
)
def test_race_wrong_arguments_raise(methods: list[str], how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Race(methods, **how)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_race_value_outside_unit_interval_raises(value: float) -> None:
    with pytest.raises(InputError, match="0 to 1"):
        Race(["a", "b"]).step({"a": 0.5, "b": value})


def test_scene_order_draws_strata_by_share_and_ends_when_one_is_empty() -> None:
    strata = {f"v{i}": "v" for i in range(400)} | {f"i{i}": "i" for i in range(400)}
    drawn = list(scene_order(strata, {"v": 0.25, "i": 0.75}, 0))
    assert len({scene for _, scene in drawn}) == len(drawn)
    assert all(strata[scene] == name for name, scene in drawn)
    assert np.mean([name == "v" for name, _ in drawn]) == pytest.approx(0.25, abs=0.06)
    assert sum(name == "i" for name, _ in drawn) == 400  # the larger share is used up first
    assert list(scene_order(strata, {"v": 0.25, "i": 0.75}, 0)) == drawn
    assert list(scene_order(strata, {"v": 0.25, "i": 0.75}, 1)) != drawn


def test_bets_null_zero_one_results_rarely_claim() -> None:
    """2,000 races of 30 weighted units with differences -1, 0, 1 and true difference 0.

    Counting a mean without room as refuted would end most of them with a claim.
    """
    rng = np.random.default_rng(5)
    half = rng.dirichlet(np.ones(15), 2000) / 2
    d = rng.integers(-1, 2, (2000, 15)).astype(float)
    w, d = np.hstack([half, half]), np.hstack([d, -d])
    order = np.argsort(rng.exponential(size=w.shape) / w, axis=1)  # draws in proportion to weight
    w, d = np.take_along_axis(w, order, 1), np.take_along_axis(d, order, 1)
    units = unit_bounds(d, w)
    logs = [np.zeros((2000, 8)), np.zeros((2000, 8))]
    claimed = np.zeros(2000, bool)
    for t in range(30):
        drawn, low, high = units.drawn[:, t], units.lowest[:, t], units.highest[:, t]
        logs = [bet(logs[0], drawn, -low), bet(logs[1], -drawn, high)]
        claimed |= (capital_of(logs[0]) + capital_of(logs[1])) / 2 >= 20
    assert 0 < claimed.sum() <= 100
