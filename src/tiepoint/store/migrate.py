# SPDX-License-Identifier: BSD-3-Clause
"""Bringing an older store up to date: a copy of its database first, then one transaction."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from . import schema
from .atomic import atomic_file
from .store import Store


def migrate(store: Store) -> str | None:
    """Bring the database to the present schema; returns where the copy is, None if nothing had to be done.

    No other process writes meanwhile. A migration that is killed leaves the database as it was.
    """
    with store.begin() as connection:
        version = schema.version_of(connection)
        if version == schema.VERSION:
            return None  # another process was faster
        copied = _copied(connection, version)
        schema.upgrade(connection)
    return copied


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
