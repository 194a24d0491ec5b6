# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate one method on one task: compute missing features and records, score them, store the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.errors import InputError, StoreError, TiepointError
from ..core.file_stamps import file_stamp
from ..core.formatting import count_text, first_few
from ..core.scores import NOT_DETERMINISTIC, Score
from ..store.maintenance.journal import FOLDER as JOURNAL_FOLDER
from ..store.maintenance.journal import finish_changes
from ..store.maintenance.usage import note_uses
from ..store.status_files import track_progress
from ..store.store import Store
from ..store.stored_run import run_id
from ..tasks.base import Task
from ..tasks.capabilities import HasPairTruths
from .compute import compute_missing
from .context import FeatureSummary, Progress, RunContext, no_progress, set_kernel_device
from .costs import measure, sizes
from .finish import finish_run
from .preparation import (
    PreparedRun,
    initial_manifest,
    make_context,
    prepare_all,
    stored_result,
    worker_recipe,
)
from .request import RunRequest
from .result import (
    Run,
    StoredRecords,
    lead_metric,
)
from .scoring import (
    UnitRecords,
    discard_damaged,
    missing_value_notes,
    read_intact_records,
    recompute_notices,
    record_warnings,
    scores_under,
    time_scores,
)
from .session import RunSession


def evaluate(
    request: RunRequest,
    store: Store,
    progress: Progress = no_progress,
    *,
    cluster: Any = None,
    report: Callable[[str], None] = print,
) -> Run:
    """Evaluate a request and store the run. `cluster` and `report` are passed to `RunSession`.

    Raises:
        UnitError: Some units failed. The results of all other units are stored.
    """
    return evaluate_all([request], store, progress, cluster=cluster, report=report)[0]


def evaluate_all(
    requests: Sequence[RunRequest],
    store: Store,
    progress: Progress = no_progress,
    *,
    cluster: Any = None,
    report: Callable[[str], None] = print,
) -> list[Run]:
    """Check all requests, then evaluate and store them in order. Stop at the first failure."""
    names = [r.method if isinstance(r.method, str) else type(r.method).__name__ for r in requests]
    methods = dict.fromkeys(r.name or name for r, name in zip(requests, names, strict=True))
    label = f"{', '.join(methods)} on {', '.join(dict.fromkeys(r.task for r in requests))}"
    with (
        track_progress(store.root, label, progress) as progress,
        RunSession(store.root, cluster, report) as session,
    ):
        prepared = prepare_all(requests, store.root)
        session.submit(prepared, store, progress)
        # Each request is removed before it runs, which frees a task after its last method.
        return [evaluate_prepared(prepared.pop(0), store, session, progress) for _ in requests]


def evaluate_prepared(
    prepared: PreparedRun, store: Store, session: RunSession, progress: Progress = no_progress
) -> Run:
    """Evaluate a prepared request. Return a run with the requested protocols only."""
    started, since_ns = time.perf_counter() - prepared.seconds, time.time_ns()
    request, task, protocols = prepared.request, prepared.task, prepared.protocols
    method, fit = prepared.fit_transforms(store.root)
    context = make_context(prepared, store, session, method)
    method = context.method
    manifest = initial_manifest(prepared, method, fit)
    first = lead_metric(task, request.options)
    stored = stored_result(context, manifest, protocols, store)
    if stored is not None and not request.time:
        stored_records = StoredRecords(stored.manifest.units, store.records)
        run = Run.from_stored(stored, store, stored_records, protocols, first)
        return replace(run, warnings=list(dict.fromkeys([*manifest.warnings, *run.warnings])))
    checking = time.perf_counter()
    doubts = _ground_truth_warnings(prepared, session, progress)
    manifest = manifest.model_copy(update={"warnings": (*manifest.warnings, *doubts)})
    started += time.perf_counter() - checking  # not a cost of the method
    if (store.root / JOURNAL_FOLDER).is_dir():
        finish_changes(store)
    cached = context.temporary_key is None
    if cached:
        note_uses(store, run_id(manifest), manifest.task, context.feature_keys.values())
    computed = session.collect(prepared)
    recipe = worker_recipe(request, method, store) if cached and computed is None else None
    compute = partial(compute_missing, context, protocols, session.pool(request.jobs), recipe, progress)
    if computed is None:
        set_kernel_device(request.method_options)
        if cached:
            discard_damaged(context)
        try:
            computed = compute()
        except KeyboardInterrupt as e:
            if not cached:
                e.add_note(f"The features of {method.name} are not cached and will be computed again.")
            raise
    if cached:
        discard_if_files_changed(context)
    summary = context.summary()
    unkeyed = summary.unkeyed if cached else ()
    records, keys, repairs = read_intact_records(store.records, computed.keys, lambda: compute().keys)
    scores: dict[str, list[Score]] = {}
    notices = [
        *_failed_descriptors(summary),
        *_differing_items(method.name, summary),
        *_unkeyed_names(method.name, unkeyed),
        *_started_programs(method.name, summary.programs if cached and not unkeyed else ()),
    ]
    warnings = list(dict.fromkeys([*manifest.warnings, *method.notices, *notices]))
    for protocol in protocols:
        progress(f"scores under {protocol}", 0, 1)
        times = time_scores(task, protocol, summary.time_s, computed.compare_s)
        scores[protocol] = [*scores_under(task, protocol, records, prepared.subset), *times]
        found = _score_warnings(task, protocol, records, scores[protocol])
        warnings += [warning for warning in found if warning not in warnings]
        progress(f"scores under {protocol}", 1, 1)
    costs = sizes(context) | dict(computed.costs or {})
    if request.time and computed.costs is None:
        costs |= measure(context, _device(request), progress, request.timed_items)
    manifest = manifest.model_copy(
        update={
            "units": keys,
            "warnings": tuple(warnings),
            "efficiency": costs,
            "nondeterministic_items": summary.differing,
            "content": None if cached and not unkeyed else context.content(),
        }
    )
    for key in context.feature_keys.values() if unkeyed else ():
        context.features.discard(key)
    finish = partial(
        finish_run, manifest, scores, time_s=time.perf_counter() - started,
        keypoint_set=method.meta.get("keypoint_set"),
    )  # fmt: skip
    try:
        finished = finish(store=store)
    except StoreError as e:  # return the scores even if the disk is full
        e.unsaved = Run.from_stored(finish(), store, records, protocols, first)
        raise
    run = Run.from_stored(finished, store, records, protocols, first)
    return replace(run, warnings=[*recompute_notices(context, since_ns), *repairs, *run.warnings])


