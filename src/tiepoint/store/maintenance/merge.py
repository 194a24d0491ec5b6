# SPDX-License-Identifier: BSD-3-Clause
"""Merge other stores into a store: copy files that it lacks, then add runs.

Files are named by their cache key, so a file that exists is not copied again. A run is added after all files
that it needs, in one transaction. A killed merge therefore leaves complete files and runs, and the next merge
copies the rest. Existing content is never replaced; differences are reported as conflicts.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import DamagedError, InputError, StoreError, TiepointError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_array, hash_json, verify_checksum
from ...core.processes import cores
from ...core.regular_files import read_content
from ...formats.keypoints.set_folder import KeypointSet, read_keypoint_set, sets_below
from ...methods.transforms import load_transform
from ...tasks import stored_task
from ...tasks.capabilities import timed_metrics
from ..atomic_files import atomic_file, atomic_folder
from ..feature_cache import FeatureCache
from ..record_files import RecordStore
from ..run_queries import RunHead, load_heads, load_run
from ..scene_values import ValueStore
from ..status_files import track_progress
from ..store import Store, store_root
from ..stored_run import StoredRun, protocols_of, read_run, run_file, with_protocols_of
from ..writers import save_keypoint_set, save_run
from .inventory import required_keys
from .journal import remove_leftovers
from .space import SizeTotal
from .usage import is_feature_key, uses_of, write_uses

Progress = Callable[[str, int, int], None]
KINDS = {
    "records": "records/??/*.parquet",
    "values": "values/??/*.npz",
    "transforms": "transforms/*.npz",
    "features": "features/??/*",
}
"""Kinds of merged files, in the order of copying, with the pattern of their paths."""


@dataclass(frozen=True)
class MergeConflict:
    """Run, file or keypoint set that was not merged: its kind, its key or name, and the reason.

    >>> print(MergeConflict("run", "12ab", "scores under exact differ"))
    run 12ab: scores under exact differ
    """

    kind: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.reason}"


@dataclass
class MergedSource:
    """Result of merging one store: `added` and `extended` runs as (id, method, task), and copied files.

    `extended` runs got scores under protocols that only the other store had. `present` counts runs that the
    store already had. `conflicts` differ between the stores. `unreadable` entries are corrupt or incomplete
    in the other store.
    """

    where: str
    added: list[tuple[str, str, str]] = field(default_factory=list)
    extended: list[tuple[str, str, str]] = field(default_factory=list)
    present: int = 0
    keypoint_sets: list[str] = field(default_factory=list)
    files: dict[str, SizeTotal] = field(default_factory=dict)
    conflicts: list[MergeConflict] = field(default_factory=list)
    unreadable: list[MergeConflict] = field(default_factory=list)


@dataclass(frozen=True)
class MergeReport:
    """Result of a merge, by source. With `dry_run` nothing was changed."""

    sources: tuple[MergedSource, ...]
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether everything was merged."""
        return not any(s.conflicts or s.unreadable for s in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


def merge_stores(
    store: Store,
    others: Sequence[Store | str | Path],
    *,
    features: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> MergeReport:
    """Copy the runs of other stores, and the files they need, into a store.

    Runs are identified by their id, files by their cache key, keypoint sets by their name. Content that the
    store already has is never changed. If both stores have a run, it gets the scores that only the other
    store has, under further protocols. A killed merge is resumed by the next one.

    `tiepoint.merge` does something else: it combines runs on different scenes into one run.

    Args:
        store: Open for writing, or for reading with `dry_run`.
        others: Stores to merge, open or as for `Store.open`. They are only read.
        features: Whether to copy cached features, the largest part of a store. A later run recomputes
            features that are missing.
        dry_run: Return what would be merged; change nothing.
        progress: Called with ("merge", done, total) for the files of each source.

    Raises:
        InputError: A source is the store itself, or there is no source.
        StoreError: A store cannot be opened or written.
    """
    if not others:
        raise InputError("no stores to merge; pass folders or database URLs")
    for other in others:
        root = other.root if isinstance(other, Store) else store_root(other)
        if root.exists() and store.root.exists() and os.path.samefile(root, store.root):
            raise InputError(f"{root} is the store itself; pass other stores to merge")
    kinds = [kind for kind in KINDS if features or kind != "features"]
    if dry_run:
        merger = _Merger(store, kinds, True, progress)
        return MergeReport(tuple(_each(others, merger)), True)
    with track_progress(store.root, "store merge", progress) as update:
        if store.exists:
            remove_leftovers(store)
        return MergeReport(tuple(_each(others, _Merger(store, kinds, False, update))))


def _each(others: Sequence[Store | str | Path], merger: _Merger) -> Iterator[MergedSource]:
    for other in others:
        if isinstance(other, Store):
            yield merger.merge(other)
            continue
        with Store.open(other, mode="read") as opened:
            yield merger.merge(opened)


@dataclass
class _Merger:
    """Merger of sources, one after another. In a dry run, `files`, `runs` and `sets` simulate the merge."""

    store: Store
    kinds: Sequence[str]
    dry_run: bool
    progress: Progress | None
    files: dict[tuple[str, str], Path] = field(default_factory=dict)
    runs: dict[str, StoredRun] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)

    def merge(self, other: Store) -> MergedSource:
        """Merge one store."""
        report = MergedSource(other.where)
        differing = self._merge_files(other, report)
        self._merge_sets(other, report)
        ours = {head.id for head in load_heads(self.store)} if self.store.exists else set()
        for head in load_heads(other):
            try:
                theirs = _read(other, head.id)
            except (TiepointError, ValueError) as e:
                report.unreadable.append(MergeConflict("run", _named(head), str(e)))
                continue
            known = self.runs.get(head.id)
            if known is None and head.id in ours:
                known = _read(self.store, head.id)
            self._merge_run(other, head, theirs, known, differing, report)
        return report

    def _merge_files(self, other: Store, report: MergedSource) -> dict[tuple[str, str], str]:
        """Copy the files that the store lacks. Return the (kind, key) of differing files with the reason."""
        jobs = [(kind, key) for kind in self.kinds for key in _keys(other.root, kind)]
        counts: dict[str, list[int]] = {}
        differing: dict[tuple[str, str], str] = {}
        with ThreadPoolExecutor(cores()) as threads:
            merged = threads.map(partial(self._merge_file, other.root), jobs)
            for done, ((kind, key), (size, reason)) in enumerate(zip(jobs, merged, strict=True), start=1):
                if self.progress is not None:
                    self.progress("merge", done, len(jobs))
                if size is not None:
                    counts.setdefault(kind, []).append(size)
                    if self.dry_run:
                        self.files[kind, key] = other.root
                elif reason.startswith("corrupt"):
                    report.unreadable.append(MergeConflict(kind, key, reason))
                elif reason:
                    report.conflicts.append(MergeConflict(kind, key, reason))
                    differing[kind, key] = reason
        report.files = {kind: SizeTotal(len(sizes), sum(sizes)) for kind, sizes in counts.items()}
        return differing

    def _merge_file(self, root: Path, job: tuple[str, str]) -> tuple[int | None, str]:
        """Merge one file. Return its size if it was copied, and the reason if it could not be merged."""
        kind, key = job
        path, target = _path(root, kind, key), _path(self.store.root, kind, key)
        known = self.files.get(job) or (self.store.root if os.path.lexists(target) else None)
        try:
            if known is None:
                _content(root, kind, key)  # verifies the file
                size = _size(path)
                if not self.dry_run:
                    _copy(path, target)
                return size, ""
            if kind == "values" or _same(root, known, kind, key):
                return None, ""
        except FileNotFoundError:  # removed while it was read
            return None, ""
        except DamagedError as e:
            return None, f"corrupt: {e}"
        return None, "the content differs; this store keeps its own"

    def _merge_sets(self, other: Store, report: MergedSource) -> None:
        ours = sets_below(self.store.root)
        for name, folder in sets_below(other.root).items():
            try:
                theirs = read_keypoint_set(folder)
            except InputError as e:
                report.unreadable.append(MergeConflict("keypoint set", name, str(e)))
                continue
            known = self.sets.get(name) or (_set_id(ours[name]) if name in ours else None)
            if known is None:
                report.keypoint_sets.append(name)
                self._save_set(name, theirs)
            elif known != theirs.id:
                reason = "the stores have different keypoints under this name; this store keeps its own"
                report.conflicts.append(MergeConflict("keypoint set", name, reason))

    def _save_set(self, name: str, theirs: KeypointSet) -> None:
        if self.dry_run:
            self.sets[name] = theirs.id
        else:
            save_keypoint_set(self.store, theirs)

    def _merge_run(
        self,
        other: Store,
        head: RunHead,
        theirs: StoredRun,
        ours: StoredRun | None,
        differing: Mapping[tuple[str, str], str],
        report: MergedSource,
    ) -> None:
        reason = "" if ours is None else differences(ours, theirs)
        made = theirs if ours is None else with_protocols_of(ours, theirs)
        adds = ours is None or protocols_of(made) != protocols_of(ours)
        if not reason and not adds:
            report.present += 1
            return
        needed = sorted(required_keys(theirs.manifest))
        wrong = [kind for kind, key in needed if (kind, key) in differing]
        if not reason and wrong:
            reason = f"{count_text(len(wrong), 'file')} it needs ({', '.join(sorted(set(wrong)))}) differ"
        if reason:
            report.conflicts.append(MergeConflict("run", _named(head), reason))
            return
        lacking = [kind for kind, key in needed if not self._has(kind, key)]
        if lacking:
            reason = (
                f"{count_text(len(lacking), 'file')} it needs ({', '.join(sorted(set(lacking)))}) cannot be "
                f"read; `store check` of {other.where} names the remedy"
            )
            report.unreadable.append(MergeConflict("run", _named(head), reason))
            return
        (report.added if ours is None else report.extended).append((head.id, head.method, head.task))
        if self.dry_run:
            self.runs[head.id] = made
            return
        self._save(other, theirs)

    def _has(self, kind: str, key: str) -> bool:
        return (kind, key) in self.files or os.path.lexists(_path(self.store.root, kind, key))

    def _save(self, other: Store, theirs: StoredRun) -> None:
        """Save a run and the list of features that it uses. A process may have saved it in the meantime."""
        used = uses_of(other.root, theirs.id)
        if used is not None:
            with self.store.begin(lock=theirs.id):
                own = uses_of(self.store.root, theirs.id)
                keys = used.keys if own is None else np.union1d(used.keys, own.keys)
                write_uses(self.store.root, theirs.id, theirs.task, keys)

        def merged(stored: StoredRun | None) -> StoredRun:
            # Under the lock: another process may have pruned files that no run needed yet.
            for kind, key in required_keys(theirs.manifest):
                path, target = _path(other.root, kind, key), _path(self.store.root, kind, key)
                if not os.path.lexists(target):
                    _copy(path, target)
            if stored is None:
                return theirs
            return stored if differences(stored, theirs) else with_protocols_of(stored, theirs)

        save_run(self.store, theirs, merge=merged)


def differences(ours: StoredRun, theirs: StoredRun) -> str:
    """Return how two runs of one id differ, as text. Empty if they agree on everything that both have.

    Measured times, dates and machines may differ. A failed run of the other store agrees with any run.
    """
    if theirs.status != "done":
        return ""
    if ours.status != "done":
        return "it failed in this store and is complete in the other; delete it here and merge again"
    units = ours.manifest.units
    other = [
        unit
        for unit, by in theirs.manifest.units.items()
        if unit in units and any(units[unit].get(c, key) != key for c, key in by.items())
    ]
    if other:
        return f"records of {count_text(len(other), 'unit')} ({first_few(other, 3)}) differ"
    task = stored_task(ours.task)
    timed = {m for p in protocols_of(ours) for m in timed_metrics(task, p)}
    own = {(s.protocol, s.metric, s.group): s.value for s in ours.scores}
    known = {s.protocol for s in ours.scores}
    for s in theirs.scores:
        place = (s.protocol, s.metric, s.group)
        if s.protocol not in known or s.metric in timed:
            continue
        if place not in own or not _equal(own[place], s.value):
            here, there = (f"{v:.6g}" if v is not None else "missing" for v in (own.get(place), s.value))
            return (
                f"{s.metric} of {s.group} under {s.protocol} is {here} in this store and {there} in the other"
            )
    if set(protocols_of(theirs)) - known and ours.manifest.scoring != theirs.manifest.scoring:
        return "its protocols were scored by different versions of tiepoint; rerun the method in one store"
    return ""


def _equal(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and a != a and b != b)


def _named(head: RunHead) -> str:
    return f"{head.id} ({head.method} on {head.task})"


def _read(store: Store, run_id: str) -> StoredRun:
    """Return a run from its file, or from the database if the file is missing or corrupt."""
    try:
        return read_run(run_file(store, run_id))
    except StoreError:
        return load_run(store, run_id)


def _set_id(folder: Path) -> str:
    """Return the id of a keypoint set of the store; empty if the set is corrupt."""
    try:
        return read_keypoint_set(folder).id
    except InputError:
        return ""


def _keys(root: Path, kind: str) -> list[str]:
    names = (p.name if kind == "features" else p.stem for p in root.glob(KINDS[kind]))
    return sorted(n for n in names if (is_feature_key(n) if kind == "features" else not n.startswith(".")))


def _path(root: Path, kind: str, key: str) -> Path:
    suffix = Path(KINDS[kind]).suffix
    folder = root / kind / key[:2] if "??" in KINDS[kind] else root / kind
    return folder / f"{key}{suffix}"


def _content(root: Path, kind: str, key: str) -> str:
    """Verify a file and return a hash of its content. Raise `DamagedError` if it is corrupt."""
    path = _path(root, kind, key)
    if kind == "records":
        found = RecordStore(root / kind).get(key)
        return hash_json([found.kind, {name: hash_array(c) for name, c in sorted(found.columns.items())}])
    if kind == "values":
        ValueStore(root / kind).get(key)
        return key
    if kind == "features":
        return str(FeatureCache(root / kind).verify(key)["content"])
    if kind == "transforms":
        fitted = load_transform(path)
        if fitted is None:
            raise DamagedError(path, "the fitted transform", "checksum mismatch")
        return fitted.hash
    try:
        verify_checksum(read_content(path))
    except ValueError as e:
        raise DamagedError(path, "the measured times", str(e)) from e
    return ""


def _same(root: Path, own: Path, kind: str, key: str) -> bool:
    """Return whether two stores have the same content under a key."""
    theirs, ours = _path(root, kind, key), _path(own, kind, key)
    if kind == "features":  # their headers contain the hash, so the arrays need not be read
        found = [FeatureCache(folder / kind).content(key) for folder in (root, own)]
        return found[0] == found[1]
    if filecmp.cmp(theirs, ours, shallow=False):
        return True
    return _content(root, kind, key) == _content(own, kind, key)


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.iterdir()) if path.is_dir() else path.stat().st_size


def _copy(path: Path, target: Path) -> None:
    """Copy a file, or a folder of files, atomically."""
    if not path.is_dir():
        with atomic_file(target) as temporary:
            shutil.copyfile(path, temporary)
        return
    with atomic_folder(target) as folder:
        for file in path.iterdir():
            shutil.copyfile(file, folder / file.name)
