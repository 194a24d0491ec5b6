# SPDX-License-Identifier: BSD-3-Clause
"""Plan a benchmark from Python."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..report.benchmark_plan import BenchmarkPlan, PlanSettings, plan_benchmark

if TYPE_CHECKING:
    from ..run.result import Run
    from ..store.store import Store


def plan(
    methods: Sequence[str] = (),
    *,
    task: str,
    detect: float,
    protocol: str | None = None,
    metric: str | None = None,
    group: str | None = None,
    dataset: str | None = None,
    split: str | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    pairs_per_scene: int | None = None,
    family: bool = False,
    store: str | Path | None = None,
) -> BenchmarkPlan:
    """Return how many scenes and pairs a benchmark needs to separate methods; see docs/less-work.md.

    Args:
        methods: Names or ids of stored runs, at least two; empty for the newest run of every method.
        task: Name of the task.
        detect: Difference to detect: in points (percent) for fractions, else in the unit of the metric.
        protocol: Protocol; default the first that all runs have.
        metric: Score; default the headline score of the task.
        group: Group of the score.
        dataset: Only runs on a dataset of this name.
        split: Only runs of this split.
        power: Probability of separating methods that differ by `detect`.
        alpha: Probability of separating methods that do not differ.
        pairs_per_scene: Number of pairs in each planned scene; default as in the runs.
        family: Divide `alpha` by the number of pairs of methods.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.

    Returns:
        A `BenchmarkPlan`: ``.rows`` has one row per pair of methods.
    """
    from ..store.store import Store

    with Store.open(store, mode="read") as opened:
        runs, notes = runs_to_plan(opened, methods, task, dataset, split)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        settings = PlanSettings(in_stored_unit(task, metric, detect), power, alpha, pairs_per_scene, family)
        return plan_benchmark(runs, settings, protocol=protocol, metric=metric, group=group)


def in_stored_unit(task: str, metric: str | None, detect: float) -> float:
    """Convert `detect` from points (percent) to a fraction if the metric is a fraction."""
    from ..tasks import load_task
    from ..tasks.info import metric_info

    info = load_task(task).info
    named = info.other_names.get(metric, metric) if metric else info.headline[0]
    return detect / 100 if metric_info(info, named).unit == "fraction" else detect


def runs_to_plan(
    store: Store, names: Sequence[str], task: str, dataset: str | None, split: str | None
) -> tuple[list[Run], list[str]]:
    """Return the newest run of each method on one dataset and split, and notes about the choice."""
    from ..report.runs.selection import choose_split, has_runs, of_dataset, of_split, of_subset, runs_of

    has_runs(store, task)
    found = runs_of(store, list(names), task=task)
    found = found if dataset is None else of_dataset(found, dataset)
    found, _ = of_subset(found, None, names)
    notes: list[str] = []
    if split is not None:
        found = of_split(found, split, names)
    else:
        found, notes = choose_split(found, names, ())
    newest = {run.method if run.id not in names else run.id: run for run in found}
    return list(newest.values()), notes
