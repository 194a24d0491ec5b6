# SPDX-License-Identifier: BSD-3-Clause
"""One run under every protocol of its task, and the gap between them step by step: values and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError
from ...core.scores import ScoreRow
from ...run.context import Progress, no_progress
from ...run.result import Run
from ...store.store import Store
from ...tasks import stored_task
from ...tasks.base import Task
from ...tasks.info import metric_info, table_columns
from ...tasks.steps import StepTable
from ..cells import value_text
from ..convention_tables import run_steps
from ..leaderboard import heading
from ..runs.lazy_records import scored_records

SHOWN = ("protocol", "metric", "group", "value", "n", "low", "high", "note")
"""Columns of the scores that JSON has."""


@dataclass(frozen=True)
class RunConventions:
    """`scores`: the overall scores under each protocol. `steps`: from one protocol to another, by metric.

    `missing` says of protocols without scores what to do, `notes` what the scores say about themselves.
    """

    task: str
    scores: list[ScoreRow]
    steps: list[StepTable]
    missing: dict[str, str]
    notes: list[str]

    @property
    def protocols(self) -> list[str]:
        """Protocols that have scores, in the order of the task."""
        return list(dict.fromkeys(s.protocol for s in self.scores))


def conventions_of(run: Run, store: Store | None = None, progress: Progress = no_progress) -> RunConventions:
    """The run under every protocol that its scores and records can give.

    Where the steps between protocols need comparisons of their own, these are made from the features that
    `store` has; `progress` is told.

    Raises:
        InputError: The task has one protocol, or the run has scores under one and no records for steps.
    """
    task = stored_task(run.task)
    if len(task.protocols) == 1:
        only = task.protocols[0]
        raise InputError(f"task {task.name} has one protocol only, {only}: there is nothing to tell apart")
    scores: list[ScoreRow] = []
    missing: dict[str, str] = {}
    for protocol in task.protocols:
        try:
            own = _overall(run, task, protocol)
        except InputError as e:
            own, missing[protocol] = [], str(e)
        scores += own
        if not own:
            missing.setdefault(protocol, _how_to_get(run, task, protocol))
    steps, reason = run_steps(run, task, store, progress)
    if reason is not None and len({s.protocol for s in scores}) < 2:
        raise InputError(reason)
    notes = [f"{s.protocol}: {s.note}" for s in scores if s.note]
    return RunConventions(
        run.task, scores, steps, missing, [*dict.fromkeys(notes), *([reason] if reason else [])]
    )


def _overall(run: Run, task: Task, protocol: str) -> list[ScoreRow]:
    """Scores of group `all`, as stored or else from the records; empty without either."""
    stored = [s for s in run.score_rows if s.protocol == protocol and s.group == "all"]
    if not stored:
        records = scored_records(run, task, protocol)
        made = task.score(records, protocol) if records else []
        stored = [
            ScoreRow(s.protocol, s.metric, s.group, value, s.n, s.low, s.high, chance=s.chance, note=s.note)
            for s in made
            for value in [None if math.isnan(s.value) else s.value]
            if s.group == "all"
        ]
    shown = table_columns(task.info, [(s.metric, "all") for s in stored])
    by = {s.metric: s for s in stored}
    return [by[metric] for metric, _ in shown]


def _how_to_get(run: Run, task: Task, protocol: str) -> str:
    all_of_them = ",".join(task.protocols)
    return (
        f"{protocol} compares by rules of its own, and run {run.id} was not made under it; "
        f'run it with `protocol="{all_of_them}"`'
    )


def conventions_json(found: RunConventions) -> dict[str, Any]:
    """Everything as plain values, in fractions."""
    return {
        "protocols": [{k: getattr(s, k) for k in SHOWN} for s in found.scores],
        "steps": [
            {
                "title": f"{found.task} {table.title}",
                "steps": [
                    {"step": name, "value": _finite(value), "change": change}
                    for name, value, change in with_changes(table.steps)
                ],
            }
            for table in found.steps
        ],
        "missing": [{"protocol": p, "reason": why} for p, why in found.missing.items()],
        "notes": found.notes,
    }


def with_changes(steps: Sequence[tuple[str, float]]) -> list[tuple[str, float, float | None]]:
    """Steps with the change each makes; None for the first, and where a value is not known.

    >>> with_changes([("a", 0.5), ("b", 0.75)])
    [('a', 0.5, None), ('b', 0.75, 0.25)]
    """
    found: list[tuple[str, float, float | None]] = []
    before: float | None = None
    for name, value in steps:
        found.append((name, value, None if before is None else _finite(value - before)))
        before = value
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def terminal_convention_tables(found: RunConventions) -> list[Any]:
    """Tables for the terminal: the scores a column a protocol, then the steps of each metric."""
    from rich.text import Text

    from .rich_table import FittingTable

    name, task = found.task, stored_task(found.task)
    tables = []
    if found.scores:
        first = FittingTable(title=f"{name} under each protocol")
        first.add_column("score")
        for protocol in found.protocols:
            first.add_column(protocol, justify="right")
        by = {(s.metric, s.protocol): s.value for s in found.scores}
        for metric in dict.fromkeys(s.metric for s in found.scores):
            row = [value_text(metric_info(task.info, metric), by.get((metric, p))) for p in found.protocols]
            first.add_row(Text(heading(task, metric, "all")), *row)
        tables.append(first)
    for explained in found.steps:
        table = FittingTable(title=f"{name} {explained.title}", wraps=("step",))
        table.add_column("step")
        table.add_column("value", justify="right")
        table.add_column("change", justify="right")
        info = metric_info(task.info, explained.metric)
        for step, value, change in with_changes(explained.steps):
            changed = "" if change is None else value_text(info, change, change=True)
            table.add_row(Text(step), value_text(info, value), changed)
        tables.append(table)
    return tables
