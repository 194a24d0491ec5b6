# SPDX-License-Identifier: BSD-3-Clause
"""What a run keeps beside its scores: records and scene values, read when looked at, and its dataset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

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

RECORD_CACHE_BYTES = 1 << 28
TABLE_CACHE_SIZE = 64
"""Files of scene values that stay in memory."""


@dataclass
class RecordCache:
    """Records in memory, shared by the runs of a report: the first 256 MiB stay, the rest is read again."""

    store: RecordStore
    most_bytes: int = RECORD_CACHE_BYTES
    size_bytes: int = 0
    known: dict[str, Records] = field(default_factory=dict)
    tables: Callable[[str], Tables] | None = None

    def tables_by(self, values: ValueStore) -> Callable[[str], Tables]:
        """Reads scene values by their key; the last ones stay in memory for all runs."""
        if self.tables is None:
            self.tables = lru_cache(maxsize=TABLE_CACHE_SIZE)(values.get)
        return self.tables

    def get(self, key: str) -> Records:
        """Records of a key, from memory or from the store."""
        found = self.known.get(key)
        if found is None:
            found = self.store.get(key)
            if self.size_bytes + found.size_bytes <= self.most_bytes:
                self.known[key] = found
                self.size_bytes += found.size_bytes
        return found


def of_run(run: StoredRun, error: DamagedError) -> StoreError:
    """The error with the run it touches, and what makes the file anew."""
    told = f"run {run.id}: {error.problem}; remove the file, then {run.rerun_hint}"
    for met in _met:
        met.setdefault(told)
    return StoreError(told)


_met: list[dict[str, None]] = []


@contextlib.contextmanager
def report_damage(tell: Callable[[str], None], most: int = 5) -> Iterator[None]:
    """Tell at the end which damaged files were met, each once, by what goes on without them."""
    met: dict[str, None] = {}
    _met.append(met)
    try:
        yield
    finally:
        _met[:] = [other for other in _met if other is not met]
    for told in list(met)[:most]:
        tell(told)
    if len(met) > most:
        tell(f"{count_text(len(met) - most, 'more damaged file')}; `store check` names all of them")


class LazyRecords(Mapping[str, Records]):
    """Records by comparison (one unit of a run), read when asked for; names cost nothing."""

    def __init__(self, keys: Mapping[str, str], kept: RecordCache, run: StoredRun | None = None) -> None:
        self._keys, self._kept, self._run = dict(keys), kept, run

    def __getitem__(self, comparison: str) -> Records:
        try:
            return self._kept.get(self._keys[comparison])
        except DamagedError as e:
            raise e if self._run is None else of_run(self._run, e) from e

    def __contains__(self, comparison: object) -> bool:
        return comparison in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class LazyUnits(Mapping[str, Mapping[str, Records]]):
    """Records by unit, read when asked for; so are the names of the units."""

    def __init__(self, run: StoredRun, kept: RecordCache) -> None:
        self._units, self._kept, self._run = run.manifest.units, kept, run

    def __getitem__(self, unit: str) -> LazyRecords:
        return LazyRecords(self._units[unit], self._kept, self._run)

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def items(self) -> Any:
        """Units with their records."""
        return {unit: LazyRecords(by, self._kept, self._run) for unit, by in self._units.items()}.items()

    def values(self) -> Any:
        """Records of all units."""
        return [LazyRecords(by, self._kept, self._run) for by in self._units.values()]


def lazy_run(
    stored: StoredRun, store: Store, kept: RecordCache | None = None, *, singles: bool = True
) -> Run:
    """A stored run that reads its records and scene values when they are looked at; an old one is marked.

    `load_single_scores` says whether it has its scores of single scenes and pairs; without, they are read when wanted.
    """
    stored = mark_outdated(stored)
    m, kept = stored.manifest, kept or RecordCache(store.records)
    tables = StoredTables(m.values, store.values, kept.tables_by(store.values))
    more = None if singles else partial(load_singles, store, stored.id)
    return Run(stored, LazyUnits(stored, kept), m.warnings, tables, root=store.root, load_single_scores=more)


def scene_tables(run: Run, protocol: str) -> Tables | None:
    """The scene values behind the scores of a run under a protocol.

    None where there are none to rely on: they were never stored, were made by rules of the past, or their
    file is gone.

    Raises:
        StoreError: the file is damaged; the message says which run to make again.
    """
    try:
        return run.values[protocol] if run.manifest.scoring == SCORING else None
    except DamagedError as e:
        if e.path.exists():
            raise of_run(run.stored, e) from e
        return None
    except (KeyError, StoreError):
        return None


def scored_records(run: Run, task: Task, protocol: str) -> list[Records]:
    """The records of a run that a protocol scores; empty where it was not run under it."""
    if protocol not in task.protocols:
        return []
    comparison = task.comparison(protocol)
    return [by[comparison] for by in run.unit_records.values() if comparison in by]


def no_records(run: Run) -> str:
    """What to say, and to do, where a run was not made under `exact`."""
    return f'run {run.id} has no records under exact; run it with `protocol="exact"` first'


def reopen_task(run: Run) -> TaskData | None:
    """The task of a run bound to its dataset, None where that is not there any more or has changed."""
    dataset = run.manifest.dataset
    if not dataset.path or not exists(dataset.path):
        return None
    try:
        opened = stored_task(run.task).open(Path(dataset.path), run.manifest.options)
    except TiepointError:
        return None
    return opened if opened.data_hash == dataset.hash else None
