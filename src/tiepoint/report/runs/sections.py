# SPDX-License-Identifier: BSD-3-Clause
"""Group runs into report sections: the runs of a task and protocol, sorted by headline score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ...core.records import Records
from ...core.scores import ScoreRow
from ...run.result import Run, Tables
from ...tasks import stored_task
from ...tasks.base import MetricInfo, Task
from ...tasks.info import headline_column, metric_info, score_title
from .lazy_records import scene_tables, scored_records
from .names import DisplayNames, data_names, distinct_names

MANY, BEST = 300, 60
"""If a section has more than `MANY` methods, figures and records are limited to the best `BEST`."""


def canary_of(run: Run) -> str | None:
    """Return the reference method of a run: `constant`, `random` or `oracle`. None for other methods."""
    return run.manifest.method.canary


def is_canary(run: Run) -> bool:
    """Return whether a run is of a reference method (`constant`, `random`, `oracle`)."""
    return canary_of(run) is not None


@lru_cache(maxsize=4096)
def is_single(group: str) -> bool:
    """Return whether a group is one scene or one pair of images.

    >>> is_single("noise=hard"), is_single("direction=1,pair=a")
    (False, True)
    """
    return any(part.startswith(("scene=", "pair=")) for part in group.split(","))


def drawable(methods: int) -> int:
    """Return the number of methods that figures show. Figures show the best methods.

    >>> drawable(300), drawable(301)
    (300, 60)
    """
    return methods if methods <= MANY else BEST


@dataclass(frozen=True)
class TaskSection:
    """The runs of one task under one protocol, best headline score first.

    `dataset` is set if the report has runs of the task on several datasets. `looks` has a number for each
    method, which determines its colour in all figures. `more` marks an additional section of the same task
    and dataset, for runs without the protocol of the first section. `display` has the display names, `test`
    the name of the test that compares the methods.
    """

    task: str
    protocol: str
    metric: str
    group: str
    runs: tuple[Run, ...]
    looks: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    dataset: str = ""
    display: DisplayNames = field(default_factory=DisplayNames)
    test: str = "sign-flip"

    @property
    def title(self) -> str:
        """Name of the section, unique in a report: the task, with dataset and protocol if needed."""
        parts = [*([f"on {self.dataset}"] if self.dataset else []), *([self.protocol] if self.more else [])]
        return f"{self.task} ({', '.join(parts)})" if parts else self.task

    @property
    def words(self) -> str:
        """Title of the section: ``HPatches 2017 matching (on full)``."""
        return self.task_title + self.title.removeprefix(self.task)

    @property
    def task_title(self) -> str:
        """Title of the task: ``Relative pose``."""
        return self.definition.info.title or self.task

    def score_title(self, metric: str, group: str) -> str:
        """Return the title of a score, including its threshold."""
        return score_title(self.definition.info, metric, group)

    @property
    def score_words(self) -> str:
        """Title of the headline score, or its display name."""
        return self.display.metrics.get(self.metric) or self.score_title(self.metric, self.group)

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of runs by id: the method, with distinguishing properties if it has several runs."""
        names = zip(self.runs, distinct_names(self.runs), strict=True)
        return {r.id: self.display.method(name, r.method) for r, name in names}

    @cached_property
    def methods(self) -> tuple[Run, ...]:
        """The runs without reference methods."""
        return tuple(r for r in self.runs if not is_canary(r))

    @property
    def inspected(self) -> tuple[Run, ...]:
        """The methods whose records are read: all, or only the best if there are more than `MANY`."""
        return self.methods[: drawable(len(self.methods))]

    @property
    def definition(self) -> Task:
        """The `Task` object of the section."""
        return stored_task(self.task)

    @property
    def intervals(self) -> str:
        """Text on what the intervals are about: scenes or, for runs on a subset, the complete benchmark."""
        if any(r.manifest.subset is not None for r in self.runs):
            return "95 % intervals about the complete benchmark, from estimates on a subset"
        return "95 % confidence intervals over scenes"

    @property
    def info(self) -> MetricInfo:
        """Description of the headline metric."""
        return metric_info(self.definition.info, self.metric)

    @property
    def no_ranking(self) -> str:
        """Why the headline score ranks no method: it is a count without a direction. Otherwise empty."""
        return "" if self.info.better is not None else "these runs have no score, only counts"

    @cached_property
    def _rows(self) -> dict[str, dict[tuple[str, str], ScoreRow]]:
        return {
            r.id: {(s.metric, s.group): s for s in r.score_rows if s.protocol == self.protocol}
            for r in self.runs
        }

    def records(self, run: Run) -> list[Records]:
        """Return the records of a run for this section's protocol."""
        return scored_records(run, self.definition, self.protocol)

    def tables(self, run: Run) -> Tables:
        """Return the scene values of a run under this section's protocol."""
        return scene_tables(run, self.protocol) or {}

    def score(self, run: Run, metric: str | None = None, group: str | None = None) -> ScoreRow | None:
        """Return a score of a run in this section. None if it does not exist."""
        return self._rows[run.id].get((metric or self.metric, self.group if group is None else group))

    def rows(self, run: Run) -> Mapping[tuple[str, str], ScoreRow]:
        """Return all scores of a run under this section's protocol, by metric and group."""
        return self._rows[run.id]

    def scene_rows(self, run: Run) -> Mapping[str, ScoreRow]:
        """Return the headline scores of a run in single scenes, by scene."""
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
        """(metric, group) of all scores except those of single scenes and pairs."""
        seen = dict.fromkeys(c for rows in self._rows.values() for c in rows if not is_single(c[1]))
        return [c for c in seen if c[0] != "metadata"]

    @cached_property
    def tied(self) -> dict[tuple[tuple[str, str], str], tuple[set[str], list[str]]]:
        """Cache of the runs that are not separated from the best one, by column and mark of ties."""
        return {}

    @cached_property
    def oracle(self) -> Run | None:
        """The run of the reference method `oracle`, which returns the ground truth. None if missing."""
        return next((r for r in self.runs if canary_of(r) == "oracle"), None)


