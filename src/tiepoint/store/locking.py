# SPDX-License-Identifier: BSD-3-Clause
"""Engines and transactions of SQLite and PostgreSQL, with timeouts and retries."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..core.errors import StoreError
from ..core.file_stamps import FileStamp, file_stamp
from ..core.hashing import hash_bytes
from .urls import without_secret

BUSY_S = 60
"""SQLite timeout for waiting on locks of other processes, in seconds."""

WRITE_S = 2
"""Timeout of each of the `ATTEMPTS` to begin or commit. SQLite handles no signal while it waits."""

ATTEMPTS = 300

REPORT_AT = 2
"""Number of the attempt at which a writer reports that it is waiting."""

SPILL_PAGES = (1 << 17) - 1
"""Number of 4 KiB pages that SQLite buffers before it writes to the file. Writing blocks readers.

SQLite interprets the last byte of the number as a boolean, so it must not be 0. The journal mode is `delete`.
A write-ahead log would need shared memory, which network file systems lack, and write permission for readers.
"""

_TRIES = 5
CONNECTION = {
    "connect_timeout": 20,
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
}
"""Connection parameters of PostgreSQL, in seconds. A silent server counts as lost after two minutes."""

_LOCK = 7496
"""Key of the PostgreSQL advisory locks that writers take."""


def make_engine(url: str, mode: str) -> tuple[sa.Engine, Path | None]:
    """Return the SQLAlchemy engine of a database URL, and the database file if the URL is SQLite."""
    try:
        made = sa.make_url(url)
        if made.get_backend_name() == "sqlite" and made.database:
            return make_sqlite_engine(Path(made.database), mode), Path(made.database)
        if made.drivername == "postgresql":
            made = made.set(drivername="postgresql+psycopg")
        settings = {name: value for name, value in CONNECTION.items() if name not in made.query}
        # A connection that was lost while it was idle is replaced before its next use.
        engine = sa.create_engine(made, connect_args=settings, pool_pre_ping=True)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError) as e:
        # The error may quote the URL with its password.
        raise StoreError(f"invalid store URL: {without_secret(str(e), url)}") from None
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
    """Return the engine of an SQLite file. In mode ``"read"`` it neither creates nor writes the file."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if mode == 'read' else 'rwc'}"

    def connect() -> sqlite3.Connection:
        # No isolation level: `begin_write` begins transactions, the driver would do so too late for DDL.
        made = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        if mode == "read":
            made.execute("PRAGMA query_only = ON")
        else:
            made.execute(f"PRAGMA cache_spill = {SPILL_PAGES}")
        return made

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)


def begin_write(connection: sa.Connection, lock: str | None) -> None:
    """Begin a write transaction after conflicting writers have finished.

    Without `lock` all writers conflict. With `lock`, on PostgreSQL, only writers with the same `lock`
    conflict.
    """
    if connection.dialect.name == "sqlite":
        _retry_busy(connection, "BEGIN IMMEDIATE")
    elif lock is None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    else:
        number = int(hash_bytes(lock.encode())[:8], 16) - 2**31
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, number)))


def _retry_busy(connection: sa.Connection, statement: str) -> None:
    """Run an SQLite statement and retry it up to `ATTEMPTS` times while the database is locked."""
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * min(BUSY_S, WRITE_S))}")
    for attempt in range(ATTEMPTS):
        try:
            connection.exec_driver_sql(statement)
            break
        except sa.exc.OperationalError as e:
            if not is_busy(e) or attempt == ATTEMPTS - 1:
                raise
            if attempt == REPORT_AT:
                print("tiepoint: waiting for another process that uses the store", file=sys.stderr)
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * BUSY_S)}")


def root_cause(error: sa.exc.DBAPIError) -> sa.exc.DBAPIError:
    """Return the original error. On a full disk SQLite rolls back and then reports a missing savepoint."""
    at: BaseException | None = error
    while at is not None and "no such savepoint" in str(error.orig):
        at = at.__context__
        error = at if isinstance(at, sa.exc.DBAPIError) else error
    return error


def is_busy(error: sa.exc.DBAPIError) -> bool:
    """Return whether another process has locked the SQLite database."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_corruption(error: BaseException | None) -> bool:
    """Return whether SQLite reports that a file is corrupt or is not a database."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def commit(connection: sa.Connection) -> None:
    """Commit a transaction. On SQLite wait for readers and retry while the database is busy."""
    if connection.dialect.name == "sqlite":
        _retry_busy(connection, "COMMIT")


def begin_reading(connection: sa.Connection) -> None:
    """Begin a read transaction. All its statements see one snapshot, and it blocks no other process."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def copy_database(database: Path, folder: Path) -> Path:
    """Copy a database with its journal into a folder and return the copy.

    The journal is copied first. SQLite uses it to roll back an unfinished change in the copy. If a file
    changes during copying, copying is retried a few times.

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


def _stamp(path: Path) -> FileStamp | None:
    try:
        return file_stamp(path.stat())
    except FileNotFoundError:
        return None
