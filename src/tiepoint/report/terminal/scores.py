# SPDX-License-Identifier: BSD-3-Clause
"""Scores of several runs as tables for the terminal: a row a method, a column a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.scores import caution_note
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import MetricInfo, Task
from ..leaderboard import cautions_of, expand_columns, heading, with_better
from ..runs.names import distinct_names
from ..runs.sections import is_single
from .tss_tables import subset_table


def shown_columns(runs: Sequence[Run], task: Task, protocol: str) -> list[tuple[str, str]]:
    """The (metric, group) columns of a table of one task and protocol."""
    scores = [s for run in runs for s in run.stored.scores if s["protocol"] == protocol]
    seen = dict.fromkeys((s["metric"], s["group"]) for s in scores if not is_single(s["group"]))
    return with_better(task, expand_columns(task, task.table_columns(list(seen)), runs), scores)


def score_text(score: Any, info: MetricInfo) -> str:
    """Value with its interval, fractions in percent: ``81.20 [79.0, 83.1]``; a caution is marked ``*``."""
    if score is None:
        return ""
    if score["value"] is None:
        return "–"
    factor, unit = info.scale
    if not unit and float(score["value"]).is_integer():
        return f"{score['value']:,.0f}"
    text = f"{factor * score['value']:.2f}"
    if score["low"] is not None and score["high"] is not None:
        text += f" [{factor * score['low']:.1f}, {factor * score['high']:.1f}]"
    return f"{text} *" if caution_note(score.get("note")) else text


def score_tables(runs: Sequence[Run]) -> list[Any]:
    """One rich table a task and protocol, for `tss` its subsets too; intervals by scene, chance below.

    Below a table stands what its marks mean, at the end what the scores that come first are.
    """
    from rich.text import Text

    from .rich_table import FittingTable

    tables: list[Any] = []
    for name in dict.fromkeys(r.task for r in runs):
        task = stored_task(name)
        mine = [r for r in runs if r.task == name]
        for protocol in dict.fromkeys(s["protocol"] for r in mine for s in r.stored.scores):
            columns = shown_columns(mine, task, protocol)
            names = dict(zip((r.id for r in mine), distinct_names(mine), strict=True))
            by = {
                (r.id, s["metric"], s["group"]): s
                for r in mine
                for s in r.stored.scores
                if s["protocol"] == protocol
            }
            shown = [by.get((r.id, m, g)) for r in mine for m, g in columns]
            title = f"{name}, protocol {protocol} (percent unless a unit is given; {intervals_words(shown)})"
            title += f"; {task.info.table_note}" if task.info.table_note else ""
            table = FittingTable(title=title)
            table.add_column("method")
            table.add_column("run")
            for metric, group in columns:
                head = heading(task, metric, group, between="\n")
                table.add_column(head, justify="right", overflow="fold")
            for r in mine:
                cells = (Text(score_text(by.get((r.id, m, g)), task.metric(m))) for m, g in columns)
                table.add_row(Text(names[r.id]), r.id, *cells)
            chance = [_chance([by.get((r.id, m, g)) for r in mine], task.metric(m)) for m, g in columns]
            if any(chance):
                table.add_section()
                table.add_row("chance", "", *chance, style="dim")
            tables.append(table)
            tables += [Text(f"* {text}") for text in cautions_of(shown)]
            if name == "tss":
                tables.append(subset_table(mine, names, protocol))
    return tables + [Text(remark) for remark in dict.fromkeys(t for r in runs for t in r.remarks)]


def intervals_words(scores: Sequence[Any]) -> str:
    """Which intervals a table of these scores has; without any, why, where all give one reason.

    >>> intervals_words([{"value": 0.5, "low": None, "note": "alpha 0.1; 4 scenes: no interval below 6"}])
    'no confidence interval: 4 scenes: no interval below 6'
    """
    if any(s is not None and s["low"] is not None for s in scores):
        return "95 % confidence interval"
    notes = {str(s["note"]) for s in scores if s is not None and s["note"]}
    parts = [tuple(p for p in note.split("; ") if "interval" in p or "spread" in p) for note in notes]
    reasons = {"; ".join(p) for p in parts if p}
    return f"no confidence interval: {reasons.pop()}" if len(reasons) == 1 else "no confidence interval"


def _chance(scores: Sequence[Any], info: MetricInfo) -> str:
    for score in scores:
        if score is not None and score["chance"] is not None:
            return f"{info.scale[0] * score['chance']:.2f}"
    return ""
