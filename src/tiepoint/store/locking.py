# SPDX-License-Identifier: BSD-3-Clause
"""Connections to SQLite and PostgreSQL: opening them, waiting for writers, copying what cannot be read."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..core.errors import StoreError
from ..core.hashing import hash_bytes
from .urls import DATABASE, without_secret

__all__ = [
    "ATTEMPTS",
    "BUSY_S",
    "DATABASE",
    "WRITE_S",
    "begin_reading",
    "begin_write",
    "commit",
    "make_engine",
    "make_sqlite_engine",
]

BUSY_S = 60
"""Seconds that SQLite waits for another process."""

WRITE_S = 2
"""The same to begin to write and to commit, which is tried `ATTEMPTS` times: no signal is heard meanwhile."""

ATTEMPTS = 300

TELL_AT = 2
"""After so many attempts a writer says that it waits."""

SPILL_PAGES = (1 << 17) - 1
"""Pages of 4 KiB that a writer of SQLite keeps in memory before it writes any, which locks readers out.

SQLite reads the last byte of the number as a truth value, so that must not be 0.

The journal is SQLite's own (`delete`). A write-ahead log would let others read during a commit as well, but
needs memory that processes share, which network file systems do not have, and the right to write to read.
"""

_TRIES = 5
CONNECT_S = 20
"""Seconds to reach a server."""

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
        wait = {} if "connect_timeout" in made.query else {"connect_timeout": CONNECT_S}
        engine = sa.create_engine(made, connect_args=wait)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError) as e:
        # The error of the library may quote the URL, and with it the password.
        raise StoreError(f"cannot understand the store URL: {without_secret(str(e), url)}") from None
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
        # No isolation level: the driver would begin transactions, and too late for DDL. `begin_write` does.
        made = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        if mode == "read":
            made.execute("PRAGMA query_only = ON")
        else:
            made.execute(f"PRAGMA cache_spill = {SPILL_PAGES}")
        return made

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)


def begin_write(connection: sa.Connection, lock: str | None) -> None:
    """Begin to write as soon as those that must not write at the same time have finished.

    Without the name of a `lock` these are all; with it, on PostgreSQL, those that give the same name.
    """
    if connection.dialect.name == "sqlite":
        _patiently(connection, "BEGIN IMMEDIATE")
    elif lock is None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    else:
        number = int(hash_bytes(lock.encode())[:8], 16) - 2**31
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, number)))


def _patiently(connection: sa.Connection, statement: str) -> None:
    """Run a statement of SQLite that waits for other processes, `ATTEMPTS` times."""
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * min(BUSY_S, WRITE_S))}")
    for attempt in range(ATTEMPTS):
        try:
            connection.exec_driver_sql(statement)
            break
        except sa.exc.OperationalError as e:
            if not is_busy(e) or attempt == ATTEMPTS - 1:
                raise
            if attempt == TELL_AT:
                print("tiepoint: waiting for another process that uses the store", file=sys.stderr)
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * BUSY_S)}")


def root_cause(error: sa.exc.DBAPIError) -> sa.exc.DBAPIError:
    """What went wrong first: on a full disk SQLite undoes everything, and then misses a savepoint."""
    at: BaseException | None = error
    while at is not None and "no such savepoint" in str(error.orig):
        at = at.__context__
        error = at if isinstance(at, sa.exc.DBAPIError) else error
    return error


def is_busy(error: sa.exc.DBAPIError) -> bool:
    """Whether another process keeps an SQLite database locked."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_corruption(error: BaseException | None) -> bool:
    """Whether SQLite says that its file is damaged, or none of its own."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def commit(connection: sa.Connection) -> None:
    """End a transaction that writes: on SQLite as soon as those that read now have finished.

    A commit that found the database busy has changed nothing, and can be tried again.
    """
    if connection.dialect.name == "sqlite":
        _patiently(connection, "COMMIT")


def begin_reading(connection: sa.Connection) -> None:
    """Begin to read: all statements see one state of the database, and nobody waits."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def copy_database(database: Path, folder: Path) -> Path:
    """Copy a database with its journal into a folder; returns the copy.

    The journal comes first: it has the pages as they were, and undoes what the copy of the database has of an
    unfinished change. Where a file has changed meanwhile the copy is made again, a few times.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "a.db").write_bytes(b"x")
    >>> (root / "to").mkdir()
    >>> copy_database(root / "a.db", root / "to").read_bytes()
    b'x'
    """
    sources = [database.with_name(database.name + end) for end in ("-journal", "-wal", "")]
    for _ in range(_TRIES):
        before = [_stamp(path) for path in sources]
        for path in sources:
            target = folder / path.name
            try:
                shutil.copyfile(path, target)
            except FileNotFoundError:
                target.unlink(missing_ok=True)
                if path == database:
                    raise
        if [_stamp(path) for path in sources] == before:
            break
    return folder / database.name


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
