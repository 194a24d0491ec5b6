# SPDX-License-Identifier: BSD-3-Clause
"""The headline scores of a run, one convention after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..model.records import Records
from ..model.scores import Score
from .base import StepTable

Rules = TypeVar("Rules")


def convention_tables(
    records: Sequence[Records],
    metrics: Iterable[str],
    steps: Iterable[tuple[str, Rules]],
    score: Callable[[Sequence[Records], Rules, str], list[Score]],
) -> list[StepTable]:
    """A table a metric: the value of its group `all` after each step.

    Args:
        records: of `exact`; without any there is no table.
        metrics: to show.
        steps: (words, rules) from the oldest convention to `exact`.
        score: scores under rules, called with (records, rules, words).
    """
    if not records:
        return []
    tables: dict[str, list[tuple[str, float]]] = {metric: [] for metric in metrics}
    for step, rules in steps:
        for s in score(records, rules, step):
            if s.group == "all":
                tables[s.metric].append((step, s.value))
    return [StepTable(metric, values) for metric, values in tables.items()]
