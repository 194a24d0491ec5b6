# SPDX-License-Identifier: BSD-3-Clause
"""The database of a store and its files: what they say is what it says after it was rebuilt."""

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
from .locking import DATABASE, is_corruption, make_sqlite_engine
from .run_queries import load_runs
from .schema import VERSION, create, datasets, keypoint_sets, methods, runs, scores, statements, versions
from .store import Store
from .stored_run import (
    StoredRun,
    method_id,
    read_run,
)
from .writers import database_errors, insert_run, upsert

Step = Callable[[str], None]


def rebuild(store: Store) -> list[str]:
    """Make the database say what the files of the store say, in one transaction; returns problems in words.

    A run whose file is gone disappears, with its method and dataset if no other run has them. The rows of a
    run whose file cannot be read stay, since they are all that is left of it; the file is named.
    """
    with store.begin() as connection:
        return rebuild_in_transaction(store, connection)


def rebuild_in_transaction(store: Store, connection: sa.Connection) -> list[str]:
    """`rebuild` within a transaction."""
    problems = []
    there = set()
    for path in sorted((store.root / "runs").glob("*.json")):
        try:
            run = read_run(path)
            if run.id != path.stem:
                raise StoreError(f"{path} holds the run {run.id}; name it {run.id}.json or remove it")
        except StoreError as e:
            there.add(path.stem)
            problems.append(str(e))
            continue
        there.add(run.id)
        try:
            with connection.begin_nested(), database_errors(run):
                insert_run(connection, run)
        except InputError as e:
            problems.append(f"{e}; remove {path} and make the run again")
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
    """Put a database made from the files of the runs in the place of a damaged SQLite database.

    The new one is made beside it and takes its place in one step: a process that is killed leaves the damaged
    one, to be found again, or the new one. The damaged one is kept under another name, and nothing that was
    kept before is replaced. Its journals go with it: left behind, they would be played into the new one.

    Args:
        root: Folder of the store; a database that is elsewhere is never touched.
        step: Called with the name of each step that is done.

    Returns:
        Where the damaged one is now; None if the database is whole, or there is none.

    Raises:
        StoreError: if the new one cannot be made; the damaged one is then as it was.

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
        raise StoreError(f"the damaged {database} cannot be made anew: {e.strerror or e}") from e
    return aside


def _kept_aside(database: Path) -> Path:
    """A second name of a database; where the file system has none, a copy."""
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
    """Whether SQLite cannot read its file; one that is locked, or of another version, is left alone."""
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
    """What SQLite finds wrong with its own file, and what to do; nothing for another database."""
    if store.engine.dialect.name != "sqlite":
        return []
    again = "`store check` makes it anew from the run files"
    try:
        with store.reading() as connection:
            found = connection.execute(sa.text("pragma integrity_check")).scalars().all()
    except StoreError as e:
        return [(f"the database cannot be read: {e}", again)]
    told = [] if found == ["ok"] else [f"the database is damaged: {found[0]}"]
    try:
        with store.reading() as connection:
            views = connection.execute(sa.text("select sql from sqlite_master where type = 'view'")).scalars()
            known = {_plain(text) for text in views}
    except StoreError as e:
        return [(f"the database cannot be read: {e}", again)]
    if known != {_plain(text) for text in statements()}:
        told.append("a view of the database is not what it was")
    return [(what, again) for what in told]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def differing_rows(store: Store, runs: Mapping[str, StoredRun]) -> Iterator[tuple[str, str]]:
    """Ids of runs whose rows are not what their file says, with a sentence; `runs` are those of the files."""
    try:
        rows = {run.id: run for run in load_runs(store)}
    except (StoreError, ValueError, KeyError, TypeError):
        return  # told already
    yield from _differing_parts(store, runs)
    for name in sorted({*runs, *rows}):
        if name not in rows:
            yield name, f"run {name} is in a file and not in the database"
        elif name in runs and runs[name] is not rows[name] and _said(runs[name]) != _said(rows[name]):
            yield name, f"the database and the file of run {name} ({runs[name].method}) do not agree"
        elif not (store.root / "runs" / f"{name}.json").is_file():
            yield name, f"run {name} is in the database and has no file"


def _said(run: StoredRun) -> str:
    """All that is said about a run, in short."""
    scores = [list(s.to_dict().values()) for s in run.scores]
    rest = {k: getattr(run, k) for k in ("id", "task", "status", "error", "created_at", "time_s")}
    return hash_json([rest, scores, run.manifest.plain()])


def _differing_parts(store: Store, known: Mapping[str, StoredRun]) -> Iterator[tuple[str, str]]:
    """Runs whose method or dataset is called otherwise in the database; several runs may share a row."""
    said: dict[str, set[tuple[object, ...]]] = {}
    whose: dict[str, str] = {}
    for run in known.values():
        m, d = run.manifest.method, run.manifest.dataset
        mid = method_id(run.manifest)
        said.setdefault(mid, set()).add((m.name, m.family, m.distance))
        said.setdefault(d.hash, set()).add((d.name, d.items))
        whose |= {mid: run.id, d.hash: run.id}
    with store.reading() as connection:
        own = (methods.c.name, methods.c.family, methods.c.distance)
        found = [tuple(row) for row in connection.execute(sa.select(methods.c.id, *own))]
        of_data = sa.select(datasets.c.id, datasets.c.name, datasets.c["items"])
        found += [tuple(row) for row in connection.execute(of_data)]
    for key, *row in found:
        if key in said and tuple(row) not in said[key]:
            yield whose[key], f"the database calls the method or dataset of run {whose[key]} {row[0]!r}"
