# SPDX-License-Identifier: BSD-3-Clause
"""A whole store brought up to date: its database, the names of its runs, their scores and scene values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..store import schema
from ..store.older import is_older, made_again
from ..store.run_queries import load_runs
from ..store.store import Store
from ..store.stored_run_part import StoredRun
from .preparation import Progress, no_progress
from .update import is_current, update_run


@dataclass(frozen=True)
class StaleRun:
    """A run whose features have to be made again when it is run the next time, and why."""

    run: str
    method: str
    task: str
    reason: str


@dataclass(frozen=True)
class MigrationReport:
    """What was done, or with `dry_run` what there is to do.

    `version` is that of the schema before. `copy` says where the copy of the database is, None where no copy
    was needed. `renamed` counts runs with a new id, `updated` those whose scores and scene values were made
    again from their records, `kept` names those that stay as they are because records are missing.
    """

    store: str
    version: int
    copy: str | None
    runs: int
    renamed: int
    updated: int
    kept: tuple[str, ...]
    again: tuple[StaleRun, ...]
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"now": schema.VERSION}


def migrate_store(
    where: str | Path | None = None, *, dry_run: bool = False, progress: Progress = no_progress
) -> MigrationReport:
    """Bring a store up to date; it may be stopped at any moment and done again.

    Scores stay what they are unless their rules have changed since. Features are not made; those of built-in
    methods are found under their new names when they are needed.
    """
    with Store.open(where, mode="read") as store:
        found = load_runs(store)
        old = [r for r in found if r.status == "done" and not is_current(store, r)]
        told = MigrationReport(
            store.where,
            store.version,
            None,
            len(found),
            sum(map(is_older, found)),
            len(old),
            (),
            _again(found),
        )
    if dry_run:
        return replace(told, dry_run=True)
    with Store.open(where) as store:
        updated, kept = 0, []
        found = load_runs(store)
        for i, run in enumerate(found):
            progress("runs", i, len(found))
            if update_run(store, run) is not None:
                updated += 1
            elif run.status == "done" and not is_current(store, run):
                kept.append(run.id)
        progress("runs", len(found), len(found))
        done = store.migration
        renamed = 0 if done is None else done.renamed
        copy = None if done is None else done.copy
    return replace(told, copy=copy, runs=len(found), renamed=renamed, updated=updated, kept=tuple(kept))


def _again(runs: list[StoredRun]) -> tuple[StaleRun, ...]:
    told = ((r, made_again(r)) for r in runs if not r.manifest.imported)
    return tuple(StaleRun(r.id, r.method, r.task, why) for r, why in told if why)
