# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the steps from one convention to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ..core.records import Records
from ..core.scores import Score

Rules = TypeVar("Rules")


class StepTable(NamedTuple):
    """A metric after each step from one convention to another: (step, value after it)."""

    metric: str
    steps: list[tuple[str, float]]
    subject: str = ""
    """Distinguishes tables of the same metric."""

    @property
    def title(self) -> str:
        """Metric and subject."""
        return f"{self.metric}, {self.subject}" if self.subject else self.metric


def convention_tables(
    records: Sequence[Records],
    metrics: Iterable[str],
    steps: Iterable[tuple[str, Rules]],
    score: Callable[[Sequence[Records], Rules, str], list[Score]],
) -> list[StepTable]:
    """Return one table per metric: the value of group `all` after each step. Empty without records.

    Args:
        records: Records of `exact`.
        metrics: Metrics to show.
        steps: (step, rules) from the oldest convention to `exact`.
        score: Called with (records, rules, step).
    """
    if not records:
        return []
    tables: dict[str, list[tuple[str, float]]] = {metric: [] for metric in metrics}
    for step, rules in steps:
        for s in score(records, rules, step):
            if s.group == "all":
                tables[s.metric].append((step, s.value))
    return [StepTable(metric, values) for metric, values in tables.items()]
