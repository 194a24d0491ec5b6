# SPDX-License-Identifier: BSD-3-Clause
"""Sentences about races: those that docs/less-work.md prints, undecided, level, interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from less_golden import needs_zeb, zeb_values
from tiepoint.report.race_text import full_sentences, sentences, state_of
from tiepoint.run.race.engine import RaceSettings, make_question, run_race
from tiepoint.run.race.units import Step, UnitScore, plan_race
from tiepoint.store.races import RacedMethod, StoredRace
from tiepoint.store.stored_run import DatasetFacts
from tiepoint.tasks import load_task
from tiepoint.tasks.unit_values import UnitWeights

PAGE = (Path(__file__).parents[2] / "docs" / "less-work.md").read_text()


class Given:
    """Values that are known."""

    def __init__(self, values: Mapping[str, Mapping[str, float]]) -> None:
        self.by_method = values
        self.records: dict[str, dict[str, str]] = {name: {} for name in values}

    def values(self, steps: Sequence[Step], active: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        return {name: self.by_method[name] for name in active}


def raced(
    values: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, float],
    strata: Mapping[str, str] | None = None,
    **how: Any,
) -> StoredRace:
    settings = RaceSettings(**how)
    units = UnitWeights(
        weights,
        strata or dict.fromkeys(weights, ""),
        {k: k.partition("#")[0] for k in weights},
        stratum="set",
    )
    score = UnitScore(load_task("pose/relative"), "exact", "auc", "all", units)
    plan = plan_race(score, settings.about, settings.seed)
    methods = [RacedMethod(name=name, run=name) for name in values]
    question = make_question(
        score, plan, settings, methods, dataset=DatasetFacts(hash="0", name="d"), options={}, split=None
    )
    return run_race(question, settings, score, plan, Given(values))


@needs_zeb
def test_sentences_of_zeb_sample_are_those_of_the_page() -> None:
    values, weights = zeb_values()
    strata = {unit: unit.partition("/")[0] for unit in weights}
    race = raced({m: values[m] for m in ("gim_lightglue", "gim_dkm")}, weights, strata)
    claim, work, about = sentences(race)
    assert claim in PAGE
    assert about in PAGE
    assert work == "The race used 172 of 2,880 evaluations (6 %)."
    assert state_of(race) == "decided after 86 of 1,440"


def test_sentences_undecided_and_level() -> None:
    weights = {f"u{k}": 1 / 30 for k in range(30)}
    level = {"a": dict.fromkeys(weights, 0.5), "b": dict.fromkeys(weights, 0.5)}
    first = sentences(raced(level, weights))[0]
    assert first == "a and b are level on this benchmark: the same score on all 30 pairs."
    race = raced(level, weights, limit=10)
    assert sentences(race)[0].startswith(
        "a and b: not decided after 10 of 30 pairs; the difference is between"
    )
    cut = race.model_copy(update={"ended": None})
    assert "was interrupted after 10 pairs" in " ".join(sentences(cut))


def test_sentences_about_scenes_do_not_speak_of_the_benchmark() -> None:
    weights = {f"s{k}#{p}": 1 / 80 for k in range(40) for p in range(2)}
    values = {"a": dict.fromkeys(weights, 0.9), "b": dict.fromkeys(weights, 0.1)}
    text = " ".join(sentences(raced(values, weights, about="scenes")))
    assert "a is ahead of b on scenes like these (40 scenes)" in text
    assert "if they are independent draws" in text
    assert "It does not say who is ahead on this benchmark." in text


def test_full_sentences_name_the_exaggeration() -> None:
    weights = {f"u{k}": 1 / 200 for k in range(200)}
    values = {"a": dict.fromkeys(weights, 0.9), "b": dict.fromkeys(weights, 0.2)}
    race = raced(values, weights).model_copy(update={"full": {"a": 0.9, "b": 0.2}})
    assert full_sentences(race)[-1] == (
        "a minus b: 70.0 points in the complete runs; 70.0 when the race stopped, which exaggerates."
    )
