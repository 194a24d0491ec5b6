# SPDX-License-Identifier: BSD-3-Clause
"""Save runs and keypoint sets under a lock: insert rows, write the file, commit."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..core.errors import InputError, StoreError, UnknownNameError
from ..core.formatting import path_part, printable
from ..formats.keypoints.set_folder import (
    SETS,
    KeypointSet,
    read_keypoint_set,
    sets_below,
    write_keypoint_set,
)
from .atomic_files import atomic_folder
from .run_queries import load_rows
from .schema import datasets, keypoint_sets, methods, runs, scores
from .store import Store
from .stored_run import (
    StoredRun,
    method_id,
    read_run,
    run_file,
    with_caution,
    write_run_file,
)


def upsert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a row whose id is a hash of its content, unless it exists. Safe with concurrent writers."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    connection.execute(insert(table).values(**row).on_conflict_do_nothing())


def insert_run(connection: sa.Connection, run: StoredRun) -> None:
    """Insert the rows of a run, replacing the rows of a stored run with the same id."""
    m, d = run.manifest.method, run.manifest.dataset
    mid = method_id(run.manifest)
    config = json.dumps(m.config, sort_keys=True, default=str)
    facts = {"name": m.name, "spec": m.spec, "family": m.family, "distance": m.distance, "config": config}
    upsert(connection, methods, {"id": mid, **facts})
    known = {"id": d.hash, "name": d.name, "path": d.path, "family": m.family, "items": d.items}
    upsert(connection, datasets, known)
    if run.keypoint_set is not None:
        columns = keypoint_sets.columns
        upsert(connection, keypoint_sets, {k: v for k, v in run.keypoint_set.items() if k in columns})
    connection.execute(sa.delete(scores).where(scores.c.run_id == run.id))
    connection.execute(sa.delete(runs).where(runs.c.id == run.id))
    connection.execute(
        sa.insert(runs).values(
            id=run.id,
            method_id=mid,
            dataset_id=d.hash,
            keypoint_set_id=None if run.keypoint_set is None else run.keypoint_set["id"],
            task=run.task,
            status=run.status,
            error=run.error,
            created_at=run.created_at,
            time_s=run.time_s,
            manifest=json.dumps(run.manifest.plain(), default=str),
        )
    )
    if run.scores:
        rows = [{"run_id": run.id, "position": i, **s.to_dict()} for i, s in enumerate(run.scores)]
        connection.execute(sa.insert(scores), rows)


Merge = Callable[[StoredRun | None], StoredRun]
"""Function that returns the run to save. It receives the stored run of the same id, or None."""


def save_run(store: Store, run: StoredRun, merge: Merge | None = None) -> StoredRun:
    """Save a run, its file and its rows, and return the saved run.

    Rows are inserted before the run file is written and committed after it. So a rejected run leaves no file,
    and every visible run has a file.

    A stored run of the same id is replaced. With `merge`, the result of ``merge(stored run)`` is saved.
    `merge` is called under the lock, so that no change of another process is lost. It may read the store but
    must not write to it.
    """
    with store.begin(lock=run.id) as connection:
        if merge is not None:
            run = merge(_stored(store, connection, run.id))
        run = with_caution(run)
        with database_errors(run):
            insert_run(connection, run)
        write_run_file(store, run)
    return run


_NO_PRIVILEGE = "42501"
"""PostgreSQL's code of the error that a role may not write."""


@contextlib.contextmanager
def database_errors(run: StoredRun) -> Iterator[None]:
    """Convert database errors about a run, such as a number out of range, to `InputError`."""
    try:
        yield
    except (sa.exc.DataError, sa.exc.IntegrityError, sa.exc.StatementError, ArithmeticError, ValueError) as e:
        refused = getattr(getattr(e, "orig", None), "sqlstate", None) == _NO_PRIVILEGE
        if refused or isinstance(e, sa.exc.OperationalError):  # about the database, not the run
            raise
        why = str(getattr(e, "orig", None) or e).partition("\n")[0]
        raise InputError(f"run {run.id} ({printable(run.method)}) cannot be stored: {printable(why)}") from e


def _stored(store: Store, connection: sa.Connection, run_id: str) -> StoredRun | None:
    """Return a stored run from its file, or from its database rows if the file is missing or corrupt."""
    path = run_file(store, run_id)
    if path.is_file():
        with contextlib.suppress(StoreError):
            return read_run(path)
    return next(iter(load_rows(connection, runs.c.id == run_id)), None)


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def save_keypoint_set(store: Store, made: KeypointSet, *, overwrite: bool = False) -> Path:
    """Save a keypoint set: first its folder, then its row. Replacing an existing set needs `overwrite`."""
    if not _NAME.fullmatch(made.name):
        raise InputError(
            f"{made.name!r} cannot be the name of a keypoint set; use letters, digits, _ . and -"
        )
    folder = store.root / SETS / path_part(made.name, "the keypoint set")
    with store.begin() as connection:
        if made.name in sets_below(store.root) and not overwrite:
            raise InputError(
                f"the store already has a keypoint set {made.name!r}; choose another name or replace it with "
                "`overwrite`"
            )
        with atomic_folder(folder, replace=True) as temporary:
            write_keypoint_set(temporary, made)
        connection.execute(sa.delete(keypoint_sets).where(keypoint_sets.c.id == made.id))
        connection.execute(sa.insert(keypoint_sets).values(**made.row()))
    return folder


def load_keypoint_set(root: Path, name: str) -> KeypointSet:
    """Load a keypoint set by its name in the store at `root`, or by its folder."""
    known = sets_below(root)
    if name in known or "/" in name:
        return read_keypoint_set(known.get(name, name))
    if not known:
        raise InputError(
            f"unknown keypoint set {name!r}: the store has none; create one with `keypoints make`"
        )
    raise UnknownNameError("keypoint set", name, known)