def sections(
    runs: Sequence[Run],
    protocol: str = "exact",
    display: DisplayNames | None = None,
    *,
    test: str = "sign-flip",
) -> list[TaskSection]:
    """Group runs into sections by task and dataset, in alphabetical order.

    Runs without the requested protocol, such as imported results, get an additional section under their most
    frequent protocol. That section has all runs of the task and dataset with this protocol. Every run with
    scores is in a section. `test` is the test of the comparisons.
    """
    found: list[TaskSection] = []
    for task in sorted({r.task for r in runs}):
        for dataset, members in _by_dataset([r for r in runs if r.task == task and r.score_rows]).items():
            found += _by_protocol(task, dataset, members, protocol)
    found = found if display is None else [replace(s, display=display) for s in found]
    names = dict.fromkeys(s.names[r.id] for s in found for r in s.methods)
    looks = {name: i for i, name in enumerate(names)}
    return [replace(s, looks=looks, test=test) for s in found]


def _by_dataset(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs of a task by dataset name. If two datasets share a name, add the start of the hash.

    The name is empty if there is only one dataset. The dataset of imported results is unknown. With one
    dataset, imported results join its runs. With several datasets, they form a separate group.
    """
    names = data_names(runs)
    if len(names) < 2:
        return {"": list(runs)} if runs else {}
    found: dict[str, list[Run]] = {}
    for run in runs:
        m = run.manifest
        label = "unknown data (imported)" if m.is_imported else names[m.dataset.hash]
        found.setdefault(label, []).append(run)
    return dict(sorted(found.items()))


def _by_protocol(task: str, dataset: str, runs: Sequence[Run], protocol: str) -> list[TaskSection]:
    """Build sections of one task and dataset, one per protocol, until every run is in a section."""
    found: list[TaskSection] = []
    remaining = list(runs)
    while remaining:
        count = Counter(p for r in remaining for p in {s.protocol for s in r.score_rows})
        chosen = protocol if protocol in count else min(count, key=lambda p: (-count[p], p))
        members = [r for r in runs if any(s.protocol == chosen for s in r.score_rows)]
        ids = {m.id for m in members}
        remaining = [r for r in remaining if r.id not in ids]
        ordered = tuple(sorted(members, key=lambda r: (r.method, r.id)))
        draft = TaskSection(task, chosen, "", "all", ordered, more=bool(found), dataset=dataset)
        best = headline_column(draft.definition.info, draft.columns)
        if best is not None:
            found.append(_sort_runs(replace(draft, metric=best[0], group=best[1])))
    return found


def _sort_runs(section: TaskSection) -> TaskSection:
    """Sort the runs of a section by the headline score, best score first; by name if it ranks nothing."""
    if section.no_ranking:
        return section
    sign = 1.0 if section.info.lower else -1.0

    def order(run: Run) -> tuple[bool, float, str, str]:
        s = section.score(run)
        value = None if s is None else s.value
        return (value is None, sign * (value or 0.0), run.method, run.id)

    return replace(section, runs=tuple(sorted(section.runs, key=order)))
