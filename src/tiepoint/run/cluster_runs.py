# SPDX-License-Identifier: BSD-3-Clause
"""Submit all runs of a command to a cluster: first the features, then the units that need them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.errors import ClusterError
from ..core.records import Unit
from ..methods.base import Method
from ..store.store import Store
from .compute import ComputedRecords
from .context import MAX_LISTED_PROBLEMS, Progress, RunContext, count_steps, no_progress
from .costs import measure
from .executors import Done
from .executors.dask_executor import DaskExecutor, JobBatch, Report
from .executors.dask_worker import ALWAYS, RemoteRecipe, wait_for_file
from .feature_pipeline import FeaturePipeline, raise_failures
from .preparation import PreparedRun, make_recipe
from .repeat_check import REPEATS, SHARE, note_repeats, repeat_items, to_repeat

COSTS = "costs of the method"


@dataclass(frozen=True)
class ClusterRun:
    """The submitted jobs of one run."""

    label: str
    context: RunContext
    comparisons: tuple[str, ...]
    features: tuple[JobBatch, ...]
    units: tuple[JobBatch, ...]
    costs: tuple[JobBatch, ...]
    repeats: tuple[JobBatch, ...]
    compared: tuple[Unit, ...] = ()


class ClusterRuns:
    """All runs of a command that are computed on a cluster."""

    def __init__(self, executor: DaskExecutor, store: Store) -> None:
        self.executor = executor
        self.store = store
        self._runs: dict[int, ClusterRun] = {}
        self._features: dict[str, JobBatch] = {}
        self._remotes: dict[int, RemoteRecipe] = {}

    def submit(
        self,
        wanted: Mapping[int, PreparedRun],
        context_of: Callable[[PreparedRun], RunContext | None],
        progress: Progress,
    ) -> None:
        """Submit jobs for all missing features and records, in the order of the runs.

        Args:
            wanted: Prepared runs by number. Pass the same number to `collect`.
            context_of: Function that returns the context of a run, or None if the run is stored.
            progress: Function called after every step, also while results are collected.
        """
        remotes = {i: self._remote(prepared) for i, prepared in wanted.items()}
        self.executor.check(list({r.recipe.data: r for r in remotes.values()}.values()))
        # Cache keys depend on fitted transforms: a worker fits them before the other jobs of the run.
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
                continue  # the run fits again later and raises the error
            context = context_of(wanted[i])
            if context is not None:
                self._runs[i] = self._submit(order[i], wanted[i], context, remotes[i], progress)

    def _remote(self, prepared: PreparedRun) -> RemoteRecipe:
        request = prepared.request
        fit_on = None if request.fit_on is None else request.fit_on.absolute()
        request = replace(request, data=request.data.absolute(), fit_on=fit_on)  # for any working folder
        recipe = make_recipe(request, prepared.method, self.store.root.absolute(), threads=1)
        return self.executor.remote(recipe, prepared.method.family, prepared.data_hash)

    def _submit(
        self,
        priority: int,
        prepared: PreparedRun,
        context: RunContext,
        remote: RemoteRecipe,
        progress: Progress,
        units: Sequence[Unit] | None = None,
    ) -> ClusterRun:
        name, task, keys = context.method.name, prepared.task, context.feature_keys
        if units is not None:
            keys = {item: keys[item] for unit in units for item in unit.items}
        missing = {
            item: (item, key)
            for item, key in keys.items()
            if key not in self._features and context.features.meta(key) is None
        }
        send = partial(self.executor.submit, remote=remote, priority=priority)
        step = count_steps(progress, f"{name}: features", len(missing))
        how = (
            {"job": make_feature} if context.method.stream is None else {"job": feature_stream, "whole": True}
        )
        for batch in send(arguments=missing, label=f"{name} features", done=step, **how):
            self._features.update({key: batch for _, key in batch.arguments.values()})

        def after(argument: tuple[str, str, Mapping[str, str]]) -> Iterator[JobBatch]:
            return (self._features[key] for key in argument[2].values() if key in self._features)

        comparisons = tuple(dict.fromkeys(task.comparison(p) for p in prepared.protocols))
        compared = context.opened.units if units is None else units
        todo = {f"{u.key} ({c})": (u.key, c, context.unit_keys(u)) for u in compared for c in comparisons}
        label = f"{name}: {task.name}"
        step = count_steps(progress, label, len(todo))
        records = send(compare_unit, todo, label=label, done=step, needs=after)
        features = dict.fromkeys(self._features[key] for key in keys.values() if key in self._features)
        if units is not None:
            done = tuple(self._features[key] for _, key in missing.values())
            return ClusterRun(label, context, comparisons, done, tuple(records), (), (), tuple(units))
        device = str(prepared.request.method_options.get("device", "cpu"))
        asked = {COSTS: device} if prepared.request.time else {}
        costs = send(costs_of, asked, label=f"{name} costs")
        repeats: list[JobBatch] = []
        if again := to_repeat(context, dict(missing.values())):
            send_one = partial(send, label=f"{name} repeats", needs=lambda _: features)
            repeats = send_one(repeat_features, {REPEATS: (again, bool(missing))})
        return ClusterRun(
            label,
            context,
            comparisons,
            tuple(features),
            tuple(records),
            tuple(costs),
            tuple(repeats),
            tuple(compared),
        )

    def submit_units(
        self, number: int, prepared: PreparedRun, context: RunContext, units: Sequence[Unit]
    ) -> None:
        """Submit the missing features and records of some units. `collect` waits for them."""
        if number not in self._remotes:
            self._remotes[number] = self._remote(prepared)
            self.executor.check([self._remotes[number]])
        self._runs[number] = self._submit(
            -number, prepared, context, self._remotes[number], no_progress, units
        )

    def collect(self, number: int) -> ComputedRecords | None:
        """Wait for a run and return its records. Return None if the run was not submitted."""
        run = self._runs.pop(number, None)
        if run is None:
            return None
        try:
            return self._collect(run)
        except BaseException:
            self.executor.cancel((*run.units, *run.costs, *run.repeats))
            raise

    def _collect(self, run: ClusterRun) -> ComputedRecords:
        context = run.context
        patience = MAX_LISTED_PROBLEMS if context.method.needs_payload else None
        _, failures = self.executor.collect(run.features, patience)
        total = sum(len(batch.arguments) for batch in run.features)
        raise_failures(context, f"{context.method.name}: features", failures, total)
        found, failures = self.executor.collect(run.units)
        raise_failures(context, run.label, failures, sum(len(batch.arguments) for batch in run.units))
        measured, failures = self.executor.collect(run.costs)
        raise_failures(context, run.label, failures, 1)
        cache, records = context.features, context.records
        used = {item: context.feature_keys[item] for unit in run.compared for item in unit.items}
        paths = [cache.folder(key) / "meta.json" for key in used.values()]
        paths += [records.path(key) for key, _ in found.values()]
        for path in paths:
            if not wait_for_file(path):
                raise ClusterError(
                    f"{path}: a worker wrote this file, but it is not visible here; rerun the command"
                )
        repeated, failures = self.executor.collect(run.repeats)
        raise_failures(context, run.label, failures, 1)
        note_repeats(context, repeated.get(REPEATS, {}))
        return ComputedRecords(
            {u.key: {c: found[f"{u.key} ({c})"][0] for c in run.comparisons} for u in run.compared},
            sum(seconds for _, seconds in found.values()),
            dict(measured[COSTS]) if run.costs else None,
        )


def connect_cluster_runs(
    stack: ExitStack, spec: Any, store: Store, methods: Sequence[Method], device: str, report: Report
) -> ClusterRuns:
    """Connect to the cluster that `spec` describes. Closing `stack` closes the connection."""
    libraries = {*ALWAYS, *(name for m in methods for name in libraries_of(m.config))}
    opened = DaskExecutor.open(spec, store.root, libraries, device=device, report=report)
    return ClusterRuns(stack.enter_context(opened), store)


def libraries_of(config: Any) -> set[str]:
    """Return the libraries whose versions appear in a method key, including its nested methods.

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
    """Do nothing. A worker that runs this job builds the context, which fits and stores transforms."""


