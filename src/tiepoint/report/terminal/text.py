# SPDX-License-Identifier: BSD-3-Clause
"""Scores of several runs as tables for the terminal: a row a method, a column a score."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...run.result import Run
from ..figures.figure import scale_of
from ..runs.columns import full_name, spelled_out, table_columns
from .tss_tables import subset_table

TITLES = {
    "tss": "; flow_accuracy is T5, within 5 % of the target's larger side, the mean of the subsets' means",
    "dense/flow": "; flow_accuracy is within 5 px",
}
"""By task, what the names of its columns leave out."""


def shown_columns(runs: Sequence[Run], task: str, protocol: str) -> list[tuple[str, str]]:
    """The (metric, group) columns of a table of one task and protocol."""
    scores = [s for run in runs for s in run.stored.scores if s["protocol"] == protocol]
    seen = dict.fromkeys(
        (s["metric"], s["group"]) for s in scores if "scene=" not in s["group"] and "pair=" not in s["group"]
    )
    return [c for column in table_columns(task, list(seen)) for c in spelled_out(column, scores)]


def cell(score: Any) -> str:
    """Value with its interval, fractions in percent: ``81.20 [79.0, 83.1]``."""
    if score is None:
        return ""
    if score["value"] is None:
        return "–"
    factor, unit = scale_of(score["metric"])
    if not unit and float(score["value"]).is_integer():
        return f"{score['value']:,.0f}"
    text = f"{factor * score['value']:.2f}"
    if score["low"] is not None and score["high"] is not None:
        text += f" [{factor * score['low']:.1f}, {factor * score['high']:.1f}]"
    return text


def score_tables(runs: Sequence[Run]) -> list[Any]:
    """One rich table a task and protocol, for `tss` its subsets too; intervals by scene, chance below."""
    from rich.table import Table
    from rich.text import Text

    tables = []
    for task in dict.fromkeys(r.task for r in runs):
        mine = [r for r in runs if r.task == task]
        for protocol in dict.fromkeys(s["protocol"] for r in mine for s in r.stored.scores):
            columns = shown_columns(mine, task, protocol)
            title = f"{task}, protocol {protocol} (percent unless a unit is given, 95 % interval)"
            title += TITLES.get(task, "")
            table = Table(title=title, title_justify="left")
            table.add_column("method")
            for metric, group in columns:
                table.add_column(_heading(task, metric, group), justify="right")
            by = {
                (r.id, s["metric"], s["group"]): s
                for r in mine
                for s in r.stored.scores
                if s["protocol"] == protocol
            }
            for r in mine:
                table.add_row(Text(r.method), *(Text(cell(by.get((r.id, m, g)))) for m, g in columns))
            chance = [_chance([by.get((r.id, m, g)) for r in mine], m) for m, g in columns]
            if any(chance):
                table.add_section()
                table.add_row("chance", *chance, style="dim")
            tables.append(table)
            if task == "tss":
                tables.append(subset_table(mine, protocol))
    return tables


def _heading(task: str, metric: str, group: str) -> str:
    _, unit = scale_of(metric)
    full = full_name(task, metric, group)
    name = full if unit in ("%", "") else f"{full.removesuffix('_' + unit)} ({unit})"
    name = name.replace("_by_scene", "").replace("_including_zeros", "_with_zeros")
    if (
        sys.stdout.isatty()
    ):  # where a line may break; in a file or a pipe it would hide the name from a search
        name = name.replace("_", "_\u200b")
    return name if group == "all" else f"{name}\n{group}"


def _chance(scores: Sequence[Any], metric: str) -> str:
    factor, _ = scale_of(metric)
    for score in scores:
        if score is not None and score["chance"] is not None:
            return f"{factor * score['chance']:.2f}"
    return ""
