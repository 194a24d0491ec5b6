# SPDX-License-Identifier: BSD-3-Clause
"""Deleting runs, and what only they used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...core.errors import InputError
from ..run_files import run_file
from ..run_heads import RunHead
from ..store import Store
from .inventory import FileReferences, StoreEntry, entries
from .journal import Step, after_step_hook, delete_rows, finish_changes, journal_change
from .space import OF_RUNS, SizeTotal, amounts
from .usage import InUse


@dataclass(frozen=True)
class RemovalReport:
    """Runs that were deleted, or with `dry_run` would be, as (id, method, task), and what only they used.

    `files` counts by kind. `kept` are files that only they used and that stay, because a process at work may
    need them; a later `prune` takes them.
    """

    runs: tuple[tuple[str, str, str], ...]
    files: dict[str, SizeTotal] = field(default_factory=dict)
    kept: int = 0
    dry_run: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(a.size_bytes for a in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"size_bytes": self.size_bytes, **asdict(self)}


def select_runs(heads: Sequence[RunHead], wanted: Sequence[str]) -> list[RunHead]:
    """The runs of (abbreviated) ids, each once; an id that fits none or several is an `InputError`."""
    found: dict[str, RunHead] = {}
    for name in wanted:
        fit = [h for h in heads if h.id == name] or [h for h in heads if name and h.id.startswith(name)]
        own = [h.id for h in heads if h.method == name]
        if not fit and own:
            listed = ", ".join(own[:10]) + (" …" if len(own) > 10 else "")
            raise InputError(f"{name!r} is a method; name its runs by their ids: {listed}")
        if not fit:
            raise InputError(f"the store has no run {name!r}; `store ls` lists the ids of those it has")
        if len(fit) > 1:
            listed = ", ".join(h.id for h in fit[:5]) + (" …" if len(fit) > 5 else "")
            raise InputError(f"{len(fit)} runs begin with {name!r}: {listed}; give more characters")
        found[fit[0].id] = fit[0]
    if not found:
        raise InputError("name the runs to delete by their ids; `store ls` lists them")
    return list(found.values())


def remove_runs(
    store: Store, wanted: Sequence[str], *, dry_run: bool = False, step: Step = after_step_hook
) -> RemovalReport:
    """Delete runs and the records, scene values, features and transforms that no other run needs.

    Other processes may work on the store: what they may use stays. A process killed in the middle leaves
    the store with the runs, or without; files of runs that are gone are removed by the next process.

    Args:
        store: Open to be written, or with `dry_run` to be read.
        wanted: Ids, which may be abbreviated.
        dry_run: Only say what would be deleted.
        step: Called with the name of each step that is done.

    Raises:
        InputError: an id that fits no run, or several; nothing is deleted.
    """
    if dry_run:
        return _told(*_planned(store, wanted), InUse.read(store.root), dry_run=True)
    finish_changes(store)
    with store.begin() as connection:
        heads, own = _planned(store, wanted)
        told = _told(heads, own, InUse.read(store.root))
        ids = [h.id for h in heads]
        files = [[entry.kind, entry.key, task] for entry, task in own]
        journal_change(store, {"runs": ids, "files": files})
        step("written down")
        for name in ids:
            run_file(store, name).unlink(missing_ok=True)
        step("run files")
        delete_rows(connection, ids)
        step("rows")
    step("committed")
    finish_changes(store, step)
    return told


def _planned(store: Store, wanted: Sequence[str]) -> tuple[list[RunHead], list[tuple[StoreEntry, str]]]:
    """The runs, and the entries that only they need with the task of one that does."""
    links = FileReferences.read(store)
    heads = select_runs(links.heads, wanted)
    gone = {h.id for h in heads}
    own = []
    for entry in entries(store):
        if entry.kind in OF_RUNS:
            users = links.of(entry)
            if users and all(h.id in gone for h in users):
                own.append((entry, users[0].task))
    return heads, own


def _told(
    heads: Sequence[RunHead], own: Sequence[tuple[StoreEntry, str]], busy: InUse, *, dry_run: bool = False
) -> RemovalReport:
    gone = [entry for entry, task in own if not busy.has(entry, task)]
    files = amounts(gone, OF_RUNS)
    return RemovalReport(tuple((h.id, h.method, h.task) for h in heads), files, len(own) - len(gone), dry_run)
