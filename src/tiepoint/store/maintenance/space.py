# SPDX-License-Identifier: BSD-3-Clause
"""Size of a store by kind, method and run; pruning of unused files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ...core import array_cache
from ...core.errors import InputError
from ..run_queries import RunHead
from ..store import Store
from .inventory import KINDS, ORDER, FileReferences, StoreEntry, entries
from .journal import delete_entries, finish_changes
from .usage import FOLDER as USES
from .usage import InUse


@dataclass(frozen=True)
class SizeTotal:
    """Number and total size of the files of one kind."""

    files: int
    size_bytes: int


def amounts(found: Iterable[StoreEntry], order: Sequence[str]) -> dict[str, SizeTotal]:
    """Return the number and total size of entries for each kind, in the given order of kinds."""
    sizes: dict[str, list[int]] = {}
    for entry in found:
        sizes.setdefault(entry.kind, []).append(entry.size_bytes)
    return {kind: SizeTotal(len(sizes[kind]), sum(sizes[kind])) for kind in order if kind in sizes}


@dataclass(frozen=True)
class MethodSize:
    """Size of the files of one method: files that only it needs, and files shared with other methods."""

    runs: int
    only_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class StoreSize:
    """Size of a store. `kinds` counts each file once; `unused_bytes` are the bytes no run needs."""

    store: str
    kinds: dict[str, SizeTotal]
    methods: dict[str, MethodSize]
    unused_bytes: int

    @property
    def total_bytes(self) -> int:
        """Total size in bytes."""
        return sum(a.size_bytes for a in self.kinds.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {"total_bytes": self.total_bytes, **asdict(self)}


OF_RUNS = ("features", "records", "values", "transforms")
"""Kinds of files that belong to runs."""


def store_size(store: Store) -> StoreSize:
    """Return the size of a store by kind and by method. Files of several methods count as shared."""
    links = FileReferences.read(store)
    found = list(entries(store))
    only: dict[str, int] = {}
    shared: dict[str, int] = {}
    unused = 0
    for entry in found:
        names = {h.method for h in _users(links, entry)}
        for name in names:
            into = only if len(names) == 1 else shared
            into[name] = into.get(name, 0) + entry.size_bytes
        if not names and entry.kind in OF_RUNS and links.raced(entry) is None:
            unused += entry.size_bytes
    counts: dict[str, int] = {}
    for head in links.heads:
        counts[head.method] = counts.get(head.method, 0) + 1
    methods = {n: MethodSize(c, only.get(n, 0), shared.get(n, 0)) for n, c in counts.items()}
    largest = sorted(methods, key=lambda n: (-methods[n].only_bytes - methods[n].shared_bytes, n))
    return StoreSize(store.where, amounts(found, ORDER), {n: methods[n] for n in largest}, unused)


def _users(links: FileReferences, entry: StoreEntry) -> Iterable[RunHead]:
    if entry.kind == "runs":
        return links.run_by_id.get(entry.key, ())
    return links.of(entry) if entry.kind in OF_RUNS else ()


@dataclass(frozen=True)
class ListedRun:
    """Row of the run list: a run, the size of its files, and the size of those that only this run needs."""

    run: str
    method: str
    task: str
    dataset: str
    status: str
    made: str
    size_bytes: int
    only_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


def list_runs(
    store: Store, *, method: str | None = None, task: str | None = None, dataset: str | None = None
) -> list[ListedRun]:
    """Return the runs of a store with their sizes, oldest first.

    Args:
        store: Open store.
        method: Only runs of this method.
        task: Only runs of this task.
        dataset: Only runs on a dataset of this name.
    """
    links = FileReferences.read(store)
    size: dict[str, int] = {}
    only: dict[str, int] = {}
    for entry in entries(store):
        users = {h.id for h in _users(links, entry)}
        for run in users:
            size[run] = size.get(run, 0) + entry.size_bytes
            if len(users) == 1:
                only[run] = only.get(run, 0) + entry.size_bytes
    return [
        ListedRun(
            h.id, h.method, h.task, h.dataset, h.status, h.created_at, size.get(h.id, 0), only.get(h.id, 0)
        )
        for h in links.heads
        if method in (None, h.method) and task in (None, h.task) and dataset in (None, h.dataset)
    ]


@dataclass(frozen=True)
class Recomputation:
    """Cost of repeating the runs of a method: number of removed features, and their compute time."""

    method: str
    features: int
    size_bytes: int
    time_s: float
    runs: int


@dataclass(frozen=True)
class PruneReport:
    """Report of `prune_store`: removed files by kind, previous store size, and cost of recomputation.

    `in_use` counts old files that were retained because a running process may use them. `wanted_bytes` is
    the requested store size, which cannot always be reached. With `dry_run` nothing was removed.
    """

    before_bytes: int
    files: dict[str, SizeTotal] = field(default_factory=dict)
    again: tuple[Recomputation, ...] = ()
    in_use: int = 0
    wanted_bytes: int | None = None
    dry_run: bool = False

    @property
    def size_bytes(self) -> int:
        """Size of the removed files in bytes."""
        return sum(a.size_bytes for a in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        after = self.before_bytes - self.size_bytes
        return {"size_bytes": self.size_bytes, "after_bytes": after, **asdict(self)}


def prune_store(
    store: Store,
    *,
    older_than_s: float | None = None,
    larger_than_bytes: int | None = None,
    dry_run: bool = False,
    now: float | None = None,
) -> PruneReport:
    """Remove old features and cached lists, and records, scene values and transforms that no run needs.

    The last use of a feature is the time when it was written or when a run that uses it last started; of a
    list, when it was last written or read. The oldest files are removed first. Runs, their scores and their
    records are retained. A later run recomputes the features and lists that it needs.

    Args:
        store: Open for writing, or for reading with `dry_run`.
        older_than_s: Remove only entries last used longer ago than this.
        larger_than_bytes: Stop when the store has at most this size; None removes all old entries.
        dry_run: Return what would be removed; change nothing.
        now: Current time in seconds since 1970; None for the system clock.

    Raises:
        InputError: Neither an age nor a size is given.
    """
    if older_than_s is None and larger_than_bytes is None:
        raise InputError("nothing selected; pass `older_than`, `larger_than_total`, or both")
    before = (time.time() if now is None else now) - (older_than_s or 0.0)
    if dry_run:
        return _chosen(store, before, larger_than_bytes, dry_run=True)[0]
    finish_changes(store)
    with store.begin():
        report, gone = _chosen(store, before, larger_than_bytes)
        delete_entries(store.root, gone)
    return report


def _chosen(
    store: Store, before: float, most: int | None, *, dry_run: bool = False
) -> tuple[PruneReport, list[StoreEntry]]:
    links, busy = FileReferences.read(store), InUse.read(store.root)
    total, protected = 0, 0
    old: list[tuple[float, StoreEntry]] = []
    for entry in entries(store):
        total += entry.size_bytes
        users = links.of(entry)
        raced = links.raced(entry)
        of_no_run = entry.path.parent.name == USES and entry.key not in links.owners
        is_list = entry.kind == KINDS[array_cache.FOLDER] and entry.path.parent.name == array_cache.FOLDER
        unused = entry.kind in OF_RUNS and not users and raced is None
        if entry.kind == "features" or is_list or unused or of_no_run:
            used = max([entry.written, raced or 0.0, *(_last_use(links, head) for head in users)])
            if used > before:
                continue
            if busy.has(entry):
                protected += 1
                continue
            old.append((used, entry))
    old.sort(key=lambda o: (o[0], str(o[1].path)))
    gone, left = [], total
    for _, entry in old:
        if most is not None and left <= most:
            break
        gone.append(entry)
        left -= entry.size_bytes
    return PruneReport(
        total, amounts(gone, sorted(ORDER)), _again(links, gone), protected, most, dry_run
    ), gone


def _last_use(links: FileReferences, head: RunHead) -> float:
    uses = links.noted_features(head.id)
    if uses is not None:
        return uses.when
    try:
        return datetime.fromisoformat(head.created_at.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _again(links: FileReferences, gone: Sequence[StoreEntry]) -> tuple[Recomputation, ...]:
    """Return the recomputation cost of each method. Features that no run uses cost nothing."""
    own: dict[str, list[StoreEntry]] = {}
    runs: dict[str, set[str]] = {}
    for entry in gone:
        users = links.of(entry) if entry.kind == "features" else []
        for head in users:
            runs.setdefault(head.method, set()).add(head.id)
        for name in dict.fromkeys(h.method for h in users):
            own.setdefault(name, []).append(entry)
    return tuple(
        Recomputation(n, len(e), sum(x.size_bytes for x in e), sum(x.time_s for x in e), len(runs[n]))
        for n, e in sorted(own.items())
    )
