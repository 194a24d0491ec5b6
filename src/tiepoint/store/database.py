# SPDX-License-Identifier: BSD-3-Clause
"""Connections to SQLite and PostgreSQL: opening them, waiting for other writers, a user's own SQL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..model.errors import InputError, StoreError
from ..model.hashing import hash_bytes

DATABASE = "tiepoint.sqlite"
"""The database in the folder of a store."""

BUSY_S = 60
"""Seconds that SQLite waits for another process; a writer asks `ATTEMPTS` times."""

ATTEMPTS = 10

_LOCK = 7496
"""Number of the advisory locks that writers of a PostgreSQL store take."""


def make_engine(url: str, mode: str) -> tuple[sa.Engine, Path | None]:
    """The engine of a database URL, and the file of the database if it is one."""
    try:
        made = sa.make_url(url)
        if made.get_backend_name() == "sqlite" and made.database:
            return make_sqlite_engine(Path(made.database), mode), Path(made.database)
        if made.drivername == "postgresql":
            made = made.set(drivername="postgresql+psycopg")
        engine = sa.create_engine(made)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as e:
        raise StoreError(f"cannot understand the store URL {url!r}: {e}") from e
    except ModuleNotFoundError as e:
        raise StoreError(
            f"this database needs the package {e.name!r}: pip install 'tiepoint[postgres]'"
        ) from e
    if mode == "read":
        sa.event.listen(engine, "connect", _only_read)
    return engine, None


def _only_read(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set session characteristics as transaction read only")
    connection.commit()


def make_sqlite_engine(path: Path, mode: str) -> sa.Engine:
    """The engine of an SQLite file; to read, the file is opened so that it cannot be created or written."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if mode == 'read' else 'rwc'}"

    def connect() -> sqlite3.Connection:
        # No isolation level: the driver would begin transactions, and too late for DDL. `begin` does.
        return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)


def begin(connection: sa.Connection, lock: str | None) -> None:
    """Begin to write as soon as those that must not write at the same time have finished.

    Without the name of a `lock` these are all; with it, on PostgreSQL, those that give the same name.
    """
    if connection.dialect.name == "sqlite":
        for attempt in range(ATTEMPTS):
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except sa.exc.OperationalError as e:
                busy = getattr(e.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
                if not busy or attempt == ATTEMPTS - 1:
                    raise
    elif lock is None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    else:
        number = int(hash_bytes(lock.encode())[:8], 16) - 2**31
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, number)))


def begin_reading(connection: sa.Connection) -> None:
    """Begin to read: all statements see one state of the database, and nobody waits."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def select(engine: sa.Engine, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a user's own SQL. The database itself refuses to write; failures are InputErrors.

    On PostgreSQL the statement is prepared, so that a second one cannot hide behind a semicolon and end
    the read-only transaction.
    """
    dialect = engine.dialect
    connection = engine.raw_connection()
    cursor = connection.cursor()
    try:
        if dialect.name == "sqlite":
            cursor.execute("PRAGMA query_only = ON")
            cursor.execute(query)
        else:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(query, prepare=True)  # type: ignore[call-arg]
        if cursor.description is None:
            raise InputError("this statement returns no rows; a query can only read")
        return [column[0] for column in cursor.description], [tuple(row) for row in cursor.fetchall()]
    except (dialect.loaded_dbapi.Error, dialect.loaded_dbapi.Warning) as e:
        raise InputError(f"the database refuses this query: {e}") from e
    finally:
        connection.rollback()
        connection.close()
