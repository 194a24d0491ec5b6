# SPDX-License-Identifier: BSD-3-Clause
"""Compute the missing features and records of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ..core.processes import cores
from ..core.records import Unit
from ..kernels import get_device, upload_ahead
from .context import (
    MAX_LISTED_PROBLEMS,
    ContextRecipe,
    Progress,
    RecordWriters,
    RunContext,
    count_steps,
    no_progress,
)
from .executors import Executor, InProcess
from .feature_pipeline import make_features, raise_failures, raise_input

UNITS_IN_FLIGHT_ON_GPU = 4
"""Number of units compared concurrently on a GPU, so that one is prepared while another uses the device."""

MIN_PARALLEL_WORK_S = 8.0
"""Minimum estimated work in seconds for which worker processes are started. Starting one takes 2 to 3 s."""

UPLOAD_BATCH_SIZE = 256
"""Number of items whose features are uploaded to a device concurrently. Each item has open files."""


@dataclass(frozen=True)
class ComputedRecords:
    """Record keys by unit and comparison, and the seconds spent on comparisons.

    `costs` has the method costs measured by a cluster worker. It is None if this process measures the costs.
    """

    keys: Mapping[str, Mapping[str, str]]
    compare_s: float
    costs: Mapping[str, Any] | None = None


def compute_missing(
    context: RunContext,
    protocols: Sequence[str],
    pool: Executor,
    recipe: ContextRecipe | None = None,
    progress: Progress = no_progress,
    *,
    units: Sequence[Unit] | None = None,
    worth_s: float | None = None,
) -> ComputedRecords:
    """Compute missing features, then missing records.

    `recipe` builds the context in a worker. If it is None, this process does all work. `units` restricts the
    work to some units. The check that the method is deterministic is skipped for them. Workers are started if
    they save more than `worth_s` seconds, by default `MIN_PARALLEL_WORK_S`.
    """
    worth_s = MIN_PARALLEL_WORK_S if worth_s is None else worth_s
    keys = context.feature_keys
    if units is not None:
        keys = {item: keys[item] for unit in units for item in unit.items}
    missing = {name: (name, key) for name, key in keys.items() if key not in context.features}
    # A lookup continues to the end to list all problems; computing stops after the number that is listed.
    patience = MAX_LISTED_PROBLEMS if context.method.needs_payload else None
    make_features(context, missing, recipe, pool, progress, patience, worth_s, repeat=units is None)
    comparisons = list(dict.fromkeys(context.task.comparison(p) for p in protocols))
    units = context.opened.units if units is None else units
    arguments = {f"{u.key} ({c})": (u, c, context.unit_keys(u)) for u in units for c in comparisons}
    # With a GPU all comparisons run in this process: several would share the memory of one device.
    if context.task.family == "patches" or get_device() != "cpu":
        recipe = None
    started = time.perf_counter()
    _upload_features(context, list(keys))
    with RecordWriters(context.records) as writers:
        writing = replace(context, writers=writers)
        found = _compare_units(arguments, writing, recipe, pool, progress, worth_s)
    seconds = time.perf_counter() - started
    return ComputedRecords({u.key: {c: found[f"{u.key} ({c})"] for c in comparisons} for u in units}, seconds)


def _upload_features(context: RunContext, names: list[str]) -> None:
    """Upload the descriptors of items to the GPU in batches, until its cache is full."""
    names = names if get_device().startswith("cuda") else []
    with ThreadPoolExecutor(cores()) as pool:  # the first read of an entry verifies its checksums
        for i in range(0, len(names), UPLOAD_BATCH_SIZE):
            found = pool.map(lambda n: context.arrays(n).get("values"), names[i : i + UPLOAD_BATCH_SIZE])
            if not upload_ahead([values for values in found if values is not None and values.ndim == 2]):
                break


def _compare(context: RunContext, argument: tuple[Unit, str, Mapping[str, str]]) -> str:
    return context.compare(*argument)


def _compare_units(
    arguments: Mapping[str, Any],
    context: RunContext,
    recipe: ContextRecipe | None,
    pool: Executor,
    progress: Progress,
    worth_s: float,
) -> dict[str, str]:
    """Compare all units. Time the first unit in this process, then use workers if they would be faster."""
    if not arguments:
        return {}
    label = f"{context.method.name}: {context.task.name}"
    step = count_steps(progress, label, len(arguments))
    rest = dict(arguments)
    first = next(iter(rest))
    started = time.perf_counter()
    results, failures = InProcess(context).run(_compare, {first: rest.pop(first)}, None, step, 1)
    raise_input(context, failures)
    estimate = (time.perf_counter() - started) * len(rest)
    in_flight = UNITS_IN_FLIGHT_ON_GPU if get_device() != "cpu" and context.opened.thread_safe_compare else 1
    parallel = recipe is not None and estimate > worth_s and len(rest) > 1
    executor = pool if parallel else InProcess(context, in_flight)
    more, failed = executor.run(_compare, rest, recipe, step, 1)
    raise_failures(context, label, failures + failed, len(arguments))
    return results | more
