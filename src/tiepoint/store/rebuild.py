# SPDX-License-Identifier: BSD-3-Clause
"""Rebuild the database from the run files, and compare the database with the run files."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import sqlalchemy as sa

from ..core.errors import InputError, StoreError
from ..core.hashing import hash_json
from ..formats.keypoints.set_folder import read_keypoint_set, sets_below
from .atomic_files import temporary_folder
from .locking import is_corruption, make_sqlite_engine
from .run_queries import load_runs
from .schema import VERSION, create, datasets, keypoint_sets, methods, runs, scores, statements, versions
from .store import Store
from .stored_run import (
    StoredRun,
    method_id,
    read_run,
)
from .urls import DATABASE
from .writers import database_errors, insert_run, upsert

Step = Callable[[str], None]


def rebuild(store: Store) -> list[str]:
    """Rebuild the database from the run files in one transaction. Return problems as messages.

    Rows without a run file are deleted, and so are methods and datasets that no other run uses. If a run file
    is corrupt, the rows of its run are retained, because they are the only remaining copy.
    """
    with store.begin() as connection:
        return rebuild_in_transaction(store, connection)


def rebuild_in_transaction(store: Store, connection: sa.Connection) -> list[str]:
    """Rebuild the database within an open transaction; see `rebuild`."""
    problems = []
    there = set()
    for path in sorted((store.root / "runs").glob("*.json")):
        try:
            run = read_run(path)
        except StoreError as e:
            there.add(path.stem)
            problems.append(str(e))
            continue
        there.add(run.id)
        try:
            with connection.begin_nested(), database_errors(run):
                insert_run(connection, run)
        except InputError as e:
            problems.append(f"{e}; remove {path} and rerun the method")
    for name in connection.execute(sa.select(runs.c.id)).scalars().all():
        if name not in there:
            connection.execute(sa.delete(scores).where(scores.c.run_id == name))
            connection.execute(sa.delete(runs).where(runs.c.id == name))
    sets = []
    for folder in sets_below(store.root).values():
        try:
            row = read_keypoint_set(folder).row()
        except InputError as e:
            problems.append(str(e))
            continue
        sets.append(row["id"])
        upsert(connection, keypoint_sets, row)
    for table, used in (
        (methods, runs.c.method_id),
        (datasets, runs.c.dataset_id),
        (keypoint_sets, runs.c.keypoint_set_id),
    ):
        known = set(connection.execute(sa.select(used).distinct()).scalars()) | set(sets)
        for name in connection.execute(sa.select(table.c.id)).scalars().all():
            if name not in known:
                connection.execute(sa.delete(table).where(table.c.id == name))
    return problems


def replace_damaged(root: Path, step: Step = lambda _: None) -> Path | None:
    """Replace a corrupt SQLite database by one built from the run files.

    The new database is built in a temporary file and then renamed. A killed process leaves either the corrupt
    database or the new one. The journals of the corrupt database are renamed too; otherwise SQLite would
    apply them to the new database.

    Args:
        root: Folder of the store. A database outside this folder is never changed.
        step: Called with the name of each finished step.

    Returns:
        The new path of the corrupt database; None if the database is intact or missing.

    Raises:
        StoreError: The new database cannot be built; the old one is unchanged.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "tiepoint.sqlite").write_bytes(b"not a database" * 99)
    >>> replace_damaged(root).name, replace_damaged(root)
    ('tiepoint.sqlite.damaged', None)
    """
    database = root / DATABASE
    try:
        before = database.stat().st_ino
        if not _is_damaged(database):
            return None
        with temporary_folder(root) as folder:
            fresh = Store(make_sqlite_engine(folder / DATABASE, "write"), root, str(root))
            with fresh.begin() as connection:
                create(connection)
                rebuild_in_transaction(fresh, connection)
            fresh.engine.dispose()
            step("made")
            if database.stat().st_ino != before:  # another process was faster
                return None
            aside = _kept_aside(database)
            step("kept")
            for end in ("-journal", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(f"{database}{end}", f"{aside}{end}")
            step("journals")
            os.replace(folder / DATABASE, database)
        step("replaced")
    except FileNotFoundError:
        return None
    except OSError as e:
        raise StoreError(f"cannot rebuild the corrupt database {database}: {e.strerror or e}") from e
    return aside


def _kept_aside(database: Path) -> Path:
    """Create a backup of a database by a hard link, or by copying if hard links are not supported."""
    number, aside = 1, database.with_name(f"{database.name}.damaged")
    while os.path.lexists(aside) and not os.path.samefile(aside, database):
        number += 1
        aside = database.with_name(f"{database.name}.damaged-{number}")
    if not os.path.lexists(aside):
        try:
            os.link(database, aside)
        except OSError:
            shutil.copyfile(database, aside)
    return aside


def _is_damaged(database: Path) -> bool:
    """Return whether an SQLite file is corrupt. False if it is locked or has another format version."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True)
        ) as opened:
            with contextlib.suppress(sqlite3.Error):
                if opened.execute(f"select version from {versions.name}").fetchone() not in (
                    None,
                    (VERSION,),
                ):
                    return False
            return bool(opened.execute("pragma integrity_check").fetchone() != ("ok",))
    except sqlite3.Error as e:
        return is_corruption(e)


