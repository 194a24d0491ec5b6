# SPDX-License-Identifier: BSD-3-Clause
"""What a run keeps beside its scores: records and scene values, read when looked at, and its dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...model.errors import StoreError, TiepointError
from ...model.records import Records
from ...run.result import Run, StoredTables, Tables
from ...run.scoring import SCORING
from ...run.update import marked
from ...store.records import RecordStore
from ...store.runs import StoredRun
from ...store.store import Store
from ...tasks import stored_task
from ...tasks.base import OpenTask, Task

KEPT_BYTES = 1 << 30


@dataclass
class Kept:
    """Records in memory, shared by the runs of a report: the first gibibyte stays, the rest is read again."""

    store: RecordStore
    most_bytes: int = KEPT_BYTES
    size_bytes: int = 0
    known: dict[str, Records] = field(default_factory=dict)

    def get(self, key: str) -> Records:
        """Records of a key, from memory or from the store."""
        found = self.known.get(key)
        if found is None:
            found = self.store.get(key)
            if self.size_bytes + found.size_bytes <= self.most_bytes:
                self.known[key] = found
                self.size_bytes += found.size_bytes
        return found


class LazyRecords(Mapping[str, Records]):
    """Records by comparison (one unit of a run), read when asked for; names cost nothing."""

    def __init__(self, keys: Mapping[str, str], kept: Kept) -> None:
        self._keys, self._kept = dict(keys), kept

    def __getitem__(self, comparison: str) -> Records:
        return self._kept.get(self._keys[comparison])

    def __contains__(self, comparison: object) -> bool:
        return comparison in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def run_of(stored: StoredRun, store: Store, kept: Kept | None = None) -> Run:
    """A stored run that reads its records and scene values when they are looked at; an old one is marked."""
    stored = marked(stored)
    m, kept = stored.manifest, kept or Kept(store.records)
    records = {unit: LazyRecords(by, kept) for unit, by in m.units.items()}
    return Run(stored, records, m.warnings, StoredTables(m.values, store.values), root=store.root)


def tables_of(run: Run, protocol: str) -> Tables | None:
    """The scene values behind the scores of a run under a protocol.

    None where there are none to rely on: they were never stored, were made by rules of the past, or their
    file is gone or damaged.
    """
    try:
        return run.values[protocol] if run.manifest.scoring == SCORING else None
    except (KeyError, StoreError):
        return None


def records_of(run: Run, task: Task, protocol: str) -> list[Records]:
    """The records of a run that a protocol scores; empty where it was not run under it."""
    if protocol not in task.protocols:
        return []
    comparison = task.comparison(protocol)
    return [by[comparison] for by in run.unit_records.values() if comparison in by]


def no_records(run: Run) -> str:
    """What to say, and to do, where a run was not made under `exact`."""
    return f'run {run.id} has no records under exact; run it with `protocol="exact"` first'


def opened_again(run: Run) -> OpenTask | None:
    """The task of a run bound to its dataset, None where that is not there any more or has changed."""
    dataset = run.manifest.dataset
    if not dataset.path or not Path(dataset.path).exists():
        return None
    try:
        opened = stored_task(run.task).open(Path(dataset.path), run.manifest.options)
    except TiepointError:
        return None
    return opened if opened.data_hash == dataset.hash else None
