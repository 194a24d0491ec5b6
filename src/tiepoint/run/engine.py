# SPDX-License-Identifier: BSD-3-Clause
"""One method on one task: features, records, scores, store. What exists already is not computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import StoreError, TiepointError, UnitError
from ..core.hashing import hash_json
from ..core.processes import remove_orphans
from ..core.records import Unit
from ..core.scores import Score
from ..kernels import get_device, upload_ahead
from ..methods.base import Method
from ..store.atomic_files import remove_temporaries, temporary_folder
from ..store.feature_cache import FeatureCache
from ..store.maintenance.journal import FOLDER as CHANGING
from ..store.maintenance.journal import finish_changes
from ..store.maintenance.usage import note_uses
from ..store.older import take_over_features
from ..store.run_queries import load_runs
from ..store.status_files import track_progress
from ..store.store import Store
from ..store.stored_run import Manifest, MethodFacts, StoredRun, run_id
from . import costs
from .context import (
    MAX_LISTED_PROBLEMS,
    ContextRecipe,
    FeatureSummary,
    RecordWriters,
    RunContext,
    set_kernel_device,
)
from .costs import efficiency, sizes
from .executors import Executor, InProcess, Job, summarise_failures
from .executors.process_pool import ProcessPool
from .feature_pipeline import make_features, raise_input
from .finish import dataset_facts, finish_run
from .fit_transforms import TransformFitter
from .preparation import PreparedRun, Progress, RunRequest, load_task, no_progress, prepare_run, request_key
from .result import Run, StoredRecords
from .scoring import (
    discard_damaged,
    missing_value_notes,
    read_intact_records,
    recompute_notices,
    scores_under,
)
from .update import outdated_protocols, protocols_of, update_run

if TYPE_CHECKING:
    from .cluster_runs import ClusterResult, ClusterRuns

__all__ = ["RunRequest", "RunSession", "evaluate", "evaluate_prepared", "load_task"]

UNITS_IN_FLIGHT_ON_GPU = 4
"""Units compared at once where a card does the work: one prepares its steps while another waits for it."""

MIN_PARALLEL_WORK_S = 8.0
"""Starting a worker process costs two or three seconds; below this estimate work stays in the process."""


UPLOAD_BATCH_SIZE = 256
"""Items whose features are brought to a device at once; each keeps files open meanwhile."""

_tidied: set[Path] = set()
"""Stores from which this process has removed what killed processes left half-written."""


class RunSession(ExitStack):
    """What the runs of one command share: worker processes, and features that are not kept after it.

    `cluster` is what `executors.clusters.connected` takes; `report` is told what the user should know of it.
    """

    def __init__(self, root: Path, cluster: Any = None, say: Callable[[str], None] = print) -> None:
        super().__init__()
        self.root = root
        self.cluster = cluster
        self._say = say
        self._pool: ProcessPool | None = None
        self._matrix: ClusterRuns | None = None
        if root not in _tidied:
            _tidied.add(root)
            remove_temporaries(root)
            remove_orphans()

    def pool(self, jobs: int) -> Executor:
        """The worker processes; how many there are is said first."""
        if self._pool is None:
            self._pool = ProcessPool(jobs)
            self.callback(self._pool.close)
        return self._pool

    def submit(self, wanted: Sequence[PreparedRun], store: Store, progress: Progress = no_progress) -> None:
        """Hand all runs of the command to the cluster, where there is one, but those made before."""
        if self.cluster is None:
            return
        travel: dict[int, PreparedRun] = {}
        for one in wanted:
            if not is_cacheable(one) or one.method.spec is None:
                self._say(f"{one.method.name} cannot travel to the cluster and runs in this process")
            elif one.fit.log or _unfinished(one, store) is not None:
                travel[id(one)] = one
        if travel:
            from .cluster_runs import open_matrix

            device = str(next(iter(travel.values())).request.method_options.get("device", "cpu"))
            methods = [one.method for one in travel.values()]
            self._matrix = open_matrix(self, self.cluster, store, methods, device, self._say)
            self._matrix.submit(travel, partial(self._sound, store=store), progress)

    def _sound(self, prepared: PreparedRun, store: Store) -> RunContext | None:
        """The context of a run for the cluster, whose cached features are whole."""
        context = _unfinished(prepared, store)
        if context is not None:
            since_ns = time.time_ns()
            discard_damaged(context)
            for told in recompute_notices(context, since_ns):
                self._say(told)
        return context

    def collect(self, prepared: PreparedRun) -> ClusterResult | None:
        """What the cluster made for a run; None where it is not among those handed to it."""
        return None if self._matrix is None else self._matrix.collect(id(prepared))

    @cached_property
    def unkept(self) -> FeatureCache:
        """A cache that is gone when the command ends, however it does."""
        return FeatureCache(self.enter_context(temporary_folder(self.root)))


def evaluate(
    request: RunRequest,
    store: Store,
    progress: Progress = no_progress,
    *,
    cluster: Any = None,
    say: Callable[[str], None] = print,
) -> Run:
    """Run, score and store; returns the run. Units that fail leave the rest stored and raise `UnitError`.

    `cluster` is what `executors.clusters.connected` takes; `report` is told what the user should know of it.
    """
    named = request.method if isinstance(request.method, str) else type(request.method).__name__
    what = f"{request.name or named} on {request.task}"
    with (
        track_progress(store.root, what, progress) as progress,
        RunSession(store.root, cluster, say) as shared,
    ):
        prepared = prepare_run(request, store.root)
        shared.submit([prepared], store, progress)
        return evaluate_prepared(prepared, store, shared, progress)


def evaluate_prepared(
    prepared: PreparedRun, store: Store, shared: RunSession, progress: Progress = no_progress
) -> Run:
    """`evaluate` for a request that `prepare_all` has checked; the run holds the protocols asked for."""
    started, since_ns = time.perf_counter() - prepared.seconds, time.time_ns()
    request, task, protocols = prepared.request, prepared.task, prepared.protocols
    method, fit = prepared.fitted(store.root)
    manifest = initial_manifest(prepared, method, fit)
    context = make_context(prepared, store, shared, method)
    kept = context.unkept is None
    stored = _finished(store, run_id(manifest), protocols) if kept else None
    if stored is not None and context.matches_stored(stored.manifest.units):
        records = StoredRecords(stored.manifest.units, store.records)
        found = Run.kept(stored, store, records, protocols, task.first(request.options))
        return replace(found, warnings=list(dict.fromkeys([*manifest.warnings, *found.warnings])))
    if (store.root / CHANGING).is_dir():
        finish_changes(store)
    if kept:
        note_uses(store, run_id(manifest), manifest.task, context.feature_keys.values())
    far = shared.collect(prepared)
    recipe = None
    try:
        if far is not None:
            keys, compared_s = far.keys, far.compared_s
        else:
            set_kernel_device(request.method_options)
            recipe = _recipe(request, method, store) if kept else None
            if kept:
                discard_damaged(context)
            keys, compared_s = compute_missing(
                context, recipe, protocols, shared.pool(request.jobs), progress
            )
    except KeyboardInterrupt as e:
        if not kept:
            e.add_note(f"The features of {method.name} are not cached and will be computed again.")
        raise
    summary = context.summary()

    def again() -> Mapping[str, Mapping[str, str]]:
        nonlocal keys
        keys, _ = compute_missing(context, recipe, protocols, shared.pool(request.jobs), progress)
        return keys

    made, anew = read_intact_records(store.records, keys, again)
    scores: dict[str, list[Score]] = {}
    notices = list(dict.fromkeys([*manifest.warnings, *method.told, *_misses(summary)]))
    for protocol in protocols:
        progress(f"scores under {protocol}", 0, 1)
        timed = task.time_scores(protocol, summary.time_s, compared_s)
        scores[protocol] = [*scores_under(task, protocol, made), *timed]
        chosen = [by[task.comparison(protocol)] for by in made.values()]
        told = [*task.warnings(chosen), *missing_value_notes(protocol, scores[protocol])]
        notices += [w for w in told if w not in notices]
        progress(f"scores under {protocol}", 1, 1)
    root = store.root if kept else shared.unkept.root
    whole = manifest.model_copy(
        update={
            "units": keys,
            "warnings": tuple(notices),
            "efficiency": efficiency(context, root) if far is None else sizes(context) | far.costs,
            "content": None if kept else context.content(),
        }
    )
    end = partial(
        finish_run, whole, scores, time_s=time.perf_counter() - started,
        keypoint_set=method.meta.get("keypoint_set"),
    )  # fmt: skip
    try:
        run = end(store=store)
    except StoreError as e:  # a full disk does not take the scores
        e.unsaved = Run.kept(end(), store, made, protocols, task.first(request.options))
        raise
    found = Run.kept(run, store, made, protocols, task.first(request.options))
    return replace(found, warnings=[*recompute_notices(context, since_ns), *anew, *found.warnings])


def make_context(
    prepared: PreparedRun, store: Store, shared: RunSession, method: Method | None = None
) -> RunContext:
    """What jobs of a request need; features that are not kept lie in the folder of the command."""
    method = method or prepared.fitted(store.root)[0]
    context = RunContext(prepared.task, prepared.opened, method, store.features, store.records)
    if is_cacheable(prepared):
        return context
    unkept = hash_json([request_key(prepared.request), method.family, dict(method.config)])
    return replace(context, features=shared.unkept, unkept=unkept)


def _unfinished(prepared: PreparedRun, store: Store) -> RunContext | None:
    """The context of a run whose features are kept; None where the store has the run already."""
    method, fit = prepared.fitted(store.root)
    manifest = initial_manifest(prepared, method, fit)
    context = RunContext(prepared.task, prepared.opened, method, store.features, store.records)
    stored = _finished(store, run_id(manifest), prepared.protocols)
    return None if stored is not None and context.matches_stored(stored.manifest.units) else context


def initial_manifest(prepared: PreparedRun, method: Method, fit: TransformFitter) -> Manifest:
    """What is known of a run before any work is done."""
    request = prepared.request
    unkept = method.notice or f"The features of {method.name} are not cached."
    facts = MethodFacts(
        name=method.name,
        name_given=request.name is not None,
        spec=method.spec,
        family=method.family,
        distance=method.distance,
        config=dict(method.config),
        fitted=tuple(fit.log),
        meta={**method.meta, **request.meta},
    )
    return Manifest(
        task=prepared.task.name,
        method=facts,
        protocols=prepared.protocols,
        warnings=(
            *prepared.opened.notices(prepared.protocols),
            *method.told,
            *fit.notices,
            *(() if is_cacheable(prepared) else (unkept,)),
        ),
        **dataset_facts(prepared.opened, request.data, prepared.task.identity_options(request.options)),
    )


def is_cacheable(prepared: PreparedRun) -> bool:
    """Whether the features of a method are kept in the store: all that its output depends on is known."""
    items = prepared.opened.items
    return not items or prepared.method.key(items[0]) is not None


def store_failure(prepared: PreparedRun, error: TiepointError, store: Store) -> None:
    """Store a run that failed with its reason, unless it was done before."""
    manifest = initial_manifest(prepared, prepared.method, prepared.fit)
    finish_run(manifest.model_copy(update={"warnings": (str(error),)}), {}, store=store, error=str(error))


def _misses(found: FeatureSummary) -> list[str]:
    if not found.failed:
        return []
    why = "NaN, infinite, all-zero unless zeros are kept, or marked invalid by the method"
    return [f"{found.failed} of {found.total} descriptors failed ({why}) and count as misses"]


def compute_missing(
    context: RunContext,
    recipe: ContextRecipe | None,
    protocols: Sequence[str],
    pool: Executor,
    progress: Progress,
) -> tuple[dict[str, dict[str, str]], float]:
    """Features and records that are missing; the record keys by unit and comparison, and the seconds."""
    keys = context.feature_keys
    if context.unkept is None:
        take_over_features(context.features, context.method, {keys[n]: i for n, i in context.items.items()})
    missing = {name: (name, key) for name, key in keys.items() if key not in context.features}
    # Looking up goes on to the end to list all problems; what computes is stopped after those that are shown.
    patience = MAX_LISTED_PROBLEMS if context.method.reads_payload else None
    make_features(context, missing, recipe, pool, progress, patience, MIN_PARALLEL_WORK_S)
    comparisons = list(dict.fromkeys(context.task.comparison(p) for p in protocols))
    units = context.opened.units
    todo = {f"{u.key} ({c})": (u, c, context.unit_keys(u)) for u in units for c in comparisons}
    # On a device all comparisons are made by this process: several would share one card's memory.
    travels = None if context.task.family == "patches" or get_device() != "cpu" else recipe
    label = f"{context.method.name}: {context.task.name}"
    started = time.perf_counter()
    _bring(context)
    with RecordWriters(context.records) as writers:
        made = _adaptive(label, _compare, todo, replace(context, writers=writers), travels, pool, progress)
    seconds = time.perf_counter() - started
    return {u.key: {c: made[f"{u.key} ({c})"] for c in comparisons} for u in units}, seconds


def _bring(context: RunContext) -> None:
    """Descriptors of all items to the device of the kernels, some hundred at a time, while there is room."""
    names = list(context.feature_keys) if get_device().startswith("cuda") else []
    for i in range(0, len(names), UPLOAD_BATCH_SIZE):
        found = (context.arrays(name).get("values") for name in names[i : i + UPLOAD_BATCH_SIZE])
        if not upload_ahead([values for values in found if values is not None and values.ndim == 2]):
            break


def _compare(context: RunContext, argument: tuple[Unit, str, Mapping[str, str]]) -> str:
    return context.compare(*argument)


def _adaptive(
    label: str,
    job: Job,
    arguments: Mapping[str, Any],
    context: RunContext,
    recipe: ContextRecipe | None,
    pool: Executor,
    progress: Progress,
    patience: int | None = 1,
) -> dict[str, Any]:
    """The first job here to see what one costs, the rest in workers where that pays.

    Input errors, at most `patience` of them, are raised as one.
    """
    total = len(arguments)
    if not total:
        return {}
    done = count()
    progress(label, next(done), total)

    def step() -> None:
        progress(label, next(done), total)

    rest = dict(arguments)
    first = next(iter(rest))
    started = time.perf_counter()
    results, failures = InProcess(context).run(job, {first: rest.pop(first)}, None, step, 1)
    raise_input(context, failures, patience)
    estimate = (time.perf_counter() - started) * len(rest)
    apart = recipe is not None and estimate > MIN_PARALLEL_WORK_S and len(rest) > 1
    at_once = UNITS_IN_FLIGHT_ON_GPU if get_device() != "cpu" and context.opened.thread_safe_compare else 1
    here = InProcess(context, at_once)
    more, failed = (pool if apart else here).run(job, rest, recipe, step, patience)
    failures += failed
    raise_input(context, failures)
    if failures:
        raise UnitError(f"{label}: {len(failures)} of {total} failed: {summarise_failures(failures)}")
    return results | more


def _recipe(request: RunRequest, method: Method, store: Store) -> ContextRecipe | None:
    """How a worker makes the context; None where it cannot, or none is wanted."""
    if method.spec is None or request.jobs <= 1:
        return None
    store.remember_hashes()  # for workers, which open the dataset as well
    return ContextRecipe(
        request.task,
        str(request.data),
        dict(request.options),
        method.spec,
        dict(request.method_options),
        str(store.root),
        max(1, costs.cores() // request.jobs),
        None if request.fit_on is None else str(request.fit_on),
    )


def _finished(store: Store, run_id: str, protocols: Sequence[str]) -> StoredRun | None:
    """The stored run where it has all that is asked for; one scored by older rules is brought up to date."""
    run = next((r for r in load_runs(store, run_id=run_id) if r.id == run_id), None)
    if run is None or run.status != "done":
        return None
    run = update_run(store, run) or run
    if not set(protocols_of(run)).issuperset(protocols) or set(outdated_protocols(run)).intersection(
        protocols
    ):
        return None
    keys = (key for by in run.manifest.units.values() for key in by.values())
    return run if all(key in store.records for key in keys) else None
