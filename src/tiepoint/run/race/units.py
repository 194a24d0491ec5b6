# SPDX-License-Identifier: BSD-3-Clause
"""Units of a score: their weights, values and order. The weights are known before any result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError
from ...core.formatting import count_text, first_few
from ...core.records import Records
from ...stats.racing import racing_order, scene_order
from ...tasks.base import Task
from ...tasks.capabilities import HasUnitValues
from ...tasks.info import metric_info
from ...tasks.unit_values import UnitFacts, UnitWeights, not_raceable

ABOUT = ("benchmark", "scenes")


@dataclass(frozen=True)
class UnitScore:
    """A score that is a weighted mean of unit values, with its weights.

    Values are oriented: 1 is best. If lower is better, the oriented value is 1 minus the metric's value.
    """

    task: Task
    protocol: str
    metric: str
    group: str
    units: UnitWeights

    @property
    def lower(self) -> bool:
        """Whether lower scores are better."""
        return metric_info(self.task.info, self.metric).lower

    def values(self, records: Mapping[str, Records]) -> dict[str, float]:
        """Return the oriented value of each unit that these records contain.

        Raises:
            InputError: A unit has no value between 0 and 1.
        """
        assert isinstance(self.task, HasUnitValues)
        found = self.task.unit_values(records, self.protocol, self.metric, self.group)
        made = {key: float(found[key]) for key in found if key in self.units.weights}
        wrong = [key for key, value in made.items() if not 0.0 <= value <= 1.0]
        if wrong:
            if math.isnan(made[wrong[0]]):
                where = f"{self.metric} in group {self.group!r} has no value for {first_few(wrong, 3)}"
                raise InputError(f"{where}; choose a group and a score that every unit has")
            named = f"{self.metric} of {first_few(wrong, 3)} is {made[wrong[0]]:g}"
            raise InputError(f"{named}; a race needs a value between 0 and 1 for every unit")
        return {key: 1.0 - v for key, v in made.items()} if self.lower else made


def unit_score(
    task: Task, facts: Mapping[str, UnitFacts] | None, protocol: str, metric: str | None, group: str | None
) -> UnitScore:
    """Return a score with its unit weights; by default the headline score of the task.

    `facts` are the properties of the units (`data_facts`, `stored_facts`). Raise `NotRaceableError` with the
    reason if the score is not a fixed weighted mean of unit values.
    """
    headline, its_group = task.info.headline
    chosen = task.info.other_names.get(metric, metric) if metric else headline
    own = group or (its_group if chosen == headline else "all")
    if not isinstance(task, HasUnitValues):
        raise not_raceable(task.name, chosen, own, task.info.not_raceable)
    known = sorted(task.info.metrics)
    if chosen not in known:
        from ...core.errors import UnknownNameError

        raise UnknownNameError(f"metric of {task.name}", chosen, known)
    weights = task.unit_weights(facts or {}, protocol, chosen, own)
    _check_weights(weights.weights)
    return UnitScore(task, protocol, chosen, own, weights)


def _check_weights(weights: Mapping[str, float]) -> None:
    wrong = [key for key, w in weights.items() if not (math.isfinite(w) and w > 0)]
    if wrong:
        problem = f"the weight is {weights[wrong[0]]}; every unit needs a finite weight above 0"
        raise InputError(f"units {first_few(wrong, 3)}: {problem}")
    total = math.fsum(weights.values())
    if abs(total - 1) > 1e-9:
        raise InputError(f"the weights of the units sum to {total:.12g} instead of 1; a weight is missing")


def data_facts(task: Task, opened: Any) -> Mapping[str, UnitFacts] | None:
    """Return the properties of the units of opened data. None if the task has no unit values."""
    return task.unit_facts(opened) if isinstance(task, HasUnitValues) else None


def stored_facts(task: Task, records: Mapping[str, Records]) -> Mapping[str, UnitFacts] | None:
    """Return the properties of units from the records of a stored run."""
    return task.record_facts(records) if isinstance(task, HasUnitValues) else None


@dataclass(frozen=True)
class Step:
    """One step of a race: one unit, or all units of a scene.

    The value of the step is the mean of its `units` with their shares as weights. `weight` is the share of
    the unit in the score, or 1 for a scene.
    """

    key: str
    weight: float
    units: Mapping[str, float]

    def value(self, values: Mapping[str, float]) -> float:
        """Return the value of the step from the values of its units."""
        return min(1.0, math.fsum(share * values[key] for key, share in self.units.items()))


@dataclass(frozen=True)
class Plan:
    """Order of the steps in a race.

    If `finite`, the steps are a complete list whose weighted mean is the score. Otherwise they are sampled
    scenes, and the race ends when the sampled stratum has no scene left.
    """

    about: str
    steps: tuple[Step, ...]
    finite: bool
    total: int


def plan_race(score: UnitScore, about: str, seed: int) -> Plan:
    """Return the order of the steps in a race, from `seed`. `about` is ``benchmark`` or ``scenes``."""
    if about not in ABOUT:
        raise InputError(f"`about` is {about!r}; expected benchmark or scenes")
    weights = score.units.weights
    if about == "benchmark":
        order = racing_order(weights, seed)
        return Plan(about, tuple(Step(k, weights[k], {k: 1.0}) for k in order), True, len(order))
    scenes: dict[tuple[str, str], list[str]] = {}
    for key in weights:
        scenes.setdefault((score.units.strata[key], score.units.scenes[key]), []).append(key)
    shares: dict[str, float] = {}
    for (stratum, _), keys in scenes.items():
        shares[stratum] = shares.get(stratum, 0.0) + sum(weights[k] for k in keys)
    for stratum in shares:
        own = [scene for of, scene in scenes if of == stratum]
        if len(own) == 1:
            where = f"{score.units.stratum} {stratum!r}" if len(shares) > 1 else "this benchmark"
            raise InputError(
                f"{where} has only one scene, {own[0]!r}, which says nothing about other scenes; race about "
                "the benchmark, or add scenes"
            )
    names = {_scene_key(stratum, scene, shares): (stratum, scene) for stratum, scene in scenes}
    strata = {name: stratum for name, (stratum, _) in names.items()}
    steps = []
    for _, name in scene_order(strata, shares, seed):
        keys = scenes[names[name]]
        whole = sum(weights[k] for k in keys)
        steps.append(Step(name, 1.0, {k: weights[k] / whole for k in keys}))
    return Plan(about, tuple(steps), False, len(scenes))


def _scene_key(stratum: str, scene: str, strata: Mapping[str, float]) -> str:
    """Return the name of a scene. Scenes of different strata may have the same name."""
    return scene if len(strata) == 1 else f"{stratum}/{scene}"


def units_text(score: UnitScore, plan: Plan) -> str:
    """Return the extent of a race as text, such as ``1,440 pairs, mean over 12 sets``.

    For a race about scenes, the text counts scenes.
    """
    noun = score.units.unit if plan.about == "benchmark" else "scene"
    strata = len(set(score.units.strata.values()))
    text = count_text(plan.total, noun)
    return f"{text}, mean over {count_text(strata, score.units.stratum)}" if strata > 1 else text