def make_feature(context: RunContext, argument: tuple[str, str]) -> float:
    """Compute the features of an item unless cached. Return the seconds spent. Called as a job."""
    item, key = argument
    return 0.0 if context.features.meta(key) is not None else context.extract(item, key)


def feature_stream(
    context: RunContext, arguments: Mapping[str, tuple[str, str]], done: Done
) -> dict[str, Any]:
    """Compute the missing features of several items in one stream. Called as a job.

    Return 0 or a failure for each item.
    """
    missing = {n: a for n, a in arguments.items() if context.features.meta(a[1]) is None}
    failures = FeaturePipeline(context).run(missing, done, None)
    return dict.fromkeys(arguments, 0.0) | {failure.name: failure for failure in failures}


def compare_unit(context: RunContext, argument: tuple[str, str, Mapping[str, str]]) -> tuple[str, float]:
    """Compute the records of a unit unless they exist. Return their key and the seconds. Called as a job."""
    unit, comparison, keys = argument
    for key in keys.values():
        wait_for_file(context.features.folder(key) / "meta.json")
    started = time.perf_counter()
    key = context.compare(context.units[unit], comparison, keys)
    return key, time.perf_counter() - started


def repeat_features(context: RunContext, argument: tuple[Mapping[str, str], bool]) -> dict[str, str]:
    """Compute some items again, or only one if all were cached. Called as a job.

    Return by item whether the features were the same.
    """
    keys, several = argument
    for key in keys.values():
        wait_for_file(context.features.folder(key) / "meta.json")
    headers = [context.features.meta(key) or {} for key in keys.values()]
    seconds = sum(float(h.get("time_s", 0.0)) for h in headers)
    return repeat_items(context, (keys, SHARE * seconds * several))


def costs_of(context: RunContext, device: str) -> dict[str, Any]:
    """Measure the costs of the method. Called as a job."""
    return measure(context, device)
