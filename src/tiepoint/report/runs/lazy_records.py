# SPDX-License-Identifier: BSD-3-Clause
"""Lazy access to records, scene values and dataset of a stored run."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ...core.errors import DamagedError, StoreError, TiepointError
from ...core.formatting import count_text
from ...core.records import Records
from ...core.regular_files import exists
from ...run.result import Run, StoredTables, Tables
from ...run.scoring import SCORING
from ...run.update import mark_outdated
from ...store.record_files import RecordStore
from ...store.run_queries import load_singles
from ...store.scene_values import ValueStore
from ...store.store import Store
from ...store.stored_run import StoredRun
from ...tasks import stored_task
from ...tasks.base import Task, TaskData

T = TypeVar("T")
RECORD_CACHE_BYTES = 1 << 28
TABLE_CACHE_BYTES = 1 << 25


@dataclass
class TableCache:
    """Cache of the scene values that were used last, by key, up to 32 MiB."""

    read: Callable[[str], Tables]
    cached: OrderedDict[str, tuple[int, Tables]] = field(default_factory=OrderedDict)
    size_bytes: int = 0
    lock: Lock = field(default_factory=Lock)

    def get(self, key: str) -> Tables:
        """Return the scene values of a key, from memory or from their file."""
        with self.lock:
            if key in self.cached:
                self.cached.move_to_end(key)
                return self.cached[key][1]
        tables = self.read(key)
        with self.lock:
            if key not in self.cached:
                self.cached[key] = tables_bytes(tables), tables
                self.size_bytes += self.cached[key][0]
            while self.size_bytes > TABLE_CACHE_BYTES and len(self.cached) > 1:
                self.size_bytes -= self.cached.popitem(last=False)[1][0]
        return tables


def tables_bytes(tables: Tables) -> int:
    """Return the memory of the arrays of scene values. Arrays that tables share count once."""
    arrays = {id(x): x.nbytes for t in tables.values() for x in vars(t).values() if isinstance(x, np.ndarray)}
    return sum(arrays.values())


@dataclass
class RecordCache:
    """Record cache that the runs of a report share. The first 256 MiB stay in memory."""

    store: RecordStore
    max_bytes: int = RECORD_CACHE_BYTES
    size_bytes: int = 0
    cached: dict[str, Records] = field(default_factory=dict)
    tables: Callable[[str], Tables] | None = None

    def tables_by(self, values: ValueStore) -> Callable[[str], Tables]:
        """Return a function that reads scene values by key, with an LRU cache that all runs share."""
        if self.tables is None:
            self.tables = TableCache(values.get).get
        return self.tables

    def get(self, key: str) -> Records:
        """Return the records of a key, from memory or from the store."""
        records = self.cached.get(key)
        if records is None:
            records = self.store.get(key)
            if self.size_bytes + records.size_bytes <= self.max_bytes:
                self.cached[key] = records
                self.size_bytes += records.size_bytes
        return records


def run_error(run: StoredRun, error: DamagedError) -> StoreError:
    """Return an error with the run id and the command that recomputes the file."""
    message = f"run {run.id}: {error.problem}; remove the file, then {run.rerun_hint}"
    for messages in _corrupt:
        messages.setdefault(message)
    return StoreError(message)


_corrupt: list[dict[str, None]] = []
"""Messages about corrupt files, one list for each active `report_damage` block."""


@contextlib.contextmanager
def report_damage(report: Callable[[str], None], most: int = 5) -> Iterator[None]:
    """On exit, report each corrupt file that was skipped, once."""
    messages: dict[str, None] = {}
    _corrupt.append(messages)
    try:
        yield
    finally:
        _corrupt[:] = [other for other in _corrupt if other is not messages]
    for message in list(messages)[:most]:
        report(message)
    if len(messages) > most:
        report(f"{count_text(len(messages) - most, 'more corrupt file')}; `store check` lists all of them")


def try_part(name: str, make: Callable[[], T], skipped: list[str] | None) -> T | None:
    """Return a part of a report. If its files cannot be read, append a message to `skipped`.

    Without a list the error is raised.
    """
    try:
        return make()
    except (TiepointError, OSError) as e:
        if skipped is None:
            raise
        skipped.append(f"{name} not shown: {e}")
        return None


class LazyRecords(Mapping[str, Records]):
    """Mapping from comparisons to the records of one unit of a run. Records are read on access."""

    def __init__(self, keys: Mapping[str, str], cache: RecordCache, run: StoredRun) -> None:
        self._keys, self._cache, self._run = dict(keys), cache, run

    def __getitem__(self, comparison: str) -> Records:
        try:
            return self._cache.get(self._keys[comparison])
        except DamagedError as e:
            raise run_error(self._run, e) from e

    def __contains__(self, comparison: object) -> bool:
        return comparison in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class LazyUnits(Mapping[str, Mapping[str, Records]]):
    """Mapping from units to their records, which are read on access."""

    def __init__(self, run: StoredRun, cache: RecordCache) -> None:
        self._units, self._cache, self._run = run.manifest.units, cache, run

    def __getitem__(self, unit: str) -> LazyRecords:
        return LazyRecords(self._units[unit], self._cache, self._run)

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def items(self) -> Any:
        """Return the units with their records."""
        return {unit: LazyRecords(by, self._cache, self._run) for unit, by in self._units.items()}.items()

    def values(self) -> Any:
        """Return the records of all units."""
        return [LazyRecords(by, self._cache, self._run) for by in self._units.values()]


def lazy_run(
    stored: StoredRun, store: Store, cache: RecordCache | None = None, *, singles: bool = True
) -> Run:
    """Wrap a stored run so that records and scene values are read on access. Add a warning if it is outdated.

    Set `singles` if `stored` has the scores of single scenes and pairs. Otherwise they are read on demand.
    """
    stored = mark_outdated(stored)
    m, cache = stored.manifest, cache or RecordCache(store.records)
    tables = StoredTables(m.values, store.values, cache.tables_by(store.values))
    more = None if singles else partial(load_singles, store, stored.id)
    return Run(stored, LazyUnits(stored, cache), m.warnings, tables, root=store.root, load_single_scores=more)


def scene_tables(run: Run, protocol: str) -> Tables | None:
    """Return the scene values of a run under a protocol.

    Return None if they were never stored, have another scoring version, or their file is missing.

    Raises:
        StoreError: The file is corrupt. The message names the run to repeat.
    """
    try:
        return run.values[protocol] if run.manifest.scoring == SCORING else None
    except DamagedError as e:
        if e.path.exists():
            raise run_error(run.stored, e) from e
        return None
    except (KeyError, StoreError):
        return None


def scored_records(run: Run, task: Task, protocol: str) -> list[Records]:
    """Return the records of a run for a protocol. Empty if the run does not have the protocol."""
    if protocol not in task.protocols:
        return []
    comparison = task.comparison(protocol)
    return [by[comparison] for by in run.unit_records.values() if comparison in by]


def no_records(run: Run) -> str:
    """Return a message that a run has no records under `exact`."""
    return f'run {run.id} has no records under exact; run it with `protocol="exact"` first'


def reopen_task(run: Run) -> TaskData | None:
    """Open the task of a run on its dataset. None if the dataset is missing or has changed."""
    dataset = run.manifest.dataset
    if not dataset.path or not exists(dataset.path):
        return None
    try:
        opened = stored_task(run.task).open(Path(dataset.path), run.manifest.options)
    except TiepointError:
        return None
    return opened if opened.data_hash == dataset.hash else None
