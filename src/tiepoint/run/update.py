# SPDX-License-Identifier: BSD-3-Clause
"""Update stored runs of an earlier scoring version, and merge new scores with stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._version import __version__
from ..core.errors import InputError, StoreError, UnknownNameError
from ..core.scores import Score, ScoreRow
from ..store.store import Store
from ..store.stored_run import StoredRun, protocols_of, with_protocols_of
from ..store.writers import save_run
from ..tasks import load_task
from ..tasks.base import Task
from ..tasks.capabilities import timed_metrics
from ..tasks.info import protocol_version
from .scoring import (
    SCORING,
    UnitRecords,
    record_warnings,
    score_rows_with_intervals,
    scores_under,
)


def is_current(store: Store, run: StoredRun) -> bool:
    """Return whether this version of tiepoint scored a run, and all its scene values are stored."""
    known = run.manifest
    if known.versions.get("tiepoint") != __version__ or known.scoring != SCORING:
        return False
    return all(p in known.values and known.values[p] in store.values for p in protocols_of(run))


def outdated_protocols(run: StoredRun) -> list[str]:
    """Return the protocols of a run that have a newer version now. Their scores require a rerun."""
    try:
        task = load_task(run.task)
    except InputError:  # the package of the task is no longer installed
        return []
    known = run.manifest
    return [
        p
        for p in protocols_of(run)
        if not known.is_imported and known.rules.get(p, 1) < protocol_version(task.info, p)
    ]


def mark_outdated(run: StoredRun) -> StoredRun:
    """Return the run, with a warning if its scores are of an older protocol version."""
    old = outdated_protocols(run)
    if not old:
        return run
    warning = (
        f"scores under {', '.join(old)} are of an older protocol version; rerun the method to update them"
    )
    warnings = (*run.manifest.warnings, warning)
    return replace(run, manifest=run.manifest.model_copy(update={"warnings": warnings}))


def update_run(store: Store, run: StoredRun) -> StoredRun | None:
    """Recompute outdated scores of a run from its records, and store the run.

    Returns:
        The stored run. None if it is up to date, or if it cannot be updated because records are missing.
    """
    if run.status != "done" or is_current(store, run):
        return None
    updated = rescore(store, run)
    if protocols_of(updated) != protocols_of(run):
        return None
    return save_run(store, updated, merge=lambda stored: merge_with_stored(store, stored, updated))


def rescore(store: Store, run: StoredRun) -> StoredRun:
    """Return the run with scores recomputed from its records. Drop protocols whose records are missing.

    Measured times and scores of outdated protocols are copied unchanged.
    """
    rows: list[ScoreRow] = []
    values, old = {}, outdated_protocols(run)
    warnings = list(run.manifest.warnings)
    for protocol in protocols_of(run):
        stored = [s for s in run.scores if s.protocol == protocol]
        without_records = run.manifest.is_imported and not run.manifest.units
        if without_records or protocol in old:
            rows += stored
            key = run.manifest.values.get(protocol, "")
            values[protocol] = key if key in store.values else store.values.put(())
            continue
        found = _recomputed_scores(store, run, protocol)
        if found is None:
            continue
        task, records, scores = found
        if run.manifest.scoring == SCORING:  # rescoring in another order of units could change the last digit
            rows += stored
        else:
            timed = timed_metrics(task, protocol)
            rows += [*score_rows_with_intervals(task, scores), *(s for s in stored if s.metric in timed)]
        values[protocol] = store.values.put(scores)
        if not run.manifest.is_imported:
            found_warnings = record_warnings(task, [r for by in records.values() for r in by.values()])
            warnings += [w for w in found_warnings if w not in warnings]
    manifest = run.manifest.model_copy(
        update={
            "protocols": tuple(sorted(values)),
            "values": values,
            "scoring": SCORING,
            "versions": run.manifest.versions | {"tiepoint": __version__},
            "warnings": tuple(warnings),
        }
    )
    return replace(run, manifest=manifest, scores=rows)


def _recomputed_scores(
    store: Store, run: StoredRun, protocol: str
) -> tuple[Task, UnitRecords, Sequence[Score]] | None:
    """Return task, records and scores of a run under a protocol. None if records or task are missing."""
    units = run.manifest.units
    try:
        task = load_task(run.task)
        comparison = task.comparison(protocol)
        if not units or not all(comparison in by for by in units.values()):
            return None
        records = {unit: {comparison: store.records.get(by[comparison])} for unit, by in units.items()}
        return task, records, scores_under(task, protocol, records, run.manifest.subset)
    except (UnknownNameError, StoreError):
        return None


def merge_with_stored(store: Store, stored: StoredRun | None, new: StoredRun) -> StoredRun:
    """Return the new run, extended by the scores of the `stored` run under other protocols.

    Stored scores of another scoring version are recomputed first. A failed run does not replace stored
    scores. Measured times stay if the new run has none.
    """
    if stored is None or stored.status != "done":
        return new
    if new.status != "done":
        return stored
    own, warnings = set(protocols_of(new)), list(new.manifest.warnings)
    if is_current(store, stored):
        warnings += [w for w in stored.manifest.warnings if w not in warnings]
    elif not own.issuperset(before_update := protocols_of(stored)):
        stored = rescore(store, stored)
        lost = sorted(set(before_update) - set(protocols_of(stored)) - own)
        if lost:
            warnings.append(
                f"older scores under {', '.join(lost)} were removed, because their records are missing"
            )
    both = with_protocols_of(new, stored)
    costs = dict(new.manifest.efficiency)
    if "time_s" not in costs:
        costs = {**stored.manifest.efficiency, **costs}
    manifest = both.manifest.model_copy(update={"warnings": tuple(warnings), "efficiency": costs})
    return replace(both, manifest=manifest)
