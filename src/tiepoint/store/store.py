# SPDX-License-Identifier: BSD-3-Clause
"""Open store: a folder with an SQLite database, or a database URL with a folder for files."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from ..core import array_cache, hashing
from ..core.errors import StoreError
from ..core.formatting import storable_text
from ..core.processes import scratch_folder
from . import schema, status_files
from .atomic_files import atomic_file, write_errors
from .feature_cache import FeatureCache
from .locking import (
    begin_reading,
    begin_write,
    commit,
    copy_database,
    is_busy,
    is_corruption,
    make_engine,
    make_sqlite_engine,
    root_cause,
)
from .record_files import RecordStore
from .scene_values import ValueStore
from .urls import DATABASE, is_url, read_url, without_secret

DEFAULT = "tiepoint-store"

Mode = Literal["read", "write"]

NO_STORE = "pass another folder or URL as `store`, or create one with `tiepoint run`"
_CREATING = threading.RLock()
REMADE = "it was rebuilt from the run files"
_BUSY = "the database is locked: another process has been writing for longer than the timeout; try again"


def default_store() -> str:
    """Return the default store: ``$TIEPOINT_STORE`` or ``tiepoint-store``."""
    return os.environ.get("TIEPOINT_STORE") or DEFAULT


def store_root(where: str | Path | None = None) -> Path:
    """Return the folder that contains a store's files, without opening or creating the store.

    >>> store_root("postgresql://h/db?files=lab").name
    'lab'
    """
    text = str(where) if where is not None else default_store()
    return read_url(text).files if is_url(text) else Path(text)


def _check_writable(folder: Path, wanted: Path) -> None:
    """Raise `StoreError` if the folder cannot be written."""
    with write_errors(wanted):
        if not folder.is_dir():
            raise NotADirectoryError(20, "Not a directory")
        if not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(13, "Permission denied")


@dataclass(frozen=True)
class Store:
    """Open store: `engine` for SQL, and `features`, `records` and `values` in the folder `root`.

    `notices` are messages for the user. `remade` is set if the database was missing and was rebuilt from the
    run files.
    """

    engine: sa.Engine
    root: Path
    where: str
    mode: Mode = "write"
    notices: tuple[str, ...] = ()
    remade: bool = False
    _copy: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)
    _later: Path | None = field(default=None, repr=False)
    _done: list[str] = field(default_factory=list, repr=False)

    @classmethod
    def open(
        cls,
        where: str | Path | None = None,
        *,
        mode: Mode = "write",
        create: bool = True,
        later: bool = False,
    ) -> Store:
        """Open a store. Raise `StoreError` if the store has another format version.

        Args:
            where: Folder or database URL; None for `default_store`.
            mode: ``"read"`` creates nothing, blocks no other process and needs no write permission.
            create: Whether to create a missing store in mode ``"write"``.
            later: Create a missing store on first use, so that a command that fails early creates no store.
        """
        text = str(where) if where is not None else default_store()
        if not text:  # an unset variable; an empty path would be the current folder
            raise StoreError("`store` is empty; pass a folder or a database URL")
        if is_url(text):
            named = read_url(text)
            root, shown = named.files, named.shown
            engine, database = make_engine(named.url, mode)
        else:
            root, shown = Path(text), text
            if root.exists() and not root.is_dir():
                raise StoreError(f"the store {root} is a file; pass a folder or a database URL")
            if storable_text(text) != text and mode != "read":
                raise StoreError(
                    f"the store {storable_text(text)}: the name is not UTF-8; choose another folder"
                )
            database = root / DATABASE
            engine = make_sqlite_engine(database, mode)
        store = cls(engine, root, shown, mode)
        if mode == "read":
            return store._open_for_reading(database)
        empty = database is not None and not database.exists() and not (root / "runs").is_dir()
        if not create and (empty or not root.is_dir()):
            raise StoreError(f"there is no store at {shown}; {NO_STORE}")
        if later and empty:
            _check_writable(next(p for p in (root, *root.absolute().parents) if p.exists()), root)
            store = replace(store, _later=database)
            store._use_caches()
            return store
        store._make_folders(database)
        return store._open_for_writing()

    def _make_folders(self, database: Path | None) -> None:
        with write_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            if database is not None:
                database.parent.mkdir(parents=True, exist_ok=True)
        _check_writable(self.root, self.root)

    def _create(self) -> None:
        """Create a store that was opened with `later`. Later calls do nothing."""
        with _CREATING:
            if not self.exists:
                self._done.append("created")  # set first, because creating the store also uses the database
                try:
                    self._make_folders(self._later)
                    self._open_for_writing()
                except BaseException:
                    self._done.clear()
                    raise
                status_files.write_pending_status(self.root)

    @property
    def exists(self) -> bool:
        """Whether the store has been created."""
        return self._later is None or bool(self._done)

    def _open_for_writing(self) -> Store:
        from .rebuild import rebuild_in_transaction

        messages: tuple[str, ...] = ()
        if self._check_version() == 0:
            with self.begin() as connection:
                if schema.version_of(connection) == 0:  # no other process was faster
                    schema.create(connection)
                if self.engine.dialect.name == "sqlite" and any((self.root / "runs").glob("*.json")):
                    problems = rebuild_in_transaction(self, connection)
                    messages = (f"the database of the store {self.where} was missing: {REMADE}", *problems)
        self._use_caches()
        return replace(self, notices=messages, remade=bool(messages)) if messages else self

    def _open_for_reading(self, database: Path | None) -> Store:
        store = self
        if database is not None:
            if not database.is_file():
                lost = (self.root / "runs").is_dir()
                why = (
                    f" but its run files; `store check` rebuilds {database} from them"
                    if lost
                    else f"; {NO_STORE}"
                )
                raise StoreError(f"there is no store at {self.where}{why}")
            store = self._readable(database)
        if store._check_version() == 0:
            raise StoreError(f"the database of the store {self.where} is empty; run a method to fill it")
        self._use_caches()
        return store

    def _use_caches(self) -> None:
        """Reuse the file hashes and pair lists that earlier processes cached in this store."""
        hashing.load_memo(self.root / "hashes.json")
        array_cache.use_array_cache_folder(
            self.root / array_cache.FOLDER, atomic_file if self.mode == "write" else None
        )

    def _readable(self, database: Path) -> Store:
        """Return this store. If the database cannot be read in place, read from a copy.

        A copy is needed in two cases. Without write permission, SQLite cannot roll back the unfinished change
        of a killed writer. On a file system without locks, SQLite cannot read.
        """
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("select count(*) from sqlite_master")
            return self
        except sa.exc.DBAPIError as e:
            self.engine.dispose()
            if is_busy(e):
                raise StoreError(f"the store {self.where}: {_BUSY}") from e
        copy = scratch_folder()
        try:
            copy_database(database, Path(copy.name))
        except OSError as e:
            copy.cleanup()
            raise StoreError(f"cannot read the store {self.where}: {e.strerror or e}") from e
        engine = make_sqlite_engine(Path(copy.name) / database.name, "write")
        return replace(self, engine=engine, _copy=copy)

    def _check_version(self) -> int:
        with self.reading() as connection:
            version = schema.version_of(connection)
        if version not in (0, schema.VERSION):
            raise StoreError(
                f"{self.where}: the store has format version {version}, but this version of tiepoint needs "
                f"{schema.VERSION}; pass a new `store` and run again"
            )
        return version

    @property
    def in_place(self) -> bool:
        """Whether the database is read in place, without a copy."""
        return self._copy is None

    @cached_property
    def features(self) -> FeatureCache:
        """Feature cache of the store."""
        return FeatureCache(self.root / "features")

    @cached_property
    def records(self) -> RecordStore:
        """Record files of the store."""
        return RecordStore(self.root / "records", hold=True)

    @property
    def values(self) -> ValueStore:
        """Scene values of the store."""
        return ValueStore(self.root / "values")

    @contextlib.contextmanager
    def begin(self, *, lock: str | None = None) -> Iterator[sa.Connection]:
        """Open a write transaction. Convert database errors to `StoreError`.

        Without `lock`, no other process can write at the same time. With `lock`, on PostgreSQL, processes
        with a different lock can write at the same time. The last statement increments the change counter of
        the store.
        """
        with self._transaction() as connection:
            begin_write(connection, lock)
            yield connection
            schema.count_change(connection)
            commit(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a read transaction. It sees one snapshot and blocks no writer."""
        with self._transaction() as connection:
            begin_reading(connection)
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        if self._later is not None:
            self._create()
        try:
            opened = self.engine.connect()
        except sa.exc.DBAPIError as e:
            raise StoreError(f"cannot open the store {self.where}: {self._describe(e)}") from e
        try:
            with opened as connection, connection.begin():
                yield connection
        except sa.exc.DBAPIError as e:
            raise StoreError(f"the store {self.where}: {self._describe(e)}") from e

    def _describe(self, error: sa.exc.DBAPIError) -> str:
        """Return the error message of the database on one line, without the password."""
        error = root_cause(error)
        if is_busy(error):
            return _BUSY
        message = without_secret(str(error.orig), self.engine.url.render_as_string(hide_password=False))
        if error.connection_invalidated:
            return (
                f"{message}; the connection to the database was lost. Finished work is saved; rerun the "
                "command when the server is available"
            )
        if is_corruption(error.orig) and (self.root / DATABASE).is_file():
            return f"{message}; `store check` rebuilds the database from the run files"
        return message

    def save_hashes(self) -> None:
        """Save the file hashes of this process, so that later processes can reuse them."""
        with contextlib.suppress(StoreError):  # lost hashes only cost time
            hashing.save_memo(self.root / "hashes.json", atomic_file)

    def close(self) -> None:
        """Close the database; in mode ``"write"`` save the file hashes."""
        if self.mode == "write" and self.exists:
            self.save_hashes()
        if array_cache.array_cache_folder() == self.root / array_cache.FOLDER:
            array_cache.use_array_cache_folder(None)
        self.engine.dispose()
        if self._copy is not None:
            self._copy.cleanup()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
