# SPDX-License-Identifier: BSD-3-Clause
"""Times of methods: repeats until they agree, in turns until they separate, never without end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tiepoint.report.runs.card import agrees, times_differ
from tiepoint.run import costs
from tiepoint.run.costs import ranges_overlap, time_alternating, time_repeatedly
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store


class Clock:
    """A clock that only calls move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.order = ""
        monkeypatch.setattr(costs, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def call(self, name: str, *seconds: float) -> Callable[[], None]:
        """A call that takes these seconds, over and over."""
        made = iter(seconds * 10_000)

        def run() -> None:
            self.order += name
            self.now += next(made)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_repeats_that_agree_take_the_budget_and_others_twice_as_much(clock: Clock) -> None:
    assert sum(time_repeatedly(clock.call("a", 0.1), budget_s=1.0)) == pytest.approx(1.0, abs=0.11)
    assert sum(time_repeatedly(clock.call("a", 0.1, 0.2), budget_s=1.0)) == pytest.approx(2.0, abs=0.21)
    assert len(time_repeatedly(clock.call("a", 5.0), budget_s=1.0)) == 1


def test_turns_alternate_and_end_when_quartiles_separate(clock: Clock) -> None:
    one, two = time_alternating(clock.call("a", 0.10, 0.11), clock.call("b", 0.13, 0.12), budget_s=60.0)
    assert clock.order == "ab" * 5
    assert not ranges_overlap(one, two)


def test_turns_of_equal_methods_end_with_the_budget(clock: Clock) -> None:
    one, two = time_alternating(clock.call("a", 0.1, 0.3), clock.call("b", 0.3, 0.1), budget_s=4.0)
    assert sum(one) + sum(two) == pytest.approx(4.0, abs=0.5)
    assert ranges_overlap(one, two)


def cost(low: float, high: float, key: str = "", **more: object) -> dict[str, object]:
    quartiles = [low, high]
    found = {"per": "patch", "time_s": (low + high) / 2, "time_quartiles_s": quartiles, "repeats": 9}
    return found | {"key": key or None} | more


def test_times_are_told_apart_only_where_every_measurement_says_so() -> None:
    sift, rootsift = cost(1.0, 1.1, "s"), cost(1.5, 1.6, "r")
    assert times_differ(sift, rootsift)
    assert times_differ(sift, cost(1.05, 3.2)) is False
    # Measured in turns, the same two methods take as long as each other, or the order is the other way.
    level = [{"key": "s", "other_s": [1.0, 1.1], "own_s": [1.05, 1.2]}]
    turned = [{"key": "s", "other_s": [1.5, 1.6], "own_s": [1.0, 1.1]}]
    confirmed = [{"key": "s", "other_s": [1.0, 1.1], "own_s": [1.4, 1.6]}]
    for turns, said in ((level, False), (turned, False), (confirmed, True)):
        assert times_differ(sift, cost(1.5, 1.6, "r", in_turns=turns)) is said
        assert times_differ(cost(1.5, 1.6, "r", in_turns=turns), sift) is said
    assert times_differ(sift, {**rootsift, "per": "image"}) is None


def test_a_spread_or_a_single_measurement_does_not_agree() -> None:
    assert agrees(cost(1.0, 1.2))
    assert not agrees(cost(1.0, 1.3))
    assert not agrees({**cost(1.0, 1.0), "repeats": 1})
    assert not agrees({})


def test_a_method_as_fast_as_the_one_before_is_measured_in_turns_with_it(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "time_repeatedly", lambda call: [0.5, 0.6, 0.7])
    asked: list[float] = []

    def turns(first: object, second: object, *, budget_s: float) -> tuple[list[float], list[float]]:
        asked.append(budget_s)
        return [0.5] * 5, [0.9] * 5

    monkeypatch.setattr(costs, "time_alternating", turns)
    costs._EARLIER.clear()
    with Store.open(tmp_path / "s") as store:
        runs = [
            evaluate(RunRequest(m, "hpatches/matching", patches, ("exact",), {"split": "full"}), store)
            for m in ("pixels", "meanstd")
        ]
    first, second = (r.manifest.efficiency for r in runs)
    assert asked == [costs.TURNS_S]
    assert first["in_turns"] == []
    (turn,) = second["in_turns"]
    assert turn["key"] == first["key"]
    assert turn["own_s"][0] > turn["other_s"][1]
    assert times_differ(first, second)


def test_an_earlier_method_that_fails_by_now_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise FileNotFoundError("w.npy")

    gone = costs._Timed("a", "patches x 3", fails, 1, (1.0, 1.0, 1.0))
    earlier = deque([gone], maxlen=3)
    monkeypatch.setattr(costs, "_EARLIER", earlier)
    seconds = [1.0, 1.0, 1.0]
    mine = costs._Timed("b", "patches x 3", lambda: None, 1, tuple(seconds))
    assert costs._beside(mine, seconds) == []
    assert not earlier
    assert seconds == [1.0, 1.0, 1.0]
