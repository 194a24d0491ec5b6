# SPDX-License-Identifier: BSD-3-Clause
"""Sentences, table and warnings of a choice, from made-up outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.datasets.image_pairs.folder import named_pairs
from tiepoint.metrics.steadiness import Steadiness
from tiepoint.report.choice_text import advice, extent, run_command, sentences, table, trust, warnings
from tiepoint.run.choose.result import Candidate, Choice, PairOutcome

FOLDER = Path("photos")


def outcome(
    steady: float, cover: float = 0.5, seconds: float = 0.1, turn: float = 0.0, still: bool = False
) -> PairOutcome:
    """A pair that is confirmed unless `steady` is 0."""
    confirmed = 50.0 if steady else 3.0
    s = Steadiness(
        steady or 0.4, confirmed, cover, 80, 60, 20, False, np.arange(80), np.full(80, confirmed / 80)
    )
    return PairOutcome(s, seconds, still, turn)


def choice_of(rows: dict[str, list[PairOutcome]], *, learned: tuple[str, ...] = (), **how: Any) -> Choice:
    count = len(next(iter(rows.values())))
    pairs = {n.key: n for n in named_pairs(FOLDER, [("0.png", f"{i}.png") for i in range(1, count + 1)])}
    candidates = {name: Candidate(name, f"{name}?x=1", name not in learned, False) for name in rows}
    outcomes = {name: dict(zip(pairs, found, strict=True)) for name, found in rows.items()}
    return Choice(FOLDER, candidates, pairs, outcomes, dict.fromkeys(pairs, ((9, 9), (9, 9))), **how)


def test_level_and_behind() -> None:
    rows = {
        "a": [outcome(0.92)] * 8,
        "b": [outcome(0.91, seconds=3.8)] * 8,
        "c": [outcome(0.87, cover=0.3)] * 7 + [outcome(0)],
    }
    found = choice_of(rows, learned=("a",))
    assert extent(found) == "8 of 8 pairs are confirmed by at least one method."
    shown = table(found)
    assert shown[0] == ["a", "0.92", "8", "0.50", "", "0.1"]
    assert shown[1] == ["b", "0.91", "8", "0.50", "level", "3.8"]
    assert shown[2][1:3] == ["0.76", "7"]
    assert shown[2][4].startswith("behind (0.0")
    (first, second) = sentences(found)
    assert first == "Use a; b is level with it."
    assert second.endswith("within 2 points of the best in 22 and 15 points off at worst.")
    assert warnings(found) == []
    assert run_command(found) == "tiepoint run 'a?x=1' --task pose/relative --data DATA"


def test_all_hand_crafted_or_dense_change_the_sentence() -> None:
    rows = {"a": [outcome(0.9)] * 6, "b": [outcome(0.8)] * 6}
    assert "no safe gain was seen" in trust(choice_of(rows))
    assert "no safe gain was seen" not in trust(choice_of(rows, learned=("b",)))
    flows = {name: Candidate(name, name, True, True) for name in rows}
    found = choice_of(rows)
    dense = Choice(FOLDER, flows, found.pairs, found.outcomes, found.sizes)
    assert "not measured for dense methods" in trust(dense)


def test_weak_leader_with_small_cover_warns() -> None:
    found = choice_of({"a": [outcome(0.69, cover=0.14)] * 6, "b": [outcome(0.3)] * 6})
    text = "\n".join(warnings(found))
    assert "no method is reliable here: the leader a has 0.69, below 0.7" in text
    assert "only a small part of the images (cover 0.14)" in text
    assert warnings(choice_of({"a": [outcome(0.71, cover=0.16)] * 6, "b": [outcome(0.3)] * 6})) == []


def test_pairs_that_say_nothing() -> None:
    rows = {"a": [outcome(0.9)] * 5 + [outcome(0)] * 2, "b": [outcome(0.5)] + [outcome(0)] * 6}
    shown = extent(choice_of(rows))
    assert shown.startswith("5 of 7 pairs are confirmed by at least one method; the other 2 say nothing")
    one = choice_of({"a": [outcome(0.9), outcome(0)], "b": [outcome(0)] * 2})
    assert extent(one).startswith("1 of 2 pairs is confirmed by at least one method; the other one says")
    assert "only one pair is confirmed: about 4 points are lost" in warnings(one)[0]
    assert [row[4] for row in table(one)] == ["", "not known"]
    assert advice(one) == "Use a."


def test_nothing_confirmed() -> None:
    found = choice_of({"a": [outcome(0)] * 3, "b": [outcome(0)] * 3})
    assert sentences(found) == ["No method confirms any pair: no overlap, or nothing here works. No choice."]
    assert warnings(found) == []
    assert run_command(found) is None


def test_turned_still_equal_added_and_failed_pairs_warn() -> None:
    failed = PairOutcome(None, failure="RuntimeError: no\nmore")
    rows = {
        "a": [outcome(0.9, turn=90.0), outcome(0.9, turn=44.0, still=True), *[outcome(0.9)] * 4],
        "b": [outcome(0), outcome(0), *[outcome(0.8)] * 3, failed],
        "c": [failed, *[outcome(0.8)] * 5],
    }
    found = choice_of(rows, equal=["x|y"], added=30, notes=["note of a method"])
    text = warnings(found)
    assert text[0] == "note of a method"
    assert "1 pair of equal images excluded: x|y" in text
    assert any("so 30 random pairs were added" in line for line in text)
    assert "b failed on 1 of 6 pairs, which count as 0: RuntimeError: no" in text
    assert any(line.startswith("1 of 6 confirmed pairs: at least half") for line in text)
    rotated = [line for line in text if "rotated" in line]
    assert rotated == [
        "b does not confirm 1 pair with rotated images, such as 0.png|1.png; try rotating the images"
    ]


def test_most_different_pairs_first() -> None:
    values = [0.8, 0.3, 0.5, 0.85, 0.6, 0.7, 0.89]
    found = choice_of({"a": [outcome(0.9)] * 7, "b": [outcome(v) for v in values]})
    assert found.most_different() == [f"0.png|{k}.png" for k in (2, 3, 5, 6, 1)]
    assert found.to_dict()["by_pair"][0]["methods"]["b"]["steady"] == pytest.approx(0.8)
