# SPDX-License-Identifier: BSD-3-Clause
"""Compute the scores of a run under each protocol, and the convention changes between protocols."""

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
from ...tasks.info import headline_column, metric_info, table_columns
from ...tasks.steps import StepTable
from ..cells import value_text
from ..compare.protocol_order import order_sentence, protocol_scores
from ..compare.runs import shared_protocol
from ..convention_tables import run_steps
from ..leaderboard import heading
from ..runs.lazy_records import scored_records
from ..runs.names import distinct_names
from ..runs.selection import runs_of

SHOWN = ("protocol", "metric", "group", "value", "n", "low", "high", "note")
"""Columns of the scores in JSON."""


@dataclass(frozen=True)
class RunConventions:
    """Scores of a run under each protocol, and the steps from one protocol to another.

    `scores` are of group `all`. `steps` has a table per metric, in which each step changes one convention.
    `missing` has advice for each protocol without scores. `notes` has the notes of the scores. `order` states
    whether the order of the stored methods changes between the protocols; empty if there is one method.
    """

    task: str
    scores: list[ScoreRow]
    steps: list[StepTable]
    missing: dict[str, str]
    notes: list[str]
    order: str = ""

    @property
    def protocols(self) -> list[str]:
        """Protocols that have scores, in the order of the task."""
        return list(dict.fromkeys(s.protocol for s in self.scores))


def conventions_of(run: Run, store: Store | None = None, progress: Progress = no_progress) -> RunConventions:
    """Return the scores of a run under each protocol that is stored or can be computed from records.

    Some steps between protocols need additional comparisons. These are computed from the features in `store`,
    with calls to `progress`.

    Raises:
        InputError: The task has only one protocol, or the run has only one protocol and no records for steps.
    """
    task = stored_task(run.task)
    if len(task.protocols) == 1:
        only = task.protocols[0]
        raise InputError(f"task {task.name} has only the protocol {only}, so there is nothing to compare")
    scores: list[ScoreRow] = []
    missing: dict[str, str] = {}
    for protocol in task.protocols:
        try:
            own = _overall(run, task, protocol)
        except InputError as e:
            own, missing[protocol] = [], str(e)
        scores += own
        if not own:
            missing.setdefault(
                protocol,
                f"{protocol} needs its own comparison, but run {run.id} lacks this protocol; "
                f'run it with `protocol="{",".join(task.protocols)}"`',
            )
    steps, reason = run_steps(run, task, store, progress)
    if reason is not None and len({s.protocol for s in scores}) < 2:
        raise InputError(reason)
    notes = [f"{s.protocol}: {s.note}" for s in scores if s.note]
    order = "" if store is None else _order(run, task, store)
    return RunConventions(
        run.task, scores, steps, missing, [*dict.fromkeys(notes), *([reason] if reason else [])], order
    )


def _order(run: Run, task: Task, store: Store) -> str:
    """State whether the order of methods on the same dataset and pair lists differs between protocols."""
    own = run.manifest
    alike = [
        r
        for r in runs_of(store, task=run.task, singles=False)
        if (r.manifest.dataset.hash, r.manifest.lists) == (own.dataset.hash, own.lists)
    ]
    column = headline_column(task.info, [(s.metric, s.group) for s in run.score_rows])
    if column is None:
        return ""
    names = {r.id: name for r, name in zip(alike, distinct_names(alike), strict=True)}
    first = shared_protocol(alike)
    by = protocol_scores(names, alike, *column, first)
    return order_sentence(by, lower=metric_info(task.info, column[0]).lower)


def _overall(run: Run, task: Task, protocol: str) -> list[ScoreRow]:
    """Return the scores of group `all`, stored or computed from records. Empty if neither exists."""
    stored = [s for s in run.score_rows if s.protocol == protocol and s.group == "all"]
    if not stored:
        records = scored_records(run, task, protocol)
        stored = [
            ScoreRow(s.protocol, s.metric, s.group, value, s.n, s.low, s.high, chance=s.chance, note=s.note)
            for s in (task.score(records, protocol) if records else [])
            for value in [None if math.isnan(s.value) else s.value]
            if s.group == "all"
        ]
    shown = table_columns(task.info, [(s.metric, "all") for s in stored])
    by = {s.metric: s for s in stored}
    return [by[metric] for metric, _ in shown]


def conventions_json(found: RunConventions) -> dict[str, Any]:
    """Return all values as a JSON-serialisable dict. Scores are fractions."""
    return {
        "order": found.order,
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
    """Return (name, value, change) of each step. The change is None for the first step and unknown values.

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
    """Return tables for the terminal: scores with a column per protocol, then the steps of each metric.

    Metrics that no step changes share one line.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    name, task = found.task, stored_task(found.task)
    tables: list[Any] = []
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
    same = [explained.title for explained in found.steps if _is_constant(explained.steps)]
    for explained in found.steps:
        if explained.title in same:
            continue
        table = FittingTable(title=f"{name} {explained.title}", wraps=("step",))
        table.add_column("step")
        table.add_column("value", justify="right")
        table.add_column("change", justify="right")
        info = metric_info(task.info, explained.metric)
        for step, value, change in with_changes(explained.steps):
            changed = "" if change is None else value_text(info, change, change=True)
            table.add_row(Text(step), value_text(info, value), changed)
        tables.append(table)
    if same:
        tables.append(Text(f"no step changes {', '.join(same)}"))
    return tables


def _is_constant(steps: Sequence[tuple[str, float]]) -> bool:
    """Return whether all values are equal but for rounding."""
    return all(math.isclose(value, steps[0][1], abs_tol=1e-9) for _, value in steps)
