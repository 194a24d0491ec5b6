# SPDX-License-Identifier: BSD-3-Clause
"""The one way a run is finished: scores get intervals, scene values a place, the manifest the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.hashing import hash_json
from ..core.scores import Score
from ..store.run_id import run_id
from ..store.store import Store
from ..store.stored_run import DatasetFacts, Manifest
from ..store.stored_run_part import StoredRun
from ..store.writers import save_run
from ..tasks.base import OpenTask
from . import machine
from .preparation import load_task, plain_options
from .scoring import SCORING, score_rows_with_intervals
from .update import merge_with_stored


def dataset_facts(opened: OpenTask, data: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a manifest that an open task tells: dataset, lists, split, and the options it was given."""
    return {
        "options": plain_options(options),
        "split": opened.split,
        "dataset": DatasetFacts(
            hash=opened.data_hash, name=data.name, path=str(data.absolute()), items=len(opened.items)
        ),
        "lists": hash_json([u.definition for u in opened.units]),
    }


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
    """A run from what is known of it and its scores by protocol; with `store`, saved there.

    `manifest` says what was measured; who measured it, when and by which rules is filled in here. A run of
    the same identity in the store keeps its scores under other protocols. Without a store, scene values are
    not written. `error` makes it a failed run.
    """
    task = load_task(manifest.task)
    rows = [row for own in scores.values() for row in score_rows_with_intervals(task, own)]
    values = {} if store is None else {p: store.values.put(own) for p, own in scores.items()}
    whole = manifest.model_copy(
        update={
            "protocols": tuple(sorted(scores)) or manifest.protocols,
            "values": values,
            "scoring": SCORING,
            "rules": {p: task.rule(p) for p in scores if task.rule(p) > 1},
            "versions": machine.versions(),
            "machine": {} if manifest.imported else machine.machine(),
        }
    )
    run = StoredRun(
        run_id(whole), whole.task, "failed" if error else "done", whole, rows, error,
        created_at or machine.utc_now(), time_s, keypoint_set=keypoint_set,
    )  # fmt: skip
    if store is None:
        return run
    return save_run(store, run, merge=lambda stored: merge_with_stored(store, stored, run))
