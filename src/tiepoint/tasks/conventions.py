# SPDX-License-Identifier: BSD-3-Clause
"""The headline scores of a run, one convention after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..model.scores import Score
from .base import Steps

Rules = TypeVar("Rules")


def convention_tables(
    name: str,
    metrics: Iterable[str],
    steps: Iterable[tuple[str, Rules]],
    score: Callable[[Rules, str], list[Score]],
) -> Steps:
    """A table a metric: the value of its group `all` after each step.

    Args:
        name: of the task, for the titles.
        metrics: to show.
        steps: (words, rules) from the oldest convention to `exact`.
        score: scores under rules, called with (rules, words).
    """
    tables: dict[str, list[tuple[str, float]]] = {metric: [] for metric in metrics}
    for step, rules in steps:
        for s in score(rules, step):
            if s.group == "all":
                tables[s.metric].append((step, s.value))
    return [(f"{name} {metric}", values) for metric, values in tables.items()]
