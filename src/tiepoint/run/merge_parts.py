# SPDX-License-Identifier: BSD-3-Clause
"""Merging runs of one method on parts of a task: records together, scored once."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import InputError
from ..core.hashing import hash_json
from ..core.records import Records
from ..store.stored_run import MergedFacts
from .finish import finish_run
from .preparation import load_task
from .result import Run, stored_tables
from .scoring import scores_under
from .update import outdated_protocols, protocols_of


def merge_runs(runs: Sequence[Run]) -> Run:
    """One run from several of the same method and task on different scenes or lists.

    The units are put together and scored as if they had been run at once, so merging is associative and
    commutative. A unit that is in two runs must have the same records in both. Failed runs make the merged
    run failed, with their messages joined by ``; ``. Scores are those of the protocols all runs have.
    """
    if not runs:
        raise InputError("merge needs at least one run")
    for what, values in (
        ("method", {r.method for r in runs}),
        ("task", {r.task for r in runs}),
        ("method configuration", {hash_json(r.manifest.method.config) for r in runs}),
    ):
        if len(values) > 1:
            raise InputError(f"runs of different {what} cannot be merged: {', '.join(sorted(values))}")
    for run in runs:
        if old := outdated_protocols(run.stored):
            raise InputError(
                f"scores of run {run.id} under {', '.join(old)} were made by older rules; run it again first"
            )
    units: dict[str, dict[str, Records]] = {}
    keys: dict[str, dict[str, str]] = {}
    for run in runs:
        for unit, by in run.manifest.units.items():
            for comparison, key in by.items():
                have = keys.setdefault(unit, {}).setdefault(comparison, key)
                if have != key:
                    raise InputError(
                        f"unit {unit!r} has different records in two of the runs; merge only one of them"
                    )
                units.setdefault(unit, {})[comparison] = run.unit_records[unit][comparison]
    ordered = {unit: units[unit] for unit in sorted(units)}
    task = load_task(runs[0].task)
    protocols = sorted(set.intersection(*(set(protocols_of(r.stored)) for r in runs)))
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
        }
    )
    newest = max(r.stored.created_at for r in runs)
    stored = finish_run(manifest, scores, error="; ".join(errors) or None, created_at=newest)
    return Run(stored, ordered, manifest.warnings, {p: stored_tables(own) for p, own in scores.items()})


def _parts(run: Run, what: str) -> list[str]:
    """Hashes of the lists or data a run was made from; those of a merged run are kept apart."""
    merged = run.manifest.merged
    if merged is not None:
        return list(merged.lists if what == "lists" else merged.data)
    return [run.manifest.lists if what == "lists" else run.manifest.dataset.hash]
