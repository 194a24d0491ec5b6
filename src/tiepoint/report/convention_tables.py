# SPDX-License-Identifier: BSD-3-Clause
"""Create tables of scores under each protocol, and of the conventions that explain their differences."""

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
from .compare.protocol_order import order_sentence, protocol_scores, step_name, step_order_sentence
from .runs.lazy_records import no_records, scored_records
from .runs.sections import TaskSection

MAX_RECORDS = 200_000
MAX_CONVENTION_METHODS = 6
"""Maximum number of methods to analyse. Each convention change scores all records again, which is slow."""


@dataclass(frozen=True)
class ConventionTable:
    """A table with rows (method, cell texts). `legend` explains the columns.

    `order` states whether the order of methods changes between the protocols, or which step changes it.
    """

    title: str
    columns: tuple[str, ...]
    legend: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""
    order: str = ""


def conventions(section: TaskSection) -> list[ConventionTable]:
    """Return tables of the headline score by protocol, and of the convention changes between protocols."""
    first = by_protocol(section)
    return [*([] if first is None else [first]), *by_step(section)]


def by_protocol(section: TaskSection) -> ConventionTable | None:
    """Return the headline score of each run under its protocols. None if there is only one protocol."""
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
    by = protocol_scores(section.names, section.runs, section.metric, section.group, section.protocol)
    order = order_sentence(by, lower=section.info.lower)
    title = f"{_capital(section.score_words)} under each protocol"
    return ConventionTable(title, tuple(have), (), tuple(rows), order=order)


def run_steps(
    run: Run, task: Task, store: Store | None, progress: Progress
) -> tuple[list[StepTable], str | None]:
    """Return tables of the steps that lead from one protocol to another, or the reason why there are none."""
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
    """Return one table per metric: the value under the first protocol, then the change by each step.

    A step changes one convention on the way from one protocol to another.
    """
    tables: dict[tuple[str, str], list[tuple[str, list[tuple[str, float]]]]] = {}
    task = section.definition
    if not isinstance(task, HasConventionSteps):
        return []
    for run, records in _affordable(section):
        try:
            explained = task.convention_steps(records)
        except InputError:
            continue  # Imported results have no steps.
        for table in explained:
            if table.steps:
                key = (table.metric, table.title)
                tables.setdefault(key, []).append((section.names[run.id], table.steps))
    analysed = max((len(t) for t in tables.values()), default=0)
    every = len(section.methods)
    note = f"The best {analysed} of {every} methods are analysed." if analysed < every else ""
    return [
        _table(
            _capital(score_title(task.info, metric)) + title.removeprefix(metric),
            metric_info(task.info, metric),
            by,
            note,
        )
        for (metric, title), by in tables.items()
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _affordable(section: TaskSection) -> list[tuple[Run, list[Any]]]:
    """Return the best runs with their records, up to the maximum numbers of methods and records."""
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
    for method, own in by:
        values = [dict(own).get(step, math.nan) for step in steps]
        known = [v for v in values if not math.isnan(v)]
        cells = [value_text(info, values[0])]
        cells += [value_text(info, b - a, change=True) for a, b in pairwise(values)]
        cells.append(value_text(info, known[-1] if known else None))
        rows.append((method, tuple(cells)))
    heads = [step_name(s) for s in steps]
    columns = (heads[0], *(f"{i} {h}".strip() for i, h in enumerate(heads[1:], start=1)), "last")
    values_by_step: dict[str, dict[str, float]] = {step: {} for step in steps}
    for method, values_of in by:
        for step, value in values_of:
            if not math.isnan(value):
                values_by_step[step][method] = value
    order = step_order_sentence(values_by_step, lower=info.lower)
    return ConventionTable(f"{title} step by step", columns, tuple(steps), tuple(rows), note, order)
