# SPDX-License-Identifier: BSD-3-Clause
"""What the three 2016 tasks share: one comparison, two protocols, and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from ...model.records import Records
from ...model.scores import Score
from ..conventions import Tables, convention_tables
from .opened import COMPARISON
from .protocols import PROTOCOLS, convention_steps, rules_of


class V1Task:
    """Base of the 2016 tasks; `scoring` is the module with the task's ``score`` and ``METRICS``."""

    name: str
    scoring: ModuleType
    family = "patches"
    protocols = PROTOCOLS

    def comparison(self, protocol: str) -> str:
        """Both protocols score the same distances, neighbours or lists."""
        rules_of(protocol)
        return COMPARISON

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol."""
        found: list[Score] = self.scoring.score(records, rules_of(protocol), protocol)
        return found

    def conventions(self, records: Sequence[Records]) -> Tables:
        """The gap between `hbench-2016` and `exact`, step by step, for the mean over benchmarks."""
        return convention_tables(
            self.name,
            self.scoring.METRICS,
            convention_steps(self.name.split("/")[-1]),
            lambda rules, step: self.scoring.score(records, rules, step),
        )
