# SPDX-License-Identifier: BSD-3-Clause
"""Opening a store: a folder (SQLite inside) or an SQLAlchemy URL with a folder for files beside it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import sqlalchemy as sa

from ..model import hashing
from ..model.errors import StoreError
from ..model.hashing import hash_bytes
from . import schema
from .atomic import atomic_file, unwritable
from .features import FeatureCache
from .records import RecordStore
from .values import ValueStore

DEFAULT = "tiepoint-store"

_LOCK = 7496
"""Number of the advisory locks that writers of a PostgreSQL store take."""

_READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def default_store() -> str:
    """Where runs go when nothing is said: ``$TIEPOINT_STORE`` or ``tiepoint-store`` here."""
    return os.environ.get("TIEPOINT_STORE", DEFAULT)


def split_url(where: str) -> tuple[str, Path]:
    """Database URL and files folder of ``postgresql://…?files=DIR``; the folder defaults to `DEFAULT`.

    >>> split_url("postgresql://u@h/db?files=/lab/tp&connect_timeout=3")
    ('postgresql://u@h/db?connect_timeout=3', PosixPath('/lab/tp'))
    """
    parts = urlsplit(where)
    query = dict(parse_qsl(parts.query))
    files = Path(query.pop("files", DEFAULT))
    return urlunsplit(parts._replace(query=urlencode(query))), files


def store_root(where: str | Path | None = None) -> Path:
    """The folder for files of a store, without opening or making it.

    >>> store_root("postgresql://h/db?files=lab").name
    'lab'
    """
    text = str(where) if where is not None else default_store()
    return split_url(text)[1] if "://" in text else Path(text)


@dataclass(frozen=True)
class Store:
    """Open store: `engine` for SQL, `features` and `records` on disk, `root` their folder."""

    engine: sa.Engine
    root: Path
    where: str

    @classmethod
    def open(cls, where: str | Path | None = None) -> Store:
        """Open or create a store; migrates an older schema, refuses a newer one."""
        text = str(where) if where is not None else default_store()
        if "://" in text:
            url, root = split_url(text)
            shown = sa.make_url(url).render_as_string(hide_password=True)
        else:
            root = Path(text)
            shown = text
            if root.exists() and not root.is_dir():
                raise StoreError(f"store {root} is a file; --store takes a folder or a database URL")
            url = f"sqlite:///{root / 'tiepoint.sqlite'}"
        with unwritable(root):
            root.mkdir(parents=True, exist_ok=True)
            if not os.access(root, os.W_OK):
                raise PermissionError(13, "Permission denied")
        store = cls(_engine(url), root, shown)
        with store.begin() as connection:
            schema.migrate(connection, shown)
        hashing.load_memo(root / "hashes.json")
        return store

    @property
    def features(self) -> FeatureCache:
        """The feature cache."""
        return FeatureCache(self.root / "features")

    @property
    def records(self) -> RecordStore:
        """The records."""
        return RecordStore(self.root / "records")

    @property
    def values(self) -> ValueStore:
        """The scene values behind scores."""
        return ValueStore(self.root / "values")

    @contextlib.contextmanager
    def begin(self, *, lock: str | None = None) -> Iterator[sa.Connection]:
        """One transaction that writes; database errors become a `StoreError`.

        Without `lock` no other process writes meanwhile. With it, one that gives another name may, where
        the database can do that (PostgreSQL; SQLite has one writer at a time).
        """
        with self._transaction() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif lock is None:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            else:
                number = int(hash_bytes(lock.encode())[:8], 16) - 2**31
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, number)))
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One transaction that only reads: it sees one state and keeps nobody from writing."""
        with self._transaction() as connection:
            connection.exec_driver_sql("BEGIN" if connection.dialect.name == "sqlite" else _READ_ONLY)
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            opened = self.engine.connect()
        except sa.exc.DBAPIError as e:
            raise StoreError(f"cannot open store {self.where}: {e.orig}") from e
        try:
            with opened as connection, connection.begin():
                yield connection
        except sa.exc.DBAPIError as e:
            raise StoreError(f"store {self.where}: {e.orig}") from e

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """A small immutable file under the store's folder."""
        with atomic_file(self.root / name) as temporary:
            temporary.write_text(json.dumps(value, indent=1, sort_keys=True, default=str))

    def close(self) -> None:
        """Remember file hashes and let the database go."""
        with contextlib.suppress(StoreError):  # a memo that cannot be written only costs time
            hashing.save_memo(self.root / "hashes.json", atomic_file)
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _engine(url: str) -> sa.Engine:
    try:
        made = sa.make_url(url)
        if made.drivername == "postgresql":
            made = made.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {}
        if made.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": 60}
        engine = sa.create_engine(made, **options)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as e:
        raise StoreError(f"cannot understand the store URL {url!r}: {e}") from e
    except ModuleNotFoundError as e:
        raise StoreError(
            f"this database needs the package {e.name!r}: pip install 'tiepoint[postgres]'"
        ) from e
    if engine.dialect.name == "sqlite":
        # SQLite leaves transactions to the driver, which begins them too late for DDL: `Store` does.
        sa.event.listen(engine, "connect", _manual_transactions)
    return engine


def _manual_transactions(connection: Any, _: object) -> None:
    connection.isolation_level = None
