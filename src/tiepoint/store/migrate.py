# SPDX-License-Identifier: BSD-3-Clause
"""Bringing an older store up to date: a copy of its database first, then one transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from ..core.errors import StoreError
from . import schema
from .atomic_files import atomic_file
from .rebuild import rebuild_in_transaction, rewrite_run_file
from .run_files import read_run, run_file
from .run_rows import load_rows
from .store import Store


@dataclass(frozen=True)
class Migration:
    """A migration that was done: the version before, where the copy is, how many runs have a new id."""

    version: int
    copy: str
    renamed: int


def migrate_database(store: Store) -> Migration | None:
    """Bring the database to the present schema, and runs to their present names; None if it is up to date.

    No other process writes meanwhile. A migration that is killed leaves the database as it was.
    """
    with store.begin() as connection:
        version = schema.version_of(connection)
        if version == schema.VERSION:
            return None  # another process was faster
        copied = _copied(connection, version)
        schema.upgrade(connection)
        before = set(connection.execute(sa.select(schema.runs.c.id)).scalars())
        _write_lost_files(store, connection)
        rebuild_in_transaction(store, connection)
        after = set(connection.execute(sa.select(schema.runs.c.id)).scalars())
    return Migration(version, copied, len(before - after))


def _write_lost_files(store: Store, connection: sa.Connection) -> None:
    """Write the files of runs that have none, or one that cannot be read: the database follows the files."""
    for name in connection.execute(sa.select(schema.runs.c.id)).scalars().all():
        try:
            read_run(run_file(store, name))
        except StoreError:
            for run in load_rows(connection, schema.VERSION, schema.runs.c.id == name):
                rewrite_run_file(store, run)


def _copied(connection: sa.Connection, version: int) -> str:
    """Copy the database; returns where the copy is.

    SQLite: to a file beside it. PostgreSQL: every table to one beside it, in the same transaction.
    """
    if connection.dialect.name == "sqlite":
        row = connection.exec_driver_sql("PRAGMA database_list").first()
        path = Path(str(row[2] if row else ""))
        copy = path.with_name(f"{path.name}.v{version}-backup")
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with atomic_file(copy) as temporary:
            target = sqlite3.connect(temporary)
            source.backup(target)
            target.close()
        source.close()
        return str(copy)
    for table in schema.metadata.tables:
        connection.execute(sa.text(f"drop table if exists {table}_v{version}_backup"))
        connection.execute(sa.text(f"create table {table}_v{version}_backup as table {table}"))
    return f"the tables *_v{version}_backup"
