# SPDX-License-Identifier: BSD-3-Clause
"""What pages are made of: runs and sections of the open store, read again when the store has changed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from ..model.errors import TiepointError
from ..report.runs.sections import Section, sections
from ..report.runs.stored import Kept, run_of
from ..run.result import Run
from ..store.database import DATABASE
from ..store.runs import load_runs
from ..store.schema import runs as run_table
from ..store.store import Store
from ..tasks import stored_task

T = TypeVar("T")
FRESH_S = 1.0
"""Seconds for which the store is not asked again whether it has changed."""
KEPT_BYTES = 1 << 25
"""Records that stay in memory."""


class Memo:
    """The last values that were asked for, each made once, however many ask at the same time."""

    def __init__(self, most: int) -> None:
        self._most, self._known = most, OrderedDict[Hashable, Any]()
        self._lock, self._making = threading.Lock(), dict[Hashable, threading.Lock]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; `make` is called where there is none, and what it raises is not kept."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            own = self._making.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if key in self._known:
                    return self._known[key]
            try:
                made = make()
                with self._lock:
                    self._known[key] = made
                    while len(self._known) > self._most:
                        self._known.popitem(last=False)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return made


@dataclass(frozen=True)
class Shelf:
    """One state of the store: finished runs, newest last, without scores of single scenes."""

    stamp: Hashable
    runs: tuple[Run, ...]
    failed: int

    @cached_property
    def by_id(self) -> dict[str, Run]:
        """Runs by their whole id."""
        return {r.id: r for r in self.runs}

    @cached_property
    def sections(self) -> list[Section]:
        """One section a task and dataset, as in the report."""
        return sections(self.runs)

    def section_of(self, run: Run) -> Section | None:
        """The first section that a run is in."""
        return next((s for s in self.sections if any(r.id == run.id for r in s.runs)), None)


class Library:
    """An open store for pages; `data` are folders to look for datasets in that are not where they were."""

    def __init__(self, store: Store, *, data: Sequence[Path] = (), cache: Path | None = None) -> None:
        self.store, self.data = store, tuple(data)
        self.cache = cache
        self.tables, self.places = Memo(256), Memo(64)
        self.orders, self.cases, self.details = Memo(12), Memo(4), Memo(6)
        self._lock, self._asked = threading.Lock(), 0.0
        self._shelf: Shelf | None = None

    def shelf(self) -> Shelf:
        """The store as it is now."""
        with self._lock:
            if self._shelf is not None and time.monotonic() - self._asked < FRESH_S:
                return self._shelf
            stamp = self._stamp()
            if self._shelf is None or self._shelf.stamp != stamp:
                stored = load_runs(self.store, singles=False)
                kept = Kept(self.store.records, most_bytes=KEPT_BYTES)
                done = [run_of(r, self.store, kept, singles=False) for r in stored if r.status == "done"]
                self._shelf = Shelf(stamp, tuple(done), len(stored) - len(done))
            self._asked = time.monotonic()
            return self._shelf

    def _stamp(self) -> Hashable:
        database = self.store.root / DATABASE
        if database.is_file() and "://" not in self.store.where:
            return tuple(
                (found.st_mtime_ns, found.st_size)
                for suffix in ("", "-wal")
                if (path := database.with_name(DATABASE + suffix)).is_file()
                for found in [path.stat()]
            )
        with self.store.reading() as connection:
            query = sa.select(sa.func.count(), sa.func.max(run_table.c.created_at)).select_from(run_table)
            return tuple(connection.execute(query).one())

    def made(self, what: str, key: Hashable, make: Callable[[], T]) -> T:
        """A table or figure of the present state of the store, made once."""
        return self.tables.get((self.shelf().stamp, what, key), make)

    def place(self, run: Run) -> Path | None:
        """Where the dataset of a run is today: where it was, or in one of `data` with the same content."""
        facts = run.manifest.dataset
        key = (run.task, facts.path, facts.hash, repr(run.manifest.options))
        return self.places.get(key, lambda: self._place(run))

    def _place(self, run: Run) -> Path | None:
        facts = run.manifest.dataset
        tried = [Path(facts.path)] if facts.path else []
        for folder in self.data:
            tried += [folder, folder / Path(facts.path).name, folder / facts.name]
        for path in dict.fromkeys(tried):
            try:
                there = path.exists() and stored_task(run.task).open(path, run.manifest.options)
                if there and there.data_hash == facts.hash:
                    return path
            except (TiepointError, OSError):
                continue
        return None
