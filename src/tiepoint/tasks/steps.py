# SPDX-License-Identifier: BSD-3-Clause
"""Tables that show how scores change step by step from one convention to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ..core.records import Records
from ..core.scores import Score

Rules = TypeVar("Rules")


class StepTable(NamedTuple):
    """Values of a metric after each step from one convention to another, as pairs (step, value)."""

    metric: str
    steps: list[tuple[str, float]]
    subject: str = ""
    """Text that distinguishes tables of the same metric."""

    @property
    def title(self) -> str:
        """Title of the table: metric and subject."""
        return f"{self.metric}, {self.subject}" if self.subject else self.metric


def convention_tables(
    records: Sequence[Records],
    metrics: Iterable[str],
    steps: Iterable[tuple[str, Rules]],
    score: Callable[[Sequence[Records], Rules, str], list[Score]],
) -> list[StepTable]:
    """Return one table per metric: the score of group `all` after each step. Empty without records.

    Args:
        records: Records of `exact`.
        metrics: Metrics to show.
        steps: Pairs (step, rules) from the oldest convention to `exact`.
        score: Function of (records, rules, step) that returns scores.
    """
    if not records:
        return []
    tables: dict[str, list[tuple[str, float]]] = {metric: [] for metric in metrics}
    for step, rules in steps:
        for s in score(records, rules, step):
            if s.group == "all":
                tables[s.metric].append((step, s.value))
    return [StepTable(metric, values) for metric, values in tables.items()]
