# SPDX-License-Identifier: BSD-3-Clause
"""The database of a store held against itself and against the files of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from ...model.errors import StoreError
from ...model.hashing import hash_json
from ..database import DATABASE
from ..run_files import finite
from ..runs import load_runs
from ..store import Store
from ..stored_run import SCORE_COLUMNS, StoredRun


def damaged_database(store: Store) -> list[tuple[str, str]]:
    """What SQLite finds wrong with its own file, and what to do; nothing for another database."""
    if store.engine.dialect.name != "sqlite":
        return []
    again = f"remove {store.root / DATABASE}, then check the store again: runs are in files of their own"
    try:
        with store.reading() as connection:
            found = connection.execute(sa.text("pragma integrity_check")).scalars().all()
    except StoreError as e:
        return [(f"the database cannot be read: {e}", again)]
    return [] if found == ["ok"] else [(f"the database is damaged: {found[0]}", again)]


def differing_rows(store: Store, runs: Mapping[str, StoredRun]) -> Iterator[tuple[str, str]]:
    """Ids of runs whose rows are not what their file says, with a sentence; `runs` are those of the files."""
    try:
        rows = {run.id: run for run in load_runs(store)}
    except (StoreError, ValueError, KeyError, TypeError):
        return  # told already
    for name in sorted({*runs, *rows}):
        if name not in rows:
            yield name, f"run {name} is in a file and not in the database"
        elif name in runs and runs[name] is not rows[name] and _said(runs[name]) != _said(rows[name]):
            yield name, f"the database and the file of run {name} ({runs[name].method}) do not agree"
        elif not (store.root / "runs" / f"{name}.json").is_file():
            yield name, f"run {name} is in the database and has no file"


def _said(run: StoredRun) -> str:
    """All that is said about a run, in short."""
    scores = [[finite(s.get(c)) for c in SCORE_COLUMNS] for s in run.scores]
    rest: dict[str, Any] = {k: getattr(run, k) for k in ("id", "task", "status", "error", "created_at")}
    return hash_json([rest, scores, run.manifest.plain()])
