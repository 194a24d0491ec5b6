# SPDX-License-Identifier: BSD-3-Clause
"""Finish a run: add intervals, store scene values, complete the manifest. Merge runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import InputError
from ..core.hashing import hash_json
from ..core.records import Records
from ..core.scores import Score
from ..store.store import Store
from ..store.stored_run import Manifest, MergedFacts, StoredRun, run_id, with_caution
from ..store.writers import save_run
from ..tasks import load_task
from ..tasks.info import protocol_version
from . import costs
from .result import Run, stored_tables
from .scoring import SCORING, score_rows_with_intervals, scores_under
from .update import merge_with_stored, outdated_protocols


def finish_run(
    manifest: Manifest,
    scores: Mapping[str, Sequence[Score]],
    *,
    store: Store | None = None,
    error: str | None = None,
    created_at: str | None = None,
    time_s: float | None = None,
    keypoint_set: Mapping[str, Any] | None = None,
) -> StoredRun:
    """Create a finished run from its initial manifest and its scores by protocol. Store and return it.

    Versions, machine and time are added to the manifest. If a run of the same id is stored, its scores under
    other protocols are preserved. If `store` is None, nothing is written. If `error` is set, the run is
    stored as failed.
    """
    task = load_task(manifest.task)
    rows = [row for own in scores.values() for row in score_rows_with_intervals(task, own)]
    values = {} if store is None else {p: store.values.put(own) for p, own in scores.items()}
    complete = manifest.model_copy(
        update={
            "protocols": tuple(sorted(scores)) or manifest.protocols,
            "values": values,
            "scoring": SCORING,
            "rules": {p: v for p in scores if (v := protocol_version(task.info, p)) > 1},
            "versions": costs.versions(),
            "machine": {} if manifest.is_imported else costs.machine(),
        }
    )
    run = StoredRun(
        run_id(complete), complete.task, "failed" if error else "done", complete, rows, error,
        created_at or costs.utc_now(), time_s, keypoint_set=keypoint_set,
    )  # fmt: skip
    if store is None:
        return with_caution(run)
    return save_run(store, run, merge=lambda stored: merge_with_stored(store, stored, run))


def merge_runs(runs: Sequence[Run]) -> Run:
    """Merge runs of one method and task on different scenes or pair lists.

    The units of all runs are scored together, so merging is associative and commutative. A unit that occurs
    in two runs must have the same records in both. If a run failed, the merged run is stored as failed, with
    the errors of all runs joined by ``; ``. The merged run has the protocols that all runs share.
    """
    if not runs:
        raise InputError("no runs to merge; pass at least one run")
    for what, values in (
        ("method", {r.method for r in runs}),
        ("task", {r.task for r in runs}),
        ("method configuration", {hash_json(r.manifest.method.config) for r in runs}),
    ):
        if len(values) > 1:
            raise InputError(f"runs of different {what} cannot be merged: {', '.join(sorted(values))}")
    for run in runs:
        own = {s.protocol for s in run.score_rows}
        if old := [p for p in outdated_protocols(run.stored) if p in own]:
            raise InputError(
                f"scores of run {run.id} under {', '.join(old)} are of an older protocol version; "
                "rerun the method first"
            )
        if run.manifest.subset is not None:
            raise InputError(f"run {run.id} is on a subset and cannot be merged; merge complete runs")
    units: dict[str, dict[str, Records]] = {}
    keys: dict[str, dict[str, str]] = {}
    for run in runs:
        for unit, by in run.manifest.units.items():
            for comparison, key in by.items():
                have = keys.setdefault(unit, {}).setdefault(comparison, key)
                if have != key:
                    raise InputError(
                        f"unit {unit!r} has different records in two runs; merge only one of these runs"
                    )
                units.setdefault(unit, {})[comparison] = run.unit_records[unit][comparison]
    ordered = {unit: units[unit] for unit in sorted(units)}
    task = load_task(runs[0].task)
    protocols = sorted(set.intersection(*({s.protocol for s in r.score_rows} for r in runs)))
    scores = {p: scores_under(task, p, ordered) for p in protocols}
    errors = sorted({part for r in runs if r.stored.error for part in r.stored.error.split("; ")})
    lists = sorted({part for r in runs for part in _parts(r, "lists")})
    data = sorted({part for r in runs for part in _parts(r, "data")})
    first = runs[0].manifest
    record_keys = {unit: keys[unit] for unit in ordered}
    manifest = first.model_copy(
        update={
            "units": record_keys,
            "content": hash_json(record_keys),
            "merged": MergedFacts(lists=tuple(lists), data=tuple(data)),
            "lists": hash_json(lists),
            "dataset": first.dataset.model_copy(update={"hash": hash_json(data), "name": "merged"}),
            "warnings": tuple(sorted({w for r in runs for w in r.warnings})),
            "options": {},
            "split": None,
            "nondeterministic_items": sum(r.manifest.nondeterministic_items for r in runs),
        }
    )
    newest = max(r.stored.created_at for r in runs)
    stored = finish_run(manifest, scores, error="; ".join(errors) or None, created_at=newest)
    return Run(stored, ordered, manifest.warnings, {p: stored_tables(own) for p, own in scores.items()})


def _parts(run: Run, what: str) -> list[str]:
    """Return the hashes of a run's pair lists or data. A merged run has several hashes."""
    merged = run.manifest.merged
    if merged is not None:
        return list(merged.lists if what == "lists" else merged.data)
    return [run.manifest.lists if what == "lists" else run.manifest.dataset.hash]
