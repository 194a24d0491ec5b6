# SPDX-License-Identifier: BSD-3-Clause
"""List the files of a store by kind and size, and find the runs that need each file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core import array_cache
from ...core.errors import TiepointError
from ...core.hashing import hash_json
from ...formats.keypoints.set_folder import SETS
from .. import status_files
from ..races import FOLDER as RACES
from ..races import StoredRace, load_races
from ..run_queries import RunHead, load_heads
from ..store import Store
from ..stored_run import Manifest
from ..urls import DATABASE
from .usage import FOLDER as USES
from .usage import FeatureUsage, is_feature_key, short_keys, uses_of

KINDS = {
    "features": "features",
    "records": "records",
    "values": "values",
    "transforms": "transforms",
    array_cache.FOLDER: "kept lists",
    SETS: "keypoint sets",
    "runs": "runs",
    RACES: "races",
    USES: "runs",
    status_files.FOLDER: "temporaries",
}
"""Kind of the files in each folder of a store."""
ORDER = tuple(dict.fromkeys((*KINDS.values(), "database", "other")))


@dataclass(frozen=True)
class StoreEntry:
    """File or feature folder of a store, with its modification time and properties from its header."""

    kind: str
    key: str
    path: Path
    size_bytes: int
    written: float
    method: str | None = None
    time_s: float = 0.0


def entries(store: Store, *, headers: bool = True) -> Iterator[StoreEntry]:
    """Yield an entry for each file of a store, including its database.

    Args:
        store: Open store.
        headers: Whether to read the headers of features, which name their method.
    """
    root = store.root
    for found in _sorted(root):
        kind = KINDS.get(found.name)
        if found.name.startswith(".tmp-"):
            yield _whole("temporaries", found.path)
        elif found.name == "features" and found.is_dir(follow_symlinks=False):
            yield from _features(store, found.path, headers)
        elif kind is not None and found.is_dir(follow_symlinks=False):
            yield from (_entry(kind, path) for path in _below(found.path))
        elif found.is_dir(follow_symlinks=False):
            yield _whole("other", found.path)
        else:
            database = found.name.startswith(DATABASE)
            yield _entry("database" if database else "kept lists" if found.name == "hashes.json" else "other",
                         found.path)  # fmt: skip
    yield from _elsewhere(store)


def _elsewhere(store: Store) -> list[StoreEntry]:
    """Return the entries of the database if it is outside the store folder."""
    with store.reading() as connection:
        if connection.dialect.name != "sqlite":
            size = connection.exec_driver_sql("select pg_database_size(current_database())").scalar()
            return [StoreEntry("database", store.where, Path(store.where), int(size or 0), 0.0)]
        row = connection.exec_driver_sql("PRAGMA database_list").first()
    path = Path(str(row[2] if row else ""))
    apart = store.in_place and path.is_file() and path.parent.resolve() != store.root.resolve()
    return [_entry("database", str(path))] if apart else []


def _sorted(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda e: e.name)
    except OSError:  # just removed
        return []


def _below(folder: str) -> Iterator[str]:
    for found in _sorted(folder):
        if found.is_dir(follow_symlinks=False):
            yield from _below(found.path)
        else:
            yield found.path


def _entry(kind: str, path: str) -> StoreEntry:
    name = os.path.basename(path)
    temporary = name.startswith(".tmp-") or "/.tmp-" in path.replace(os.sep, "/")
    try:
        found = os.lstat(path)
        size, written = found.st_size, found.st_mtime
    except OSError:
        size, written = 0, 0.0
    return StoreEntry("temporaries" if temporary else kind, name.partition(".")[0], Path(path), size, written)


def _whole(kind: str, path: str) -> StoreEntry:
    """Return one entry for a file, or for a folder with all its files."""
    parts = [_entry(kind, p) for p in _below(path)] if os.path.isdir(path) else [_entry(kind, path)]
    newest = max((p.written for p in parts), default=0.0)
    return StoreEntry(kind, os.path.basename(path), Path(path), sum(p.size_bytes for p in parts), newest)


def _features(store: Store, folder: str, headers: bool) -> Iterator[StoreEntry]:
    for shelf in _sorted(folder):
        for found in _sorted(shelf.path):
            if not is_feature_key(found.name) or not found.is_dir(follow_symlinks=False):
                yield _whole("temporaries" if found.name.startswith(".tmp-") else "other", found.path)
                continue
            whole = _whole("features", found.path)
            method, time_s = None, 0.0
            if headers:
                try:
                    meta = store.features.meta(found.name) or {}
                    method, time_s = meta.get("method"), float(meta.get("time_s") or 0.0)
                except (TiepointError, TypeError, ValueError):  # corrupt: `check` reports it
                    pass
            yield StoreEntry(
                "features", whole.key, whole.path, whole.size_bytes, whole.written, method, time_s
            )


@dataclass(frozen=True)
class FileReferences:
    """Map from store files to the runs that need them.

    Manifests list the records and scene values of a run; usage files list its features. If the usage file of
    a run is missing or corrupt, the run may need every feature of its method. Races need the records of their
    units, and usage files list their features.
    """

    heads: list[RunHead]
    root: Path
    races: list[StoredRace] = field(default_factory=list)
    _noted: dict[str, FeatureUsage | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, store: Store) -> FileReferences:
        """Read the file references of all runs of a store."""
        return cls(load_heads(store), store.root, list(load_races(store.root)))

    def noted_features(self, run_id: str) -> FeatureUsage | None:
        """Return the features in the usage file of a run. None if the file is missing or corrupt."""
        if run_id not in self._noted:
            self._noted[run_id] = uses_of(self.root, run_id)
        return self._noted[run_id]

    @cached_property
    def run_by_id(self) -> dict[str, list[RunHead]]:
        """Runs of the store by id."""
        return {h.id: [h] for h in self.heads}

    @cached_property
    def owners(self) -> frozenset[str]:
        """Ids of all runs and races of the store."""
        return frozenset(self.run_by_id) | {race.id for race in self.races}

    @cached_property
    def _raced(self) -> tuple[frozenset[str], NDArray[np.uint64], float]:
        """Record keys and short feature keys that races use, and the time of the newest use."""
        noted = [uses for race in self.races if (uses := self.noted_features(race.id)) is not None]
        keys = np.unique(np.concatenate([np.empty(0, np.uint64), *(uses.keys for uses in noted)]))
        records = frozenset(key for race in self.races for key in race.record_keys)
        return records, keys, max((uses.when for uses in noted), default=0.0)

    def raced(self, entry: StoreEntry) -> float | None:
        """Return when a race last used an entry. None if no race uses it."""
        records, keys, when = self._raced
        if entry.kind == "records":
            return when if entry.key in records else None
        if entry.kind == "features" and len(keys):
            return when if bool(np.isin(short_keys([entry.key]), keys)[0]) else None
        return None

    @cached_property
    def users(self) -> dict[tuple[str, str], list[RunHead]]:
        """Runs that need each record, scene value and transform, by (kind, key)."""
        found: dict[tuple[str, str], list[RunHead]] = {}
        for head in self.heads:
            for name in required_keys(head.manifest):
                found.setdefault(name, []).append(head)
        return found

    @cached_property
    def _features(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Sorted short keys of all used features, and for each key the index of a run that uses it."""
        noted = [
            (n, uses.keys)
            for n, h in enumerate(self.heads)
            if (uses := self.noted_features(h.id)) is not None
        ]
        if not noted:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        keys = np.concatenate([k for _, k in noted])
        runs = np.repeat([n for n, _ in noted], [len(k) for _, k in noted])
        order = np.argsort(keys, kind="stable")
        return keys[order], runs[order]

    def _using(self, key: str) -> list[RunHead]:
        keys, runs = self._features
        wanted = short_keys([key])
        first, last = np.searchsorted(keys, wanted[0], "left"), np.searchsorted(keys, wanted[0], "right")
        return [self.heads[n] for n in runs[first:last]]

    @cached_property
    def silent(self) -> dict[str, list[RunHead]]:
        """Runs without a usage file, by method name. A run is listed under all names of its method."""
        unknown = [h for h in self.heads if self.noted_features(h.id) is None and not h.manifest.is_imported]
        names: dict[str, set[str]] = {}
        for head in self.heads:
            names.setdefault(identity(head), set()).add(head.method)
        found: dict[str, list[RunHead]] = {}
        for head in unknown:
            for name in names[identity(head)]:
                found.setdefault(name, []).append(head)
        return found

    def of(self, entry: StoreEntry) -> list[RunHead]:
        """Return the runs that need, or may need, an entry."""
        if entry.kind != "features":
            return self.users.get((entry.kind, entry.key), [])
        return [*self._using(entry.key), *self.silent.get(entry.method or "", [])]


def required_keys(known: Manifest) -> set[tuple[str, str]]:
    """Return the (kind, key) of each record, scene value and transform in the manifest of a run."""
    found = {("records", key) for by in known.units.values() for key in by.values()}
    found |= {("values", key) for key in known.values.values()}
    files = (str(f.get("file", "")) for f in known.method.fitted)
    return found | {("transforms", Path(file).stem) for file in files if file}


def identity(head: RunHead) -> str:
    """Return a hash of everything that determines a method's output, excluding its name."""
    method = head.manifest.method
    return hash_json([method.family, method.config])