def _device(request: RunRequest) -> str:
    return str(request.method_options.get("device", "cpu"))


def _ground_truth_warnings(prepared: PreparedRun, session: RunSession, progress: Progress) -> tuple[str, ...]:
    """Return warnings about ground truth that is probably wrong. The store caches the expensive part."""
    if not isinstance(prepared.opened, HasPairTruths):
        return ()
    from ..datasets.validation.truth_check import NO_OPENCV, check_ground_truth  # loads Pillow

    found = check_ground_truth(prepared.opened.pair_truths(), partial(progress, "ground truth"))
    if NO_OPENCV in found.notes:
        session.report(NO_OPENCV)
    return found.warnings


def discard_if_files_changed(context: RunContext) -> None:
    """Raise an `InputError` and discard the features if a file of the method changed during the run.

    The cache key describes the content before the run, but the method may have read the changed content.
    """
    for path, stamp in context.method.files.items():
        now = file_stamp(os.stat(path)) if os.path.exists(path) else None
        if now != stamp:
            for key in context.feature_keys.values():
                context.features.discard(key)
            raise InputError(f"{context.method.name}: {path} changed during the run; rerun the command")


def store_failure(prepared: PreparedRun, error: TiepointError, store: Store) -> None:
    """Store a failed run with its error, unless the store already has scores of the run."""
    manifest = initial_manifest(prepared, prepared.method, prepared.fit)
    finish_run(manifest.model_copy(update={"warnings": (str(error),)}), {}, store=store, error=str(error))


def _failed_descriptors(summary: FeatureSummary) -> list[str]:
    if not summary.failed:
        return []
    why = "NaN, infinite, all-zero unless zeros are kept, or marked invalid by the method"
    return [f"{summary.failed} of {summary.total} descriptors failed ({why}) and count as misses"]


def _differing_items(method: str, summary: FeatureSummary) -> list[str]:
    if not summary.differing:
        return []
    items = count_text(summary.differing, "item")
    return [
        f"{method} {NOT_DETERMINISTIC}: the features of {items} differed when computed twice, so its scores "
        "differ from run to run; seed its random numbers"
    ]


def _unkeyed_names(method: str, names: Sequence[str]) -> list[str]:
    """Return a warning if the features depend on files or servers that are not in their cache key."""
    if not names:
        return []
    more = f" and {count_text(len(names) - 1, 'more file')}" if len(names) > 1 else ""
    return [
        f"The features of {method} are not cached because its code opened {names[0]}{more}, which the cache "
        "key does not contain; pass the file as a parameter, or store its path as an attribute."
    ]


def _started_programs(method: str, names: Sequence[str]) -> list[str]:
    """Return a warning if the features depend on programs, which may read files that no key contains."""
    if not names:
        return []
    return [
        f"{method} starts {first_few(names, 3)}; its cached features are recomputed if the program or a file "
        "in its command changes, but not if another file that the program reads changes"
    ]


def _score_warnings(task: Task, protocol: str, records: UnitRecords, scores: Sequence[Score]) -> list[str]:
    compared = [by[task.comparison(protocol)] for by in records.values()]
    return [*record_warnings(task, compared), *missing_value_notes(protocol, scores)]
