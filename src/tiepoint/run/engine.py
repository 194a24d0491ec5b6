# SPDX-License-Identifier: BSD-3-Clause
"""One method on one task: features, records, scores, store. What exists already is not computed again."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._version import __version__
from ..methods.base import Method
from ..model.errors import ProblemsError, UnitError, joined
from ..model.hashing import hash_json
from ..model.records import Records
from ..model.units import Unit
from ..store.atomic import remove_temporaries
from ..store.features import FeatureCache
from ..store.manifest import DatasetFacts, Manifest, MethodFacts
from ..store.records import RecordStore
from ..store.runs import StoredRun, load_runs, save_run
from ..store.store import Store
from ..tasks.base import Task
from . import manifest as about
from .context import SHOWN, Context, FeatureSummary, Recipe
from .efficiency import efficiency
from .executors import Failure, names_of, run_jobs
from .prepare import (
    Prepared,
    Progress,
    Request,
    checked_protocols,
    load_task,
    plain_options,
    prepare,
    prepare_all,
    silent,
)
from .result import Run
from .scoring import SCORING, score_rows, time_rows

__all__ = [
    "Prepared",
    "Progress",
    "Request",
    "checked_protocols",
    "evaluate",
    "evaluate_prepared",
    "identity",
    "load_task",
    "prepare",
    "prepare_all",
    "read_records",
    "silent",
    "work",
]

PARALLEL_WORTH_S = 8.0
"""Starting a worker process costs two or three seconds; below this estimate work stays in the process."""


def evaluate(request: Request, store: Store, progress: Progress = silent) -> Run:
    """Run, score and store; returns the run. Units that fail leave the rest stored and raise `UnitError`."""
    return evaluate_prepared(prepare(request, store.root), store, progress)


_tidied: set[Path] = set()


def _tidy(root: Path) -> None:
    """Once a process: remove what processes that were killed earlier left half-written."""
    if root not in _tidied:
        _tidied.add(root)
        remove_temporaries(root)


def evaluate_prepared(prepared: Prepared, store: Store, progress: Progress = silent) -> Run:
    """`evaluate` for a request that `prepare_all` has checked; the run holds the protocols asked for."""
    started = time.perf_counter() - prepared.seconds
    _tidy(store.root)
    request, task, opened = prepared.request, prepared.task, prepared.opened
    protocols = prepared.protocols
    method, fit = prepared.fitted(store.root)
    run_id = identity(method, task, opened.data_hash, opened.units)
    notices = [*opened.warnings, *fit.notices]
    with ExitStack() as stack:
        ephemeral = None
        features, records = store.features, store.records
        if opened.items and method.key(opened.items[0]) is None:
            folder = Path(tempfile.mkdtemp(prefix="tiepoint-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            features = FeatureCache(folder / "features")
            ephemeral = run_id
            notices.append(method.notice or f"The features of {method.name} are not cached.")
        context = Context(task, opened, method, features, records, ephemeral)
        recipe = _recipe(request, method, store, ephemeral)
        stored = _finished(store, run_id, protocols)
        if stored is not None:
            notices += [w for w in stored.manifest.warnings if w not in notices]
            return Run(_only(stored, protocols), read_records(store, stored), notices)
        keys, compared_s = work(context, recipe, protocols, request.jobs, progress)
        cost = efficiency(context, store.root)
        summary = context.summary()
        notices += _misses(summary)
    made = {unit: {c: records.get(k) for c, k in by.items()} for unit, by in keys.items()}
    # Read only now: another process may have added its protocols to this run meanwhile.
    earlier = _earlier(store, run_id)
    rows = [] if earlier is None else _kept(store, task, earlier, protocols)
    known = {} if earlier is None else earlier.manifest.units
    for protocol in protocols:
        progress(f"scores under {protocol}", 0, 1)
        comparison = task.comparison(protocol)
        chosen = [by[comparison] for by in made.values()]
        rows += score_rows(task, chosen, protocol)
        rows += time_rows(task, protocol, summary.time_s, compared_s)
        notices += [w for w in task.warnings(chosen) if w not in notices]
        progress(f"scores under {protocol}", 1, 1)
    if earlier is not None and _current(earlier):
        notices += [w for w in earlier.manifest.warnings if w not in notices]
    manifest = Manifest(
        task=task.name,
        options=plain_options(request.options),
        split=opened.split,
        scoring=SCORING,
        protocols=tuple(sorted({r["protocol"] for r in rows})),
        method=MethodFacts(
            name=method.name,
            spec=method.spec,
            family=method.family,
            distance=method.distance,
            config=dict(method.config),
            fitted=tuple(fit.log),
            meta=dict(method.meta),
        ),
        dataset=DatasetFacts(
            hash=opened.data_hash,
            name=request.data.name,
            path=str(request.data.absolute()),
            items=len(opened.items),
        ),
        lists=hash_json([u.definition for u in opened.units]),
        units={**known, **{unit: {**known.get(unit, {}), **by} for unit, by in keys.items()}},
        versions=about.versions(),
        machine=about.machine(),
        warnings=tuple(notices),
        efficiency=cost,
    )
    run = StoredRun(
        run_id, task.name, "done", manifest, rows, None, about.now(), time.perf_counter() - started,
        keypoint_set=method.meta.get("keypoint_set"),
    )  # fmt: skip
    save_run(store, run)
    return Run(_only(run, protocols), made, notices)


def _kept(store: Store, task: Task, run: StoredRun, protocols: Sequence[str]) -> list[dict[str, Any]]:
    """Scores of a stored run under protocols that are not asked for now, made again if rules changed."""
    others = dict.fromkeys(s["protocol"] for s in run.scores if s["protocol"] not in protocols)
    if _current(run):
        return [dict(s) for s in run.scores if s["protocol"] in others]
    known = {p: task.comparison(p) for p in others if p in task.protocols}
    units = run.manifest.units.values()
    there = {p: c for p, c in known.items() if all(c in by and by[c] in store.records for by in units)}
    return [
        row
        for p, c in there.items()
        for row in score_rows(task, [store.records.get(by[c]) for by in units], p)
    ]


def _only(run: StoredRun, protocols: Sequence[str]) -> StoredRun:
    """The run with the scores of these protocols, in their order; its manifest still says what there is."""
    return replace(run, scores=[s for p in protocols for s in run.scores if s["protocol"] == p])


def _misses(found: FeatureSummary) -> list[str]:
    if not found.failed:
        return []
    why = "NaN, infinite, all zero unless these are kept, or given up by the method"
    return [f"{found.failed} of {found.total} descriptors failed ({why}) and count as misses"]


def identity(method: Method, task: Task, data_hash: str, units: Sequence[Unit]) -> str:
    """Id of a run: what the method is, the task, the data, the lists."""
    config = [method.name, dict(method.config), method.distance]
    return hash_json([config, task.name, data_hash, [u.definition for u in units]])[:12]


def work(
    context: Context, recipe: Recipe | None, protocols: Sequence[str], jobs: int, progress: Progress
) -> tuple[dict[str, dict[str, str]], float]:
    """Features and records that are missing; the record keys by unit and comparison, and the seconds."""
    keys = {i.key: context.feature_key(i) for i in context.opened.items}
    missing = {name: (name, key) for name, key in keys.items() if context.features.meta(key) is None}
    label = f"{context.method.name}: features"
    # Looking up goes on to the end to list all problems; what computes is stopped after those that are shown.
    patience = SHOWN if context.method.reads_payload else None
    _adaptive(label, _extract, missing, context, recipe, jobs, progress, patience)
    comparisons = list(dict.fromkeys(context.task.comparison(p) for p in protocols))
    todo = {f"{u.key} ({c})": (u, c) for u in context.opened.units for c in comparisons}
    in_process = None if context.task.family == "patches" else recipe
    label = f"{context.method.name}: {context.task.name}"
    started = time.perf_counter()
    results = _adaptive(label, _compare, todo, context, in_process, jobs, progress)
    seconds = time.perf_counter() - started
    made: dict[str, dict[str, str]] = {}
    for name, (unit, comparison) in todo.items():
        made.setdefault(unit.key, {})[comparison] = results[name]
    return made, seconds


def _extract(context: Context, argument: tuple[str, str]) -> float:
    return context.extract(*argument)


def _compare(context: Context, argument: tuple[Unit, str]) -> str:
    return context.compare(*argument)


def _adaptive(
    label: str,
    job: Callable[[Context, Any], Any],
    arguments: Mapping[str, Any],
    context: Context,
    recipe: Recipe | None,
    jobs: int,
    progress: Progress,
    patience: int | None = 1,
) -> dict[str, Any]:
    """The first job here to see what one costs, the rest in workers where that pays.

    Input errors, at most `patience` of them, are raised as one.
    """
    total = len(arguments)
    done = 0
    if total:
        progress(label, 0, total)

    def step() -> None:
        nonlocal done
        done += 1
        progress(label, done, total)

    names = list(arguments)
    started = time.perf_counter()
    first = {n: arguments[n] for n in names[:1]}
    results, failures = run_jobs(job, first, context=context, recipe=None, jobs=1, done=step)
    _raise_input(context, failures, patience)
    estimate = (time.perf_counter() - started) * (total - 1)
    rest = {n: arguments[n] for n in names[1:]}
    pool = recipe if estimate > PARALLEL_WORTH_S else None
    more, failed = run_jobs(job, rest, context=context, recipe=pool, jobs=jobs, done=step, patience=patience)
    failures += failed
    _raise_input(context, failures)
    if failures:
        raise UnitError(f"{label}: {len(failures)} of {total} failed: {names_of(failures)}")
    return results | more


def _raise_input(context: Context, failures: Sequence[Failure], patience: int | None = 1) -> None:
    """Raise the input errors as one, once there are `patience` of them."""
    found = [f.cause for f in failures if f.cause is not None]
    if not found or patience is None or len(found) < patience:
        return
    error = joined(found, f"{context.method.name}: features", shown=SHOWN)
    if len(found) > 1 and isinstance(error, ProblemsError):
        own = f"{context.method.name} on "  # the heading has the name
        error = ProblemsError(error.where, [p.removeprefix(own) for p in error.problems], shown=SHOWN)
    raise error


def _recipe(request: Request, method: Method, store: Store, ephemeral: str | None) -> Recipe | None:
    if ephemeral is not None or method.spec is None or request.jobs <= 1:
        return None
    threads = max(1, about.cores() // request.jobs)
    return Recipe(
        request.task,
        str(request.data),
        dict(request.options),
        method.spec,
        dict(request.method_options),
        str(store.root),
        threads,
        None if request.fit_on is None else str(request.fit_on),
    )


def _earlier(store: Store, run_id: str) -> StoredRun | None:
    """The run of this id in the store."""
    return next((r for r in load_runs(store, run_id=run_id) if r.id == run_id), None)


def _current(run: StoredRun) -> bool:
    """Whether its scores were made by the rules of this version."""
    same = run.manifest.versions.get("tiepoint") == __version__
    return same and run.manifest.scoring == SCORING


def _finished(store: Store, run_id: str, protocols: Sequence[str]) -> StoredRun | None:
    """The stored run where it already has all that is asked for, made by this version."""
    run = _earlier(store, run_id)
    if run is None or run.status != "done" or not _current(run):
        return None
    if not {s["protocol"] for s in run.scores}.issuperset(protocols):
        return None
    keys = (key for by in run.manifest.units.values() for key in by.values())
    return run if all(key in store.records for key in keys) else None


def read_records(store: Store | RecordStore, run: StoredRun) -> dict[str, dict[str, Records]]:
    """Records of a stored run by unit and comparison."""
    records = store.records if isinstance(store, Store) else store
    return {unit: {c: records.get(k) for c, k in by.items()} for unit, by in run.manifest.units.items()}
