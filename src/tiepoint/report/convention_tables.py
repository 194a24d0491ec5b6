# SPDX-License-Identifier: BSD-3-Clause
"""The same run under each protocol, and what each rule alone is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..core.errors import InputError
from ..run.context import Progress
from ..run.recompare import extra_records
from ..run.result import Run
from ..store.store import Store
from ..tasks.base import MetricInfo, Task
from ..tasks.capabilities import HasConventionSteps, HasIntermediateSteps
from ..tasks.info import metric_info, score_title
from ..tasks.steps import StepTable
from .cells import value_text
from .runs.lazy_records import no_records, scored_records
from .runs.sections import TaskSection

MAX_RECORDS = 200_000
MAX_CONVENTION_METHODS = 6
"""Each step scores all records anew, so only the best methods are taken apart."""

STEP_MOST = 18


@dataclass(frozen=True)
class ConventionTable:
    """Rows of (method, texts); `legend` says in words what the columns are."""

    title: str
    columns: tuple[str, ...]
    legend: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""


def conventions(section: TaskSection) -> list[ConventionTable]:
    """The headline score under every stored protocol, then step by step where the task can tell."""
    first = by_protocol(section)
    return [*([] if first is None else [first]), *by_step(section)]


def by_protocol(section: TaskSection) -> ConventionTable | None:
    """The headline score of each run under the protocols it was scored by; None where there is only one."""
    scores = {
        (r.id, s.protocol): s.value
        for r in section.runs
        for s in r.score_rows
        if (s.metric, s.group) == (section.metric, section.group)
    }
    have = sorted({p for _, p in scores}, key=lambda p: (p != section.protocol, p))
    if len(have) < 2:
        return None
    rows = [
        (section.names[r.id], tuple(value_text(section.info, scores.get((r.id, p))) for p in have))
        for r in section.runs
    ]
    return ConventionTable(
        f"{_capital(section.score_words)} under each protocol", tuple(have), (), tuple(rows)
    )


def run_steps(
    run: Run, task: Task, store: Store | None, progress: Progress
) -> tuple[list[StepTable], str | None]:
    """Return the tables of steps of a run, and why there are none if the task has them."""
    records = scored_records(run, task, "exact")
    if store is not None and isinstance(task, HasIntermediateSteps):
        by_protocol = {p: own for p in task.protocols if (own := scored_records(run, task, p))}
        if wanted := task.intermediate_comparisons(list(by_protocol)):
            try:
                extra = extra_records(store, run.stored, wanted, progress)
            except InputError as e:
                return [], str(e)
            known = {task.comparison(p): own for p, own in by_protocol.items()}
            return task.convention_steps_between({**known, **extra}), None
    if not isinstance(task, HasConventionSteps):
        return [], None
    try:
        found = task.convention_steps(records)
    except InputError as e:
        return [], str(e)
    return (found, None) if records else ([], no_records(run))


def by_step(section: TaskSection) -> list[ConventionTable]:
    """One table a metric: the value under the first convention, then the change of each step."""
    tables: dict[tuple[str, str], list[tuple[str, list[tuple[str, float]]]]] = {}
    task = section.definition
    if not isinstance(task, HasConventionSteps):
        return []
    for run, records in _affordable(section):
        try:
            explained = task.convention_steps(records)
        except InputError:
            continue  # imported results: the task says that they cannot be told apart
        for table in explained:
            if table.steps:
                place = (table.metric, table.title)
                tables.setdefault(place, []).append((section.names[run.id], table.steps))
    taken = max((len(t) for t in tables.values()), default=0)
    every = len(section.methods)
    note = f"The best {taken} of {every} methods are taken apart." if taken < every else ""
    return [
        _table(
            _capital(score_title(task.info, metric)) + of.removeprefix(metric),
            metric_info(task.info, metric),
            by,
            note,
        )
        for (metric, of), by in tables.items()
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _affordable(section: TaskSection) -> list[tuple[Run, list[Any]]]:
    found: list[tuple[Run, list[Any]]] = []
    total = 0
    for run in section.methods or section.runs:
        records = scored_records(run, section.definition, "exact")
        total += sum(len(r) for r in records)
        if len(found) == MAX_CONVENTION_METHODS or (found and total > MAX_RECORDS):
            break
        if records:
            found.append((run, records))
    return found


def _table(
    title: str, info: MetricInfo, by: Sequence[tuple[str, list[tuple[str, float]]]], note: str
) -> ConventionTable:
    steps = list(dict.fromkeys(name for _, s in by for name, _ in s))
    rows = []
    for method, mine in by:
        values = [dict(mine).get(step, math.nan) for step in steps]
        known = [v for v in values if not math.isnan(v)]
        cells = [value_text(info, values[0])]
        cells += [value_text(info, b - a, change=True) for a, b in pairwise(values)]
        cells.append(value_text(info, known[-1] if known else None))
        rows.append((method, tuple(cells)))
    heads = [_head(s) for s in steps]
    columns = (heads[0], *(f"{i} {h}".strip() for i, h in enumerate(heads[1:], start=1)), "last")
    return ConventionTable(f"{title} step by step", columns, tuple(steps), tuple(rows), note)


def _head(step: str) -> str:
    """A short name of a step: what stands before its colon or bracket, if that is short.

    >>> _head("ties: expectation over random orders"), _head("a tie is one step of the curve")
    ('ties', '')
    """
    name = step.split(":")[0].split(" (")[0].strip()
    return name if len(name) <= STEP_MOST else ""
