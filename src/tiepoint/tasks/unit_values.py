# SPDX-License-Identifier: BSD-3-Clause
"""Scores that are weighted means of bounded unit values, which a race can estimate from few units.

The weights must be known before any method runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.records import Records
from ..core.scores import Score
from .info import TaskInfo, metric_info

TRAPEZOID = (
    "the protocol prints the area by trapezoids; the race is about the exact area, and its result carries "
    "over to the printed area if the difference exceeds 50/n points"
)


Means = Mapping[str, frozenset[str]]
Reasons = Mapping[str, str]


class NotRaceableError(InputError):
    """Raised if a score is not a weighted mean of unit values with fixed weights. The message states why."""


@dataclass(frozen=True)
class UnitFacts:
    """Properties of a unit that are known before any method runs.

    `pairs` is the number of values that the unit's mean averages. `images` are the names of its two images,
    if the unit is an image pair. `groups` are the parts of group names that select the unit.
    """

    scene: str
    kind: str = ""
    pairs: float = 1.0
    images: tuple[str, str] | None = None
    groups: Mapping[str, str] | None = None


@dataclass(frozen=True)
class UnitWeights:
    """Weights of the units in a score; they sum to 1. Units without weight are missing.

    `strata` has the stratum of every unit if the score is a mean over strata, such as kinds or sets. `scenes`
    has the scene of every unit. `note` is a remark on the values. `unit` and `stratum` are the nouns for
    messages.
    """

    weights: Mapping[str, float]
    strata: Mapping[str, str]
    scenes: Mapping[str, str]
    note: str = ""
    unit: str = "pair"
    stratum: str = "kind"


def unit_weights(
    units: Mapping[str, UnitFacts],
    sizes: Mapping[str, float],
    *,
    by_kind: bool = False,
    note: str = "",
    unit: str = "pair",
    stratum: str = "kind",
) -> UnitWeights:
    """Return weights in proportion to `sizes`. With `by_kind`, every kind has the same total weight.

    >>> facts = {"a": UnitFacts("s", "v"), "b": UnitFacts("s", "v"), "c": UnitFacts("t", "i")}
    >>> dict(unit_weights(facts, dict.fromkeys(facts, 1.0), by_kind=True).weights)
    {'a': 0.25, 'b': 0.25, 'c': 0.5}
    """
    kinds = {key: units[key].kind if by_kind else "" for key in sizes}
    totals: dict[str, float] = {}
    for key, size in sizes.items():
        totals[kinds[key]] = totals.get(kinds[key], 0.0) + size
    weights = {key: size / totals[kinds[key]] / len(totals) for key, size in sizes.items()}
    scenes = {key: units[key].scene for key in sizes}
    return UnitWeights(weights, kinds, scenes, note, unit, stratum)


def group_parts(group: str) -> dict[str, str]:
    """Return the parts of a group name.

    >>> group_parts("all"), group_parts("alpha=0.1,per=pair")
    ({}, {'alpha': '0.1', 'per': 'pair'})
    """
    return {} if group == "all" else dict(part.partition("=")[::2] for part in group.split(","))


def not_raceable(task: str, metric: str, group: str, reason: str) -> NotRaceableError:
    """Return the error that a score cannot be raced, with the reason."""
    named = metric if group == "all" else f"{metric} ({group})"
    return NotRaceableError(f"{task}: {named} cannot be raced: {reason}")


GENERAL_REASONS: Mapping[str, str] = {
    "failures": "a count has no bound that holds for every benchmark; race an accuracy, where a failure is 0",
    "matches": "a count is not bounded",
    "inliers": "a count is not bounded",
    "unanswered": "it pools the points of all pairs",
}


class MeansOfUnits:
    """Mixin of tasks whose scores are means over units. A subclass lists the metrics in `means`.

    Attributes:
        means: For each metric that is a mean over units, the parts that its group name may have.
        reasons: For other metrics, why they cannot be raced.
    """

    name: str
    info: TaskInfo
    score: Callable[[Sequence[Records], str], list[Score]]
    means: ClassVar[Means] = {}
    reasons: ClassVar[Reasons] = {}

    def unit_facts(self, opened: Any) -> Mapping[str, UnitFacts]:
        """Return the properties of the units of opened data, which are known before any method runs."""
        raise NotImplementedError

    def record_facts(self, records: Mapping[str, Records]) -> Mapping[str, UnitFacts]:
        """Return the properties of the units from their records, for stored runs whose data is not opened."""
        return {key: self.facts_of(record) for key, record in records.items()}

    def facts_of(self, record: Records) -> UnitFacts:
        """Return the properties of one unit from its records."""
        raise NotImplementedError

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return the weights of a score's units. Raise `NotRaceableError` if it is not a mean over units."""
        parts = self.raceable_parts(metric, group)
        chosen = {
            key: facts.pairs
            for key, facts in units.items()
            if facts.pairs > 0
            and all((facts.groups or {}).get(k, v) == v for k, v in parts.items())
            and parts.get("kind", facts.kind) == facts.kind
        }
        if not chosen:
            raise not_raceable(self.name, metric, group, "no unit is in this group")
        return self.weigh(units, chosen, protocol, parts)

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of the units that a score includes. `sizes` are their numbers of values."""
        return unit_weights(units, sizes)

    def raceable_parts(self, metric: str, group: str) -> dict[str, str]:
        """Return the parts of a group name.

        Raise `NotRaceableError` if the score is not a mean over units.
        """
        parts = group_parts(group)
        reason = {**GENERAL_REASONS, **self.reasons}.get(metric)
        if metric.rpartition("_seed_")[1]:
            reason = "it describes the spread over seeds"
        unit = metric_info(self.info, metric).unit
        if reason is None and unit != "fraction":
            reason = f"errors in {unit} are not bounded; race a score with a threshold"
        if reason is None and metric not in self.means:
            reason = "it is not a mean over units with weights that are known beforehand"
        if reason is None and (other := sorted(set(parts) - self.means[metric])):
            reason = f"its units depend on {', '.join(other)}; race the score over all units"
        if reason is not None:
            raise not_raceable(self.name, metric, group, reason)
        return parts

    def unit_values(
        self, records: Mapping[str, Records], protocol: str, metric: str, group: str
    ) -> Mapping[str, float]:
        """Return the value of each unit in a score: the same score, computed from this unit alone."""
        wanted = self.group_of_one(group)
        found = {}
        for key, record in records.items():
            own = [s for s in self.score([record], protocol) if (s.metric, s.group) == (metric, wanted)]
            found[key] = float(own[0].value) if own else float("nan")
        return found

    def group_of_one(self, group: str) -> str:
        """Return the group that holds a unit's value if `score` gets the records of this unit only."""
        return group