def damaged_database(store: Store) -> list[tuple[str, str]]:
    """Return the problems that SQLite finds in its file, and the remedy. Empty for PostgreSQL."""
    if store.engine.dialect.name != "sqlite":
        return []
    again = "`store check` rebuilds it from the run files"
    try:
        with store.reading() as connection:
            found = connection.execute(sa.text("pragma integrity_check")).scalars().all()
            views = connection.execute(sa.text("select sql from sqlite_master where type = 'view'")).scalars()
            known = {_plain(text) for text in views}
    except StoreError as e:
        return [(f"the database cannot be read: {e}", again)]
    wrong = [] if found == ["ok"] else [f"the database is corrupt: {found[0]}"]
    if known != {_plain(text) for text in statements()}:
        wrong.append("a view of the database differs from its definition")
    return [(what, again) for what in wrong]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def differing_rows(store: Store, runs: Mapping[str, StoredRun]) -> Iterator[tuple[str, str]]:
    """Yield the id and a message for each run in `runs` whose database rows differ from its run file."""
    try:
        rows = {run.id: run for run in load_runs(store)}
    except (StoreError, ValueError, KeyError, TypeError):
        return  # reported already
    yield from _differing_parts(store, runs)
    for name in sorted({*runs, *rows}):
        if name not in rows:
            yield name, f"run {name} has a file and is not in the database"
        elif name in runs and runs[name] is not rows[name] and _run_hash(runs[name]) != _run_hash(rows[name]):
            yield name, f"the database and the file of run {name} ({runs[name].method}) differ"
        elif not (store.root / "runs" / f"{name}.json").is_file():
            yield name, f"run {name} is in the database and has no file"


def _run_hash(run: StoredRun) -> str:
    """Return a hash of all stored properties of a run."""
    scores = [list(s.to_dict().values()) for s in run.scores]
    rest = {k: getattr(run, k) for k in ("id", "task", "status", "error", "created_at", "time_s")}
    return hash_json([rest, scores, run.manifest.plain()])


def _differing_parts(store: Store, known: Mapping[str, StoredRun]) -> Iterator[tuple[str, str]]:
    """Yield runs whose method or dataset has a different name in the database than in the run file."""
    expected: dict[str, set[tuple[object, ...]]] = {}
    whose: dict[str, str] = {}
    for run in known.values():
        m, d = run.manifest.method, run.manifest.dataset
        mid = method_id(run.manifest)
        expected.setdefault(mid, set()).add((m.name, m.family, m.distance))
        expected.setdefault(d.hash, set()).add((d.name, d.items))
        whose |= {mid: run.id, d.hash: run.id}
    with store.reading() as connection:
        own = (methods.c.name, methods.c.family, methods.c.distance)
        found = [tuple(row) for row in connection.execute(sa.select(methods.c.id, *own))]
        of_data = sa.select(datasets.c.id, datasets.c.name, datasets.c["items"])
        found += [tuple(row) for row in connection.execute(of_data)]
    for key, *row in found:
        if key in expected and tuple(row) not in expected[key]:
            yield whose[key], f"the database calls the method or dataset of run {whose[key]} {row[0]!r}"
