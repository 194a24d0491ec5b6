# SPDX-License-Identifier: BSD-3-Clause
"""What the three 2016 tasks share: one comparison, two protocols, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...model.records import Records
from ...model.scores import Score
from ...model.units import Arrays
from ..base import StepTable, Task
from ..conventions import convention_tables
from .opened import COMPARISON, BenchmarkOptions, OpenV1
from .protocols import PROTOCOLS, convention_steps, rules_of


class V1Task(Task):
    """Base of the 2016 tasks; `scoring` is the module with the task's ``score`` and ``METRICS``."""

    scoring: ModuleType
    family = "patches"
    protocols = PROTOCOLS

    options = BenchmarkOptions
    reads_results = True
    writes_results = True

    def comparison(self, protocol: str) -> str:
        """Both protocols score the same distances, neighbours or lists."""
        rules_of(protocol)
        return COMPARISON

    def write_results(self, records: Records, folder: Path, opened: Any = None) -> Path:
        """Write one benchmark's result file into `folder`."""
        raise NotImplementedError

    def write_run(
        self,
        folder: Path,
        opened: OpenV1,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
        protocols: Sequence[str],
    ) -> Iterator[Path]:
        """Write ``TASK/BENCHMARK.results`` of every benchmark."""
        out = folder / self.name.split("/")[-1]
        out.mkdir(parents=True, exist_ok=True)
        for by in records.values():
            yield self.write_results(by[COMPARISON], out, opened)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol."""
        found: list[Score] = self.scoring.score(records, rules_of(protocol), protocol)
        return found

    def conventions(self, records: Sequence[Records]) -> list[StepTable]:
        """The gap between `hbench-2016` and `exact`, step by step, for the mean over benchmarks."""
        steps = convention_steps(self.name.split("/")[-1])
        return convention_tables(records, self.scoring.METRICS, steps, self.scoring.score)
