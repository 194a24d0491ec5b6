# SPDX-License-Identifier: BSD-3-Clause
"""Choose informative subsets and estimate scores from Python."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..run.subset.choose import ADVICE, SubsetRequest, choose_subset, reference_runs
from ..store.stored_run import SubsetFacts

if TYPE_CHECKING:
    from ..core.scores import Score
    from ..run.result import Run


@dataclass(frozen=True)
class Subset:
    """An informative subset of the units of a benchmark.

    Attributes:
        facts: Units by stratum with their inclusion probabilities, reference runs, design and score.
        task: Name of the task.
        store: Store that has the reference runs.
    """

    facts: SubsetFacts
    task: str
    store: str | Path | None = None

    @property
    def name(self) -> str:
        """Name of the subset, with a hash of its units and probabilities."""
        return self.facts.name

    @property
    def units(self) -> tuple[str, ...]:
        """Keys of the units."""
        return self.facts.units

    def estimate(self, run: str) -> Score:
        """Estimate the score of a complete stored run from its units in this subset.

        The result has the interval `low` to `high`. Compare it with the stored score of the run to see the
        error of the subset.
        """
        from ..report.compare.by_units import subset_values
        from ..report.runs.selection import one_run, runs_of
        from ..run.subset_scores import subset_score
        from ..store.store import Store
        from ..tasks import load_task

        with Store.open(self.store, mode="read") as opened:
            stored, _ = one_run(opened, run, task=self.task)
            (found,) = runs_of(opened, [stored.id], task=self.task)
            facts = self.facts
            values = subset_values(load_task(self.task), found, facts, facts.metric, facts.group)
            return subset_score(facts, values, facts.metric, facts.group)

    def evaluate(self, method: Any, *, data: str | Path, jobs: int = 1, **options: Any) -> Run:
        """Run a method on the units of this subset. Return a stored run whose scores are estimates.

        Args:
            method: Name or object, as in `tiepoint.evaluate`.
            data: Folder of the dataset that the references were run on.
            jobs: Number of worker processes.
            **options: Options of the task.
        """
        from ..run.request import RunRequest
        from ..run.subset.evaluate import evaluate_on_subset
        from ..store.store import Store

        facts = self.facts
        names = tuple(facts.references.values())
        wanted = SubsetRequest(facts.n, facts.design, facts.seed, names, facts.metric, facts.group)
        request = RunRequest(method, self.task, Path(data), (facts.protocol,), options, jobs=jobs)
        with Store.open(self.store) as opened:
            run = evaluate_on_subset(request, wanted, opened, report=logging.getLogger("tiepoint").warning)
        for text in run.warnings:
            warnings.warn(text, UserWarning, stacklevel=2)
        return run

    def __str__(self) -> str:
        f = self.facts
        names = ", ".join(f.references)
        return f"{f.name}: {len(f.units):,} of {f.total:,} {f.unit}s, {f.design}, chosen by {names}; {ADVICE}"


def subset(
    n: int,
    *,
    task: str,
    references: Sequence[str] = (),
    protocol: str | None = None,
    design: str = "ordered",
    seed: int = 0,
    metric: str | None = None,
    group: str | None = None,
    store: str | Path | None = None,
) -> Subset:
    """Choose n units of every stratum from which a score can be estimated; see docs/less-work.md.

    Args:
        n: Number of units of every stratum (kind or set of the score).
        task: Name of the task.
        references: Names or ids of complete stored runs on the same data; empty for all stored methods except
            reference methods (`constant`, `random`, `oracle`).
        protocol: Protocol; default the first that the references have.
        design: ``"ordered"`` or ``"pps"``.
        seed: Seed of the sample.
        metric: Score; default the headline score of the task.
        group: Group of the score.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.
    """
    from ..run.race.replay import stored_records
    from ..run.race.units import stored_facts
    from ..store.store import Store
    from ..tasks import load_task

    request = SubsetRequest(n, design, seed, tuple(references), metric, group)
    request.check()
    definition = load_task(task)
    with Store.open(store, mode="read") as opened:
        own = protocol or _shared(definition, opened, references)
        found = reference_runs(opened, definition, own, None, references)
        data = {run.manifest.dataset.hash for run in found.values()}
        if len(data) > 1:
            raise InputError("the references are on different data; name references on the same data")
        first = next(iter(found.values()))
        facts = stored_facts(definition, stored_records(opened, first, definition.comparison(own), own))
        (dataset,) = data
        made = choose_subset(request, definition, own, facts, found, opened, dataset)
    return Subset(made, task, store)


def _shared(task: Any, store: Any, references: Sequence[str]) -> str:
    """Return the first protocol of the task under which all references have complete runs."""
    for protocol in task.protocols:
        with contextlib.suppress(InputError):
            reference_runs(store, task, protocol, None, references)
            return str(protocol)
    return str(task.protocols[0])
