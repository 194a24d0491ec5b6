# SPDX-License-Identifier: BSD-3-Clause
"""An open store: a folder (SQLite inside) or a database URL with a folder for files beside it."""

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
from .urls import DATABASE, is_url, read_url, split_url, without_secret

DEFAULT = "tiepoint-store"

Mode = Literal["read", "write"]

_MAKING = threading.RLock()
REMADE = "it was made anew from the run files"
_BUSY = "the database is locked: another process has been writing for longer than this one waits; try again"


def default_store() -> str:
    """Where runs go when nothing is said: ``$TIEPOINT_STORE`` or ``tiepoint-store`` here."""
    return os.environ.get("TIEPOINT_STORE") or DEFAULT


def store_root(where: str | Path | None = None) -> Path:
    """The folder for files of a store, without opening or making it.

    >>> store_root("postgresql://h/db?files=lab").name
    'lab'
    """
    text = str(where) if where is not None else default_store()
    return split_url(text)[1] if is_url(text) else Path(text)


def _check_writable(folder: Path, wanted: Path) -> None:
    """Refuse a store in a folder that cannot be written."""
    with write_errors(wanted):
        if not folder.is_dir():
            raise NotADirectoryError(20, "Not a directory")
        if not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(13, "Permission denied")


@dataclass(frozen=True)
class Store:
    """Open store: `engine` for SQL; `features`, `records` and `values` on disk, `root` their folder.

    `notices` are messages for the user; `remade` says whether its database was missing and rebuilt from the
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
        """Open a store; one of another format version is refused.

        Args:
            where: Folder or database URL; `default_store` if nothing is said.
            mode: ``"read"`` creates nothing, blocks no other process and needs no write permission.
            create: Whether to make a store that is not there; one that is only read is never made.
            later: Make one that is not there when it is first asked or written to, so that nothing is left of
                what is refused before.
        """
        text = str(where) if where is not None else default_store()
        if not text:  # a variable that is not set; the path of nothing would be the current folder
            raise StoreError("`store` is empty; name a folder or a database URL")
        if is_url(text):
            named = read_url(text)
            root, shown = named.files, named.shown
            engine, database = make_engine(named.url, mode)
        else:
            root, shown = Path(text), text
            if root.exists() and not root.is_dir():
                raise StoreError(f"the store {root} is a file; a store is a folder or a database URL")
            if storable_text(text) != text and mode != "read":
                raise StoreError(
                    f"the store {storable_text(text)}: the name is not UTF-8; choose another folder"
                )
            database = root / DATABASE
            engine = make_sqlite_engine(database, mode)
        store = cls(engine, root, shown, mode)
        if mode == "read":
            return store._opened_to_read(database)
        empty = database is not None and not database.exists() and not (root / "runs").is_dir()
        if not create and (empty or not root.is_dir()):
            raise StoreError(f"there is no store at {shown}")
        if later and empty:
            _check_writable(next(p for p in (root, *root.absolute().parents) if p.exists()), root)
            store = replace(store, _later=database)
            store._remember()
            return store
        store._make_folders(database)
        return store._opened_to_write()

    def _make_folders(self, database: Path | None) -> None:
        with write_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            if database is not None:
                database.parent.mkdir(parents=True, exist_ok=True)
        _check_writable(self.root, self.root)

    def _make(self) -> None:
        """Make a store that was to be made later, once."""
        with _MAKING:
            if not self.exists:
                self._done.append("made")  # what makes it asks the database, too
                try:
                    self._make_folders(self._later)
                    self._opened_to_write()
                except BaseException:
                    self._done.clear()
                    raise
                status_files.write_pending_status(self.root)

    @property
    def exists(self) -> bool:
        """Whether it is there, and not only to be made when something is asked of it."""
        return self._later is None or bool(self._done)

    def _opened_to_write(self) -> Store:
        told: tuple[str, ...] = ()
        if self._checked_version() == 0:
            with self.begin() as connection:
                if schema.version_of(connection) == 0:  # no other process was faster
                    schema.create(connection)
                if self.engine.dialect.name == "sqlite" and any((self.root / "runs").glob("*.json")):
                    told = (
                        f"the database of the store {self.where} was missing: {REMADE}",
                        *self._follow(connection),
                    )
        self._remember()
        return replace(self, notices=told, remade=bool(told)) if told else self

    def _follow(self, connection: sa.Connection) -> list[str]:
        from .rebuild import rebuild_in_transaction

        return rebuild_in_transaction(self, connection)

    def _opened_to_read(self, database: Path | None) -> Store:
        store = self
        if database is not None:
            if not database.is_file():
                lost = (self.root / "runs").is_dir()
                why = f" but its files; `store check` makes {database} again from these" if lost else ""
                raise StoreError(f"there is no store at {self.where}{why}")
            store = self._readable(database)
        if store._checked_version() == 0:
            raise StoreError(f"the database of the store {self.where} is empty")
        self._remember()
        return store

    def _remember(self) -> None:
        """Let what earlier processes hashed, drew and parsed be found, and kept if this is written."""
        hashing.load_memo(self.root / "hashes.json")
        array_cache.use_array_cache_folder(
            self.root / array_cache.FOLDER, atomic_file if self.mode == "write" else None
        )

    def _readable(self, database: Path) -> Store:
        """The store, or where the database cannot be read in place, a copy of it.

        What a killed writer left half-done has to be undone before the database can be read, and so needs
        the right to write; the same goes for a file system that cannot lock.
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

    def _checked_version(self) -> int:
        with self.reading() as connection:
            version = schema.version_of(connection)
        if version not in (0, schema.VERSION):
            raise StoreError(
                f"{self.where}: the store has format version {version}, and this tiepoint needs version "
                f"{schema.VERSION}; pass a new `store` and run again"
            )
        return version

    @property
    def in_place(self) -> bool:
        """Whether the database is read where it is, not from a copy."""
        return self._copy is None

    @cached_property
    def features(self) -> FeatureCache:
        """The feature cache."""
        return FeatureCache(self.root / "features")

    @cached_property
    def records(self) -> RecordStore:
        """The records."""
        return RecordStore(self.root / "records", hold=True)

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
            begin_write(connection, lock)
            yield connection
            commit(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One transaction that only reads: it sees one state and keeps nobody from writing."""
        with self._transaction() as connection:
            begin_reading(connection)
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        if self._later is not None:
            self._make()
        try:
            opened = self.engine.connect()
        except sa.exc.DBAPIError as e:
            raise StoreError(f"cannot open the store {self.where}: {self._said(e)}") from e
        try:
            with opened as connection, connection.begin():
                yield connection
        except sa.exc.DBAPIError as e:
            raise StoreError(f"the store {self.where}: {self._said(e)}") from e

    def _said(self, error: sa.exc.DBAPIError) -> str:
        """What the database says, on one line and without its password."""
        error = root_cause(error)
        if is_busy(error):
            return _BUSY
        said = without_secret(str(error.orig), self.engine.url.render_as_string(hide_password=False))
        if is_corruption(error.orig) and (self.root / DATABASE).is_file():
            return f"{said}; `store check` makes the database anew from the run files"
        return said

    def remember_hashes(self) -> None:
        """Write the hashes of files that this process knows, for the next one."""
        with contextlib.suppress(StoreError):  # a memo that cannot be written only costs time
            hashing.save_memo(self.root / "hashes.json", atomic_file)

    def close(self) -> None:
        """Let the database go and, unless the store is only read, remember the hashes of files."""
        if self.mode == "write" and self.exists:
            self.remember_hashes()
        if array_cache.array_cache_folder() == self.root / array_cache.FOLDER:
            array_cache.use_array_cache_folder(None)
        self.engine.dispose()
        if self._copy is not None:
            self._copy.cleanup()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
