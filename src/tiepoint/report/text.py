# SPDX-License-Identifier: BSD-3-Clause
"""Scores of several runs as tables for the terminal: a row a method, a column a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..run.result import Run


def shown_groups(runs: Sequence[Run], task: str, protocol: str) -> list[tuple[str, str]]:
    """The (metric, group) columns of a table: the `all` groups, else all that are not by scene."""
    seen: dict[tuple[str, str], None] = {}
    for run in runs:
        if run.task == task:
            for s in run.stored.scores:
                if s["protocol"] == protocol and "scene=" not in s["group"] and "pair=" not in s["group"]:
                    seen[(s["metric"], s["group"])] = None
    overall = [c for c in seen if c[1] == "all"]
    return overall or list(seen)


def cell(score: Any, *, best: bool = False) -> str:
    """Value in percent with its interval: ``81.2 [79.0, 83.1]``."""
    if score is None:
        return ""
    if score["value"] is None:
        return "–"
    text = f"{100 * score['value']:.2f}"
    if score["low"] is not None and score["high"] is not None:
        text += f" [{100 * score['low']:.1f}, {100 * score['high']:.1f}]"
    return f"[bold]{text}[/bold]" if best else text


def score_tables(runs: Sequence[Run]) -> list[Any]:
    """One rich table a task and protocol; values in percent, 95 % intervals by scene, chance below."""
    from rich.markup import escape
    from rich.table import Table

    tables = []
    for task in dict.fromkeys(r.task for r in runs):
        mine = [r for r in runs if r.task == task]
        for protocol in dict.fromkeys(s["protocol"] for r in mine for s in r.stored.scores):
            columns = shown_groups(mine, task, protocol)
            table = Table(title=f"{task}, protocol {protocol} (percent, 95 % interval)", title_justify="left")
            table.add_column("method")
            for metric, group in columns:
                table.add_column(metric if group == "all" else f"{metric}\n{group}", justify="right")
            by = {
                (r.id, s["metric"], s["group"]): s
                for r in mine
                for s in r.stored.scores
                if s["protocol"] == protocol
            }
            for r in mine:
                table.add_row(escape(r.method), *(escape(cell(by.get((r.id, m, g)))) for m, g in columns))
            chance = [
                next((by[(r.id, m, g)]["chance"] for r in mine if (r.id, m, g) in by), None)
                for m, g in columns
            ]
            if any(c is not None for c in chance):
                table.add_section()
                table.add_row("chance", *("" if c is None else f"{100 * c:.2f}" for c in chance), style="dim")
            tables.append(table)
    return tables
