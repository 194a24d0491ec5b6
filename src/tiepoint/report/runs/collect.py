# SPDX-License-Identifier: BSD-3-Clause
"""What a report shows, gathered from runs: tasks, their headline score, methods in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...model.records import Records
from ...model.scores import Score
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import MetricInfo, Task
from .names import distinct_names
from .rescore import numbers_of, records_of

CANARIES = frozenset({"constant", "random", "oracle"})
"""Methods that are there to show chance and the ceiling."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """The runs of one task under one protocol, best first by the headline score.

    `looks` numbers the methods of the whole report, so that one keeps its colour from figure to figure. A
    section that is `more` has the protocol of runs that the task's first section leaves out.
    """

    task: str
    protocol: str
    metric: str
    group: str
    runs: tuple[Run, ...]
    looks: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def title(self) -> str:
        """Name of the section, unique in a report: the task, and the protocol where it is not the first."""
        return f"{self.task} ({self.protocol})" if self.more else self.task

    @cached_property
    def names(self) -> dict[str, str]:
        """Name of each run by its id: the method, with what differs where a method ran twice."""
        return dict(zip((r.id for r in self.runs), distinct_names(self.runs), strict=True))

    @property
    def methods(self) -> tuple[Run, ...]:
        """The runs without canaries."""
        return tuple(r for r in self.runs if r.method not in CANARIES)

    @property
    def definition(self) -> Task:
        """The task itself."""
        return stored_task(self.task)

    @property
    def info(self) -> MetricInfo:
        """Facts of the headline metric."""
        return self.definition.metric(self.metric)

    @cached_property
    def _rows(self) -> dict[str, dict[tuple[str, str], Row]]:
        return {
            r.id: {
                (str(s["metric"]), str(s["group"])): s
                for s in r.stored.scores
                if s["protocol"] == self.protocol
            }
            for r in self.runs
        }

    @cached_property
    def _scored(self) -> dict[str, list[Score]]:
        task = self.definition
        return {
            r.id: task.score(own, self.protocol) if (own := self.records(r)) else numbers_of(r, self.protocol)
            for r in self.runs
        }

    def records(self, run: Run) -> list[Records]:
        """Records of a run for this section's protocol."""
        return records_of(run, self.definition, self.protocol)

    def scored(self, run: Run) -> list[Score]:
        """The scores of a run with their scene values; made from the records once, empty without them."""
        return self._scored.get(run.id, [])

    def score(self, run: Run, metric: str | None = None, group: str | None = None) -> Row | None:
        """A score of a run in this section, None where there is none."""
        return self._rows[run.id].get((metric or self.metric, self.group if group is None else group))

    def rows(self, run: Run) -> Mapping[tuple[str, str], Row]:
        """All scores of a run under this section's protocol, by metric and group."""
        return self._rows[run.id]

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """(metric, group) of every score that is neither of one scene nor of a single pair."""
        seen = dict.fromkeys(c for rows in self._rows.values() for c in rows if not _single(c[1]))
        return [c for c in seen if c[0] != "metadata"]

    @cached_property
    def oracle(self) -> Run | None:
        """The run of the canary that knows the answers."""
        return next((r for r in self.runs if r.method == "oracle"), None)


def _single(group: str) -> bool:
    return any(part.startswith(("scene=", "pair=")) for part in group.split(","))


def sections(runs: Sequence[Run], protocol: str = "exact") -> list[Section]:
    """One section a task, in alphabetical order, and another for runs without the protocol of the first.

    Runs without the wanted protocol (imported results) take the one most of them have; all runs of the task
    that were scored under it stand in that section.
    """
    found: list[Section] = []
    for task in sorted({r.task for r in runs}):
        mine = [r for r in runs if r.task == task]
        left = [r for r in mine if r.stored.scores]
        more = False
        while left:
            have = [p for r in left for p in {str(s["protocol"]) for s in r.stored.scores}]
            chosen = protocol if protocol in have else min(set(have), key=lambda p: (-have.count(p), p))
            members = [r for r in mine if any(s["protocol"] == chosen for s in r.stored.scores)]
            left = [r for r in left if r.id not in {m.id for m in members}]
            ordered = tuple(sorted(members, key=lambda r: (r.method, r.id)))
            draft = Section(task, chosen, "", "all", ordered, more=more)
            best = draft.definition.headline(draft.columns)
            if best is not None:
                found.append(_in_order(replace(draft, metric=best[0], group=best[1])))
                more = True
    names = dict.fromkeys(n for s in found for r in s.methods for n in [s.names[r.id]])
    looks = {name: i for i, name in enumerate(names)}
    return [replace(s, looks=looks) for s in found]


def _in_order(section: Section) -> Section:
    sign = 1.0 if section.info.lower else -1.0

    def order(run: Run) -> tuple[bool, float, str, str]:
        s = section.score(run)
        value = None if s is None else s["value"]
        return (value is None, sign * (value or 0.0), run.method, run.id)

    return replace(section, runs=tuple(sorted(section.runs, key=order)))
