# SPDX-License-Identifier: BSD-3-Clause
"""What a report shows, gathered from runs: tasks, their headline score, methods in order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...core.records import Records
from ...core.scores import ScoreRow
from ...run.result import Run, Tables
from ...tasks import stored_task
from ...tasks.base import MetricInfo, Task
from ...tasks.info import headline_column, metric_info, score_title
from .lazy_records import scene_tables, scored_records
from .names import DisplayNames, data_names, distinct_names

CANARIES = frozenset({"constant", "random", "oracle"})
"""Methods that are there to show chance and the ceiling."""

MANY, BEST = 300, 60
"""Of more methods than `MANY` in a section, figures show the `BEST`, and records are read of these only."""


def canary_of(run: Run) -> str | None:
    """The canary a run is of, whatever its name and parameters: `constant`, `random` or `oracle`."""
    found = re.split("[?@]", run.manifest.method.spec or run.method)[0]
    return found if found in CANARIES else None


def is_canary(run: Run) -> bool:
    """Whether a run only shows chance or the ceiling."""
    return canary_of(run) is not None


def is_single(group: str) -> bool:
    """Whether a group is one scene or one pair of images.

    >>> is_single("noise=hard"), is_single("direction=1,pair=a")
    (False, True)
    """
    return any(part.startswith(("scene=", "pair=")) for part in group.split(","))


def drawable(methods: int) -> int:
    """How many of that many methods, the best, are drawn.

    >>> drawable(300), drawable(301)
    (300, 60)
    """
    return methods if methods <= MANY else BEST


@dataclass(frozen=True)
class TaskSection:
    """The runs of one task under one protocol, best first by the headline score.

    `dataset` names the data where the report has runs of the task on several. `looks` numbers the methods of
    the whole report, so that one keeps its colour from figure to figure. A section that is `more` has the
    protocol of runs that the first section of the task and the dataset leaves out. `called` has the names
    that methods and metrics are shown with in figures.
    """

    task: str
    protocol: str
    metric: str
    group: str
    runs: tuple[Run, ...]
    looks: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    dataset: str = ""
    called: DisplayNames = field(default_factory=DisplayNames)

    @property
    def title(self) -> str:
        """Name of the section, unique in a report: the task, and its dataset and protocol where needed."""
        parts = [*([f"on {self.dataset}"] if self.dataset else []), *([self.protocol] if self.more else [])]
        return f"{self.task} ({', '.join(parts)})" if parts else self.task

    @property
    def words(self) -> str:
        """The title in words: ``HPatches 2017 matching (on full)``."""
        return self.task_title + self.title.removeprefix(self.task)

    @property
    def task_title(self) -> str:
        """The task as text: ``Relative pose``."""
        return self.definition.info.title or self.task

    def score_title(self, metric: str, group: str) -> str:
        """Return a score as text, with its threshold."""
        return score_title(self.definition.info, metric, group)

    @property
    def score_words(self) -> str:
        """The headline score in words, or as it is called."""
        given = self.called.metrics.get(self.metric)
        return given or self.score_title(self.metric, self.group)

    @cached_property
    def names(self) -> dict[str, str]:
        """Name of each run by its id: the method, with what differs where a method ran twice."""
        names = zip(self.runs, distinct_names(self.runs), strict=True)
        return {r.id: self.called.method(name, r.method) for r, name in names}

    @cached_property
    def methods(self) -> tuple[Run, ...]:
        """The runs without canaries."""
        return tuple(r for r in self.runs if not is_canary(r))

    @property
    def inspected(self) -> tuple[Run, ...]:
        """The methods whose records are read: all, or of very many the best."""
        return self.methods[: drawable(len(self.methods))]

    @property
    def definition(self) -> Task:
        """The task itself."""
        return stored_task(self.task)

    @property
    def info(self) -> MetricInfo:
        """Facts of the headline metric."""
        return metric_info(self.definition.info, self.metric)

    @cached_property
    def _rows(self) -> dict[str, dict[tuple[str, str], ScoreRow]]:
        return {
            r.id: {(s.metric, s.group): s for s in r.score_rows if s.protocol == self.protocol}
            for r in self.runs
        }

    def records(self, run: Run) -> list[Records]:
        """Records of a run for this section's protocol."""
        return scored_records(run, self.definition, self.protocol)

    def tables(self, run: Run) -> Tables:
        """The scene values behind the scores of a run under this section's protocol."""
        return scene_tables(run, self.protocol) or {}

    def score(self, run: Run, metric: str | None = None, group: str | None = None) -> ScoreRow | None:
        """A score of a run in this section, None where there is none."""
        return self._rows[run.id].get((metric or self.metric, self.group if group is None else group))

    def rows(self, run: Run) -> Mapping[tuple[str, str], ScoreRow]:
        """All scores of a run under this section's protocol, by metric and group."""
        return self._rows[run.id]

    def scene_rows(self, run: Run) -> Mapping[str, ScoreRow]:
        """The scores of a run by the headline metric in single scenes, by the name of the scene."""
        rows = self.rows(run)
        if run.load_single_scores is not None:
            rows = {(s.metric, s.group): s for s in run.load_single_scores() if s.protocol == self.protocol}
        return {
            group.removeprefix("scene="): s
            for (metric, group), s in rows.items()
            if metric == self.metric and group.startswith("scene=") and "," not in group
        }

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """(metric, group) of every score that is neither of one scene nor of a single pair."""
        seen = dict.fromkeys(c for rows in self._rows.values() for c in rows if not is_single(c[1]))
        return [c for c in seen if c[0] != "metadata"]

    @cached_property
    def oracle(self) -> Run | None:
        """The run of the canary that knows the answers."""
        return next((r for r in self.runs if canary_of(r) == "oracle"), None)


