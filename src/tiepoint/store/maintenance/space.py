# SPDX-License-Identifier: BSD-3-Clause
"""How large a store is, by kind and by method, and what runs are in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..run_heads import RunHead
from ..store import Store
from .inventory import ORDER, FileReferences, StoreEntry, entries


@dataclass(frozen=True)
class SizeTotal:
    """Files of a kind and their bytes."""

    files: int
    size_bytes: int


def amounts(found: Iterable[StoreEntry], order: Sequence[str]) -> dict[str, SizeTotal]:
    """Files and bytes of entries by kind, in the order of the kinds."""
    sizes: dict[str, list[int]] = {}
    for entry in found:
        sizes.setdefault(entry.kind, []).append(entry.size_bytes)
    return {kind: SizeTotal(len(sizes[kind]), sum(sizes[kind])) for kind in order if kind in sizes}


@dataclass(frozen=True)
class MethodSize:
    """What the runs of a method need: bytes that only they need, and bytes that other methods need too."""

    runs: int
    only_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class StoreSize:
    """The size of a store. Every file counts once in `kinds`; `unused_bytes` are those that no run needs."""

    store: str
    kinds: dict[str, SizeTotal]
    methods: dict[str, MethodSize]
    unused_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of everything."""
        return sum(a.size_bytes for a in self.kinds.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"total_bytes": self.total_bytes, **asdict(self)}


OF_RUNS = ("features", "records", "values", "transforms")
"""Kinds that runs need, and that are of no use without one, but as a cache."""


def store_size(store: Store) -> StoreSize:
    """The size of a store by kind and by method; what several methods need counts once, as shared.

    Sizes are those of the files' content. Features that runs of older versions may use are counted as theirs.
    """
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
        if not names and entry.kind in OF_RUNS:
            unused += entry.size_bytes
    counts: dict[str, int] = {}
    for head in links.heads:
        counts[head.method] = counts.get(head.method, 0) + 1
    methods = {n: MethodSize(c, only.get(n, 0), shared.get(n, 0)) for n, c in counts.items()}
    largest = sorted(methods, key=lambda n: (-methods[n].only_bytes - methods[n].shared_bytes, n))
    return StoreSize(store.where, amounts(found, ORDER), {n: methods[n] for n in largest}, unused)


def _users(links: FileReferences, entry: StoreEntry) -> Iterable[RunHead]:
    if entry.kind == "runs":
        return links.named.get(entry.key, ())
    return links.of(entry) if entry.kind in OF_RUNS else ()


@dataclass(frozen=True)
class ListedRun:
    """A run in the list of a store: `size_bytes` is all that it needs, `only_bytes` what no other does."""

    run: str
    method: str
    task: str
    dataset: str
    status: str
    made: str
    size_bytes: int
    only_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def list_runs(
    store: Store, *, method: str | None = None, task: str | None = None, dataset: str | None = None
) -> list[ListedRun]:
    """Runs of a store with their sizes, oldest first.

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
