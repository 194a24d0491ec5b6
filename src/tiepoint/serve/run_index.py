# SPDX-License-Identifier: BSD-3-Clause
"""Index of the runs and sections of a store. It is reloaded when the store changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import TiepointError
from ..core.hashing import hash_bytes, hash_json
from ..core.regular_files import exists
from ..report.runs.lazy_records import RecordCache, lazy_run
from ..report.runs.sections import TaskSection, sections
from ..run.result import Run
from ..store.run_queries import load_runs
from ..store.schema import change_count
from ..store.store import Store
from ..tasks import stored_task

T = TypeVar("T")


@cache
def source_version() -> str:
    """Return a hash of the source code of this package. It is part of the cache keys."""
    root = Path(str(files("tiepoint")))
    return hash_json(
        [[p.relative_to(root).as_posix(), hash_bytes(p.read_bytes())] for p in sorted(root.rglob("*.py"))]
    )


class LruCache:
    """Cache of the most recently used values. Concurrent requests compute a value only once."""

    def __init__(self, most: int) -> None:
        self._most, self._known = most, OrderedDict[Hashable, Any]()
        self._lock, self._making = threading.Lock(), dict[Hashable, threading.Lock]()

    def peek(self, key: Hashable) -> Any:
        """Return the cached value of a key. None if it is not cached."""
        with self._lock:
            return self._known.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key. Call `make` if it is not cached. Errors are not cached."""
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


FRESH_S = 1.0
"""Seconds between two checks for changes of the store."""
WAIT_S = 0.6
"""Seconds that a page waits for a comparison before it shows the comparison as pending."""
INDEX_CACHE_BYTES = 1 << 25
"""Maximum size of the records in memory, in bytes."""


@dataclass(frozen=True)
class IndexSnapshot:
    """Snapshot of the store: finished runs, oldest first, without per-scene scores."""

    stamp: int
    runs: tuple[Run, ...]
    failed: int

    @cached_property
    def by_id(self) -> dict[str, Run]:
        """Runs by full id."""
        return {r.id: r for r in self.runs}

    @cached_property
    def sections(self) -> list[TaskSection]:
        """Sections by task and dataset, as in the report."""
        return sections(self.runs)

    def section_of(self, run: Run) -> TaskSection | None:
        """Return the first section that contains a run. None if no section contains it."""
        return next((s for s in self.sections if any(r.id == run.id for r in s.runs)), None)


class RunIndex:
    """An open store with its runs. `data` has folders to search for moved datasets."""

    def __init__(
        self, store: Store, *, data: Sequence[Path] = (), cache: Path | None = None, wait_s: float = WAIT_S
    ) -> None:
        self.store, self.data, self.wait_s = store, tuple(data), wait_s
        self._under_way: dict[Hashable, tuple[Future[Any], float]] = {}
        self.cache = cache
        self.tables, self.places = LruCache(256), LruCache(64)
        self.orders, self.cases, self.details = LruCache(12), LruCache(4), LruCache(6)
        self._lock, self.turn, self._asked = threading.RLock(), threading.Lock(), 0.0
        self._shelf: IndexSnapshot | None = None

    def snapshot(self) -> IndexSnapshot:
        """Return the current state of the store."""
        with self._lock:
            if self._shelf is not None and time.monotonic() - self._asked < FRESH_S:
                return self._shelf
            stamp = self._stamp()
            if self._shelf is None or self._shelf.stamp != stamp:
                stored = load_runs(self.store, singles=False)
                kept = RecordCache(self.store.records, max_bytes=INDEX_CACHE_BYTES)
                done = [lazy_run(r, self.store, kept, singles=False) for r in stored if r.status == "done"]
                self._shelf = IndexSnapshot(stamp, tuple(done), len(stored) - len(done))
            self._asked = time.monotonic()
            return self._shelf

    def _stamp(self) -> int:
        with self.store.reading() as connection:
            return change_count(connection)

    def cached(self, what: str, key: Hashable, make: Callable[[], T]) -> T:
        """Return a table or figure from the cache. Compute it if missing or if the store has changed."""
        return self.tables.get((self.snapshot().stamp, what, key), make)

    def compute_in_background(
        self, what: str, key: Hashable, make: Callable[[], T], wait_s: float
    ) -> T | None:
        """Compute a slow result in a thread. Return None if it is not ready after `wait_s` seconds.

        The time counts from the first request. The computation continues, and a later request returns the
        result. Comparisons are computed one at a time.
        """
        whole = (self.snapshot().stamp, what, key)
        known: T | None = self.tables.peek(whole)
        if known is not None:
            return known
        with self._lock:
            future, since = self._under_way.get(whole, (None, time.monotonic()))
            if future is None:
                future = Future()
                self._under_way[whole] = (future, since)
                threading.Thread(target=self._work, args=(whole, future, make), daemon=True).start()
        try:
            return future.result(timeout=max(0.0, wait_s - (time.monotonic() - since)))
        except TimeoutError:
            return None

    def _work(self, key: Hashable, future: Future[Any], make: Callable[[], Any]) -> None:
        try:
            future.set_result(self.tables.get(key, make))
        except BaseException as e:
            future.set_exception(e)
        finally:
            with self._lock:
                self._under_way.pop(key, None)

    def place(self, run: Run) -> Path | None:
        """Search the folders in `data` for the moved dataset of a run. None if not moved or not found."""
        if not self.data:
            return None
        facts = run.manifest.dataset
        key = (run.task, facts.path, facts.hash, repr(run.manifest.options))
        return self.places.get(key, lambda: self._place(run))

    def _place(self, run: Run) -> Path | None:
        facts = run.manifest.dataset
        old = Path(facts.path) if facts.path else None
        tried = [] if old is None else [old]
        for folder in self.data:
            # Only the last part: names in an untrusted store must not lead out of the folder.
            tried += [folder, folder / Path(facts.path).name, folder / Path(facts.name).name]
        for path in dict.fromkeys(tried):
            try:
                there = exists(path) and stored_task(run.task).open(path, run.manifest.options)
                if there and there.data_hash == facts.hash:
                    return None if path == old else path
            except (TiepointError, OSError):
                continue
        return None