def sections(
    runs: Sequence[Run], protocol: str = "exact", called: DisplayNames | None = None
) -> list[TaskSection]:
    """One section a task and dataset, in alphabetical order, and another for runs without its protocol.

    Runs without the wanted protocol (imported results) take the one most of them have; all runs of the task
    on the dataset that were scored under it stand in that section. Every run with scores is in a section.
    """
    found: list[TaskSection] = []
    for task in sorted({r.task for r in runs}):
        for dataset, members in _by_dataset([r for r in runs if r.task == task and r.score_rows]).items():
            found += _of_dataset(task, dataset, members, protocol)
    found = found if called is None else [replace(s, called=called) for s in found]
    names = dict.fromkeys(n for s in found for r in s.methods for n in [s.names[r.id]])
    looks = {name: i for i, name in enumerate(names)}
    return [replace(s, looks=looks) for s in found]


def _by_dataset(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of a task by the name of their dataset, with the start of its hash where two share a name.

    The name is empty where there is only one. Imported results do not say what they were made on: they stand
    beside the runs of the only dataset, or by themselves where there are several.
    """
    names = data_names(runs)
    if len(names) < 2:
        return {"": list(runs)} if runs else {}
    found: dict[str, list[Run]] = {}
    for run in runs:
        label = (
            names[run.manifest.dataset.hash] if not run.manifest.is_imported else "unknown data (imported)"
        )
        found.setdefault(label, []).append(run)
    return dict(sorted(found.items()))


def _of_dataset(task: str, dataset: str, runs: Sequence[Run], protocol: str) -> list[TaskSection]:
    found: list[TaskSection] = []
    left = list(runs)
    while left:
        have = [p for r in left for p in {s.protocol for s in r.score_rows}]
        often = Counter(have)
        chosen = protocol if protocol in often else min(often, key=lambda p: (-often[p], p))
        members = [r for r in runs if any(s.protocol == chosen for s in r.score_rows)]
        taken = {m.id for m in members}
        left = [r for r in left if r.id not in taken]
        ordered = tuple(sorted(members, key=lambda r: (r.method, r.id)))
        draft = TaskSection(task, chosen, "", "all", ordered, more=bool(found), dataset=dataset)
        best = headline_column(draft.definition.info, draft.columns)
        if best is not None:
            found.append(_in_order(replace(draft, metric=best[0], group=best[1])))
    return found


def _in_order(section: TaskSection) -> TaskSection:
    sign = 1.0 if section.info.lower else -1.0

    def order(run: Run) -> tuple[bool, float, str, str]:
        s = section.score(run)
        value = None if s is None else s.value
        return (value is None, sign * (value or 0.0), run.method, run.id)

    return replace(section, runs=tuple(sorted(section.runs, key=order)))
