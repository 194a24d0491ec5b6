# SPDX-License-Identifier: BSD-3-Clause
"""Deleting runs, and what only they used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import method_name, printable
from ..run_queries import RunHead, load_rows
from ..schema import methods, runs
from ..store import Store
from ..stored_run import StoredRun, run_file, run_id, write_run_file
from ..writers import insert_run
from .inventory import FileReferences, StoreEntry, entries
from .journal import Step, after_step_hook, delete_rows, finish_changes, journal_change
from .space import OF_RUNS, SizeTotal, amounts
from .usage import InUse, short_keys, uses_of, write_uses


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


@dataclass(frozen=True)
class RenameReport:
    """A method that has, or with `dry_run` would have, another name; `ids` has new ids of runs by the old.

    The id of a run says what it is, and the name is part of that: a renamed run has the id that a run made
    under the new name has.
    """

    old: str
    new: str
    ids: dict[str, str]
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def rename_method(
    store: Store, old: str, new: str, *, dry_run: bool = False, step: Step = after_step_hook
) -> RenameReport:
    """Give a method another name in all its runs: rows, run files, ids. Scores stay as they are.

    A run that has the id by which this version would know it gets the one that it would have had under the
    new name, so that running the method with that `name` finds it; any other run keeps its id.

    Args:
        store: Open to be written, or with `dry_run` to be read.
        old: The name now.
        new: The name from now on.
        dry_run: Only say what would be done.
        step: Called with the name of each step that is done.

    Raises:
        InputError: no run has the old name, one has the new one already, or it cannot be a name.
    """
    method_name(new)
    if dry_run:
        with store.reading() as connection:
            return RenameReport(old, new, {a.id: b.id for a, b in _pairs(store, connection, old, new)}, True)
    finish_changes(store)
    with store.begin() as connection:
        pairs = _pairs(store, connection, old, new)
        ids = {before.id: made.id for before, made in pairs}
        journal_change(store, {"ids": ids})
        step("written down")
        features = _features(store, old, pairs)
        for before, made in pairs:
            write_run_file(store, made)
            uses = uses_of(store.root, before.id)
            write_uses(store.root, made.id, made.task, features if uses is None else uses.keys)
        step("run files")
        for _, made in pairs:
            insert_run(connection, made)
        delete_rows(connection, [a for a, b in ids.items() if a != b])
        step("rows")
    step("committed")
    finish_changes(store, step)
    return RenameReport(old, new, ids)


def _pairs(store: Store, connection: sa.Connection, old: str, new: str) -> list[tuple[StoredRun, StoredRun]]:
    """The runs of a method as they are and as they will be."""
    names = set(connection.execute(sa.select(methods.c.name).join(runs)).scalars())
    if old not in names:
        raise UnknownNameError("method in the store", old, names)
    if new in names:
        raise InputError(f"there are runs of a method {printable(new)!r} already; choose another name")
    pairs = []
    for run in load_rows(connection, methods.c.name == old):
        method = run.manifest.method.model_copy(update={"name": new, "name_given": True})
        manifest = run.manifest.model_copy(update={"method": method})
        usual = run_id(run.manifest) == run.id
        pairs.append((run, replace(run, id=run_id(manifest) if usual else run.id, manifest=manifest)))
    there = set(connection.execute(sa.select(runs.c.id)).scalars())
    made = [b.id for _, b in pairs]
    clash = sorted({b.id for a, b in pairs if b.id != a.id and (b.id in there or made.count(b.id) > 1)})
    if clash:
        raise InputError(f"renamed runs would have ids that are taken: {', '.join(clash)}")
    return pairs


def _features(store: Store, old: str, pairs: list[tuple[StoredRun, StoredRun]]) -> Any:
    """Features that runs of the method may use which have not noted any: all that have its name."""
    if all(uses_of(store.root, run.id) is not None for run, _ in pairs):
        return short_keys([])
    return short_keys(e.key for e in entries(store) if e.kind == "features" and e.method == old)
