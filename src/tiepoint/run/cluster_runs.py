# SPDX-License-Identifier: BSD-3-Clause
"""All runs of a command on a cluster: submitted at once, features before the units that need them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ..core.errors import ClusterError, UnitError
from ..methods.base import Method
from ..store.store import Store
from .compute import ComputedRecords
from .context import MAX_LISTED_PROBLEMS, Progress, RunContext
from .costs import costs
from .executors import Done, JobFailure, summarise_failures
from .executors.dask_executor import DaskExecutor, JobBatch, Report
from .executors.dask_worker import ALWAYS, RemoteRecipe, wait_for_file
from .feature_pipeline import FeaturePipeline, raise_input
from .preparation import PreparedRun, make_recipe

COSTS = "costs of the method"


@dataclass(frozen=True)
class ClusterRun:
    """One run under way: what was sent out for it."""

    label: str
    context: RunContext
    comparisons: tuple[str, ...]
    features: tuple[JobBatch, ...]
    units: tuple[JobBatch, ...]
    costs: tuple[JobBatch, ...]


class ClusterRuns:
    """The runs of a command that a cluster works on."""

    def __init__(self, executor: DaskExecutor, store: Store) -> None:
        self.executor = executor
        self.store = store
        self._cells: dict[int, ClusterRun] = {}
        self._features: dict[str, JobBatch] = {}

    def submit(
        self,
        wanted: Mapping[int, PreparedRun],
        context_of: Callable[[PreparedRun], RunContext | None],
        progress: Progress,
    ) -> None:
        """Send out everything that is missing, in the order of the runs.

        Args:
            wanted: What was made ready, by a number that `collect` takes.
            context_of: The context of a run, None where it has been made before.
            progress: Told about every step, now and while results are collected.
        """
        remotes = {i: self._remote(prepared) for i, prepared in wanted.items()}
        self.executor.check(list({r.recipe.data: r for r in remotes.values()}.values()))
        # Keys depend on what is fitted: a worker does that first, and the rest of the run follows.
        fits = {
            i: self.executor.submit(
                ready, {f"{p.method.name}: fit": None}, remotes[i], label="fit", priority=1
            )
            for i, p in wanted.items()
            if p.fit.log
        }
        order = {i: -place for place, i in enumerate(wanted)}
        for i in sorted(wanted, key=lambda i: i in fits):
            if i in fits and self.executor.collect(fits[i])[1]:
                continue  # told when the run is asked for, where fitting fails again
            context = context_of(wanted[i])
            if context is not None:
                self._cells[i] = self._sent(order[i], wanted[i], context, remotes[i], progress)

    def _remote(self, prepared: PreparedRun) -> RemoteRecipe:
        request = prepared.request
        fit_on = None if request.fit_on is None else request.fit_on.absolute()
        request = replace(request, data=request.data.absolute(), fit_on=fit_on)  # for any working folder
        recipe = make_recipe(request, prepared.method.spec or "", self.store.root.absolute(), threads=1)
        return self.executor.remote(recipe, prepared.method.family, prepared.opened.data_hash)

    def _sent(
        self,
        priority: int,
        prepared: PreparedRun,
        context: RunContext,
        remote: RemoteRecipe,
        progress: Progress,
    ) -> ClusterRun:
        name, task, keys = context.method.name, prepared.task, context.feature_keys
        missing = {
            item: (item, key)
            for item, key in keys.items()
            if key not in self._features and context.features.meta(key) is None
        }
        send = partial(self.executor.submit, remote=remote, priority=priority)
        step = _stepper(f"{name}: features", len(missing), progress)
        how = (
            {"job": make_feature} if context.method.stream is None else {"job": feature_stream, "whole": True}
        )
        for piece in send(arguments=missing, label=f"{name} features", done=step, **how):
            self._features.update({key: piece for _, key in piece.arguments.values()})

        def after(argument: tuple[str, str, Mapping[str, str]]) -> Iterator[JobBatch]:
            return (self._features[key] for key in argument[2].values() if key in self._features)

        comparisons = tuple(dict.fromkeys(task.comparison(p) for p in prepared.protocols))
        units = context.opened.units
        todo = {f"{u.key} ({c})": (u.key, c, context.unit_keys(u)) for u in units for c in comparisons}
        label = f"{name}: {task.name}"
        made = send(compare_unit, todo, label=label, done=_stepper(label, len(todo), progress), needs=after)
        costs = send(costs_of, {COSTS: remote.recipe.root}, label=f"{name} costs")
        own = dict.fromkeys(self._features[key] for key in keys.values() if key in self._features)
        return ClusterRun(label, context, comparisons, tuple(own), tuple(made), tuple(costs))

    def collect(self, number: int) -> ComputedRecords | None:
        """Wait for a run; None where it is not one that the cluster works on."""
        cell = self._cells.pop(number, None)
        if cell is None:
            return None
        try:
            return self._made(cell)
        except BaseException:
            self.executor.cancel((*cell.units, *cell.costs))
            raise

    def _made(self, cell: ClusterRun) -> ComputedRecords:
        patience = MAX_LISTED_PROBLEMS if cell.context.method.needs_payload else None
        _, failures = self.executor.collect(cell.features, patience)
        total = sum(len(p.arguments) for p in cell.features)
        _refuse(cell.context, f"{cell.context.method.name}: features", failures, total)
        found, failures = self.executor.collect(cell.units)
        _refuse(cell.context, cell.label, failures, sum(len(p.arguments) for p in cell.units))
        measured, failures = self.executor.collect(cell.costs)
        _refuse(cell.context, cell.label, failures, 1)
        cache, records = cell.context.features, cell.context.records
        paths = [cache.folder(key) / "meta.json" for key in cell.context.feature_keys.values()]
        paths += [records.path(key) for key, _ in found.values()]
        for path in paths:
            if not wait_for_file(path):
                raise ClusterError(f"{path}, which a worker wrote, does not arrive here; rerun the command")
        units = cell.context.opened.units
        return ComputedRecords(
            {u.key: {c: found[f"{u.key} ({c})"][0] for c in cell.comparisons} for u in units},
            sum(seconds for _, seconds in found.values()),
            dict(measured[COSTS]),
        )


def open_matrix(
    stack: ExitStack, spec: Any, store: Store, methods: Sequence[Method], device: str, report: Report
) -> ClusterRuns:
    """The matrix on the cluster that `spec` names; it closes with `stack`."""
    libraries = {*ALWAYS, *(name for m in methods for name in libraries_of(m.config))}
    opened = DaskExecutor.open(spec, store.root, libraries, device=device, report=report)
    return ClusterRuns(stack.enter_context(opened), store)


def libraries_of(config: Any) -> set[str]:
    """Names of the libraries whose versions are in the keys of a method, its parts included.

    >>> sorted(libraries_of({"libraries": {"cv2": "5"}, "base": {"libraries": {"numpy": "2"}}}))
    ['cv2', 'numpy']
    """
    if isinstance(config, list | tuple):
        return {name for part in config for name in libraries_of(part)}
    if not isinstance(config, Mapping):
        return set()
    own = config.get("libraries")
    found = set(own) if isinstance(own, Mapping) else set()
    return found | {name for part in config.values() for name in libraries_of(part)}


def ready(context: RunContext, _argument: None) -> None:
    """A job that only needs the context: a transform is fitted and kept by making it."""


def make_feature(context: RunContext, argument: tuple[str, str]) -> float:
    """Features of an item, unless they are there; the seconds that the method took."""
    item, key = argument
    return 0.0 if context.features.meta(key) is not None else context.extract(item, key)


def feature_stream(
    context: RunContext, arguments: Mapping[str, tuple[str, str]], done: Done
) -> dict[str, Any]:
    """Features of items in one stream, as far as they are not there."""
    missing = {n: a for n, a in arguments.items() if context.features.meta(a[1]) is None}
    failures = FeaturePipeline(context).run(missing, done, None)
    return dict.fromkeys(arguments, 0.0) | {failure.name: failure for failure in failures}


def compare_unit(context: RunContext, argument: tuple[str, str, Mapping[str, str]]) -> tuple[str, float]:
    """Records of a unit, unless they are there: their key, and the seconds it took."""
    unit, comparison, keys = argument
    for key in keys.values():
        wait_for_file(context.features.folder(key) / "meta.json")
    started = time.perf_counter()
    made = context.compare(context.units[unit], comparison, keys)
    return made, time.perf_counter() - started


def costs_of(context: RunContext, root: str) -> dict[str, Any]:
    """What the method costs, measured where it runs."""
    return costs(context, Path(root))


def _stepper(label: str, total: int, progress: Progress) -> Done:
    done = count(1)
    if total:
        progress(label, 0, total)
    return lambda: progress(label, next(done), total)


def _refuse(context: RunContext, label: str, failures: Sequence[JobFailure], total: int) -> None:
    """Raise what failed as a run in one process would."""
    raise_input(context, failures)
    if failures:
        raise UnitError(f"{label}: {len(failures)} of {total} failed: {summarise_failures(failures)}")
