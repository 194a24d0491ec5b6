# SPDX-License-Identifier: BSD-3-Clause
"""Race methods: compute units in a seeded order, test after each, stop as soon as the goal is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...core.errors import InputError
from ...stats.racing import GOALS, Claim, Interval, Race
from ...store.races import (
    OpenPair,
    RaceClaim,
    RacedMethod,
    RaceQuestion,
    RaceSets,
    StoredRace,
    race_file,
    race_id,
    read_race,
    weights_hash,
    write_race,
)
from ...store.store import Store
from ...store.stored_run import DatasetFacts
from ..costs import utc_now
from .units import Plan, Step, UnitScore, units_text

SAVE_S = 5.0
"""Seconds between two saves of an unfinished race."""

LEVEL = 1e-9
"""Largest difference at which the scores of two methods count as equal."""


@dataclass(frozen=True)
class RaceSettings:
    """Settings of a race. `metric` and `group` default to the headline score; see `goal_of` for `goal`.

    `limit` is the number of steps after which the race ends without a decision. It is not part of the race's
    id, so that a later race without the limit continues this one.
    """

    metric: str | None = None
    group: str | None = None
    goal: str | None = None
    about: str = "benchmark"
    alpha: float = 0.05
    seed: int = 0
    limit: int | None = None
    batch: int | None = None

    def check(self) -> None:
        """Raise an error for impossible settings."""
        if not 0 < self.alpha < 1:
            raise InputError(f"`alpha` is {self.alpha}; expected a probability between 0 and 1")
        for name, value in (("limit", self.limit), ("batch", self.batch)):
            if value is not None and value < 1:
                raise InputError(f"`{name}` is {value}; expected at least 1")
        self.goal_of([])

    def goal_of(self, methods: Sequence[str]) -> tuple[str, str | None]:
        """Return the goal and the baseline. The default is `order` for two methods, else `best`."""
        if self.goal is None:
            return ("order" if len(methods) == 2 else "best"), None
        name, _, baseline = self.goal.partition("=")
        if name not in GOALS or (name == "baseline") != bool(baseline):
            raise InputError(f"`goal` is {self.goal!r}; expected best, order or baseline=NAME")
        return name, baseline or None


class Source(Protocol):
    """Source of unit values: methods that compute them, or stored runs."""

    records: dict[str, dict[str, str]]

    def values(self, steps: Sequence[Step], active: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return the values of the units of some steps, by active method and unit. The best value is 1."""


@dataclass
class RunningRace:
    """State of a race: question, drawn units and their values. Callbacks receive it after every step."""

    question: RaceQuestion
    settings: RaceSettings
    score: UnitScore
    plan: Plan
    race: Race
    drawn: list[str] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    newest: list[Claim] = field(default_factory=list)

    @property
    def extent(self) -> str:
        """Total number of units in the race as text."""
        return units_text(self.score, self.plan)


OnStep = Callable[[RunningRace], None]


def no_step(_: RunningRace) -> None:
    """Do nothing. The default callback of a race."""


def make_question(
    score: UnitScore,
    plan: Plan,
    settings: RaceSettings,
    methods: Sequence[RacedMethod],
    *,
    dataset: DatasetFacts,
    options: Mapping[str, Any],
    split: str | None,
) -> RaceQuestion:
    """Return the question of a race. Raise an error for a baseline that is not in the race."""
    goal, baseline = settings.goal_of([m.name for m in methods])
    names = [m.name for m in methods]
    if baseline is not None and baseline not in names:
        raise InputError(f"baseline {baseline!r} is not in the race; choose one of {', '.join(names)}")
    benchmark = plan.about == "benchmark"
    return RaceQuestion(
        task=score.task.name,
        protocol=score.protocol,
        metric=score.metric,
        group=score.group,
        about=plan.about,
        goal=goal,
        baseline=baseline,
        methods=tuple(methods),
        dataset=dataset,
        options=dict(options),
        split=split,
        weights=weights_hash(score.units.weights),
        units=plan.total,
        unit=score.units.unit if benchmark else "scene",
        strata=len(set(score.units.strata.values())),
        stratum=score.units.stratum,
    )


def stored_race(store: Store, question: RaceQuestion, settings: RaceSettings) -> StoredRace | None:
    """Return the stored race if it has ended, or has reached the limit that the settings request."""
    path = race_file(store.root, race_id(question, settings.alpha, settings.seed))
    if not store.exists or not path.is_file():
        return None
    found = read_race(path)
    if found.ended in (None, "limit") and not (
        found.ended == "limit" and settings.limit is not None and found.steps >= settings.limit
    ):
        return None
    return found


