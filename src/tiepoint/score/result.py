# SPDX-License-Identifier: BSD-3-Clause
"""Result of scoring arrays: the headline score of a task, its interval and all other scores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..core.records import Records
from ..core.scores import ScoreRow
from ..run.scoring import record_warnings, score_rows_with_intervals
from ..tasks.base import Task

_LEVEL = "95 %"


@dataclass(frozen=True)
class Result:
    """Score of arrays under a protocol of a task.

    `value` is NaN if the score is undefined; `note` has the reason. `low` and `high` are the bounds of the
    95 % confidence interval and `interval` is its kind. All three are None if there is no interval. `n` is
    the number of items behind the score. `rows` has all scores, each with its interval.
    """

    task: str
    protocol: str
    metric: str
    value: float
    n: int
    low: float | None = None
    high: float | None = None
    interval: str | None = None
    note: str | None = None
    rows: tuple[ScoreRow, ...] = field(default=(), repr=False)

    @property
    def values(self) -> dict[str, float]:
        """All scores by name: ``auc`` for all items, ``auc[threshold_deg=5]`` for a group.

        >>> row = ScoreRow("exact", "auc", "threshold_deg=5", 0.5, 3)
        >>> Result("pose/relative", "exact", "auc", 0.6, 3, rows=(row,)).values
        {'auc[threshold_deg=5]': 0.5}
        """
        return {_name(row): _number(row.value) for row in self.rows}

    def __str__(self) -> str:
        """Return the score on one line.

        >>> print(Result("dense/flow", "exact", "aepe", 1.25, 8, 1.0, 1.5, "t"))
        aepe 1.2500 [1.0000, 1.5000] (95 % interval, t), n = 8; dense/flow, exact
        """
        bounds = ""
        if self.low is not None and self.high is not None:
            bounds = f" [{self.low:.4f}, {self.high:.4f}] ({_LEVEL} interval, {self.interval})"
        note = "" if self.note is None else f" ({self.note})"
        return f"{self.metric} {self.value:.4f}{bounds}, n = {self.n}; {self.task}, {self.protocol}{note}"


def _name(row: ScoreRow) -> str:
    return row.metric if row.group == "all" else f"{row.metric}[{row.group}]"


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def score_records(
    task: Task,
    records: Sequence[Records],
    protocol: str,
    *,
    metric: str | None = None,
    by_scene: bool = True,
    chance: bool = True,
) -> Result:
    """Score records and return the result. Issue the task's warnings about the records.

    Args:
        task: Task that scores the records.
        records: Records as the task's comparison returns them.
        protocol: Name of the protocol.
        metric: Metric of the result; default the headline metric of the task.
        by_scene: Whether to return scores of single scenes.
        chance: Whether the records contain the data that the chance level needs.
    """
    for message in record_warnings(task, records):
        warnings.warn(message, UserWarning, stacklevel=3)
    dropped = {"benchmark"} if by_scene else {"benchmark", "scene"}
    rows = tuple(
        row if chance else replace(row, chance=None)
        for row in score_rows_with_intervals(task, task.score(records, protocol))
        if not dropped & {part.partition("=")[0] for part in row.group.split(",")}
    )
    metric = task.info.headline[0] if metric is None else metric
    head = next(row for row in rows if (row.metric, row.group) == (metric, "all"))
    interval = None if head.low is None else head.interval
    return Result(
        task.name,
        protocol,
        metric,
        _number(head.value),
        head.n,
        head.low,
        head.high,
        interval,
        head.note,
        rows,
    )