def run_race(
    question: RaceQuestion,
    settings: RaceSettings,
    score: UnitScore,
    plan: Plan,
    source: Source,
    *,
    on_step: OnStep = no_step,
    store: Store | None = None,
    created_at: str | None = None,
    replayed: bool = False,
    warnings: Sequence[str] = (),
) -> StoredRace:
    """Run a race to its end. With a store, save the race from time to time and at the end."""
    names = [m.name for m in question.methods]
    race = Race(
        names, goal=question.goal, baseline=question.baseline, alpha=settings.alpha, finite=plan.finite
    )
    running = RunningRace(question, settings, score, plan, race, values={name: [] for name in names})
    most = min(len(plan.steps), settings.limit or len(plan.steps))
    batch = settings.batch or 1
    when = created_at or utc_now()
    saved = time.monotonic()

    def save(ended: str | None) -> StoredRace:
        made = _stored(running, source, ended, when, replayed, warnings)
        if store is not None:
            write_race(store.root, made)
        return made

    if store is not None:
        save(None)
    while not race.over and race.steps < most:
        chunk = plan.steps[race.steps : min(race.steps + batch, most)]
        found = source.values(chunk, list(race.active))
        for step in chunk:
            if race.over:
                break
            _feed(running, step, found)
            on_step(running)
        if store is not None and time.monotonic() - saved > SAVE_S:
            save(None)
            saved = time.monotonic()
    race.note_intervals()
    return save(_ending(race, plan))


def _feed(running: RunningRace, step: Step, found: Mapping[str, Mapping[str, float]]) -> None:
    race, plan = running.race, running.plan
    values = {name: step.value(found[name]) for name in race.active}
    last = plan.finite and race.steps + 1 == plan.total
    running.newest = race.step(values, step.weight, last=last)
    running.drawn.append(step.key)
    for name, value in values.items():
        running.values[name].append(value)


def _ending(race: Race, plan: Plan) -> str:
    if race.over:
        return "decided"
    if race.steps < len(plan.steps):
        return "limit"
    return "complete" if plan.finite else "exhausted"


def _stored(
    running: RunningRace,
    source: Source,
    ended: str | None,
    when: str,
    replayed: bool,
    warnings: Sequence[str],
) -> StoredRace:
    race, question, settings = running.race, running.question, running.settings
    return StoredRace(
        id=race_id(question, settings.alpha, settings.seed, replayed),
        question=question,
        alpha=settings.alpha,
        seed=settings.seed,
        ended=ended,
        steps=race.steps,
        evaluations=dict(race.evaluations),
        claims=tuple(_claim(race, claim) for claim in race.claims),
        open_pairs=tuple(_open_pair(race, running.plan, *p) for p in _without_claim(race)),
        sequences=tuple(RaceSets(first=a, second=b, sets=_sets(race, a, b)) for a, b in race.pairs),
        drawn=tuple(running.drawn),
        values={name: tuple(values) for name, values in running.values.items()},
        records={name: dict(sorted(keys.items())) for name, keys in source.records.items()},
        note=running.score.units.note,
        warnings=tuple(warnings),
        replayed=replayed,
        created_at=when,
    )


def _sets(race: Race, a: str, b: str) -> tuple[Interval, ...]:
    return tuple(race.intervals[a, b])


def _claim(race: Race, claim: Claim) -> RaceClaim:
    low, high = race.interval(claim.better, claim.worse)
    return RaceClaim(
        better=claim.better,
        worse=claim.worse,
        step=claim.step,
        evidence=None if claim.evidence == float("inf") else claim.evidence,
        low=low,
        high=high,
        mean=race.mean_difference(claim.better, claim.worse),
    )


def _without_claim(race: Race) -> list[tuple[str, str]]:
    claimed = {frozenset((c.better, c.worse)) for c in race.claims}
    return [p for p in race.pairs if frozenset(p) not in claimed and race.intervals[p]]


def _open_pair(race: Race, plan: Plan, a: str, b: str) -> OpenPair:
    low, high = race.interval(a, b)
    known = (
        plan.finite and race.steps == plan.total and race.evaluations[a] == race.evaluations[b] == plan.total
    )
    return OpenPair(
        first=a, second=b, low=low, high=high, level=known and abs(low) <= LEVEL and abs(high) <= LEVEL
    )
