# SPDX-License-Identifier: BSD-3-Clause
"""Delete runs and rename methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few, method_name, printable
from ..races import race_file
from ..run_queries import RunHead, load_rows
from ..schema import methods, runs
from ..store import Store
from ..stored_run import StoredRun, run_file, run_id, write_run_file
from ..writers import insert_run
from .inventory import FileReferences, StoreEntry, entries
from .journal import Step, after_step_hook, delete_rows, finish_changes, journal_change
from .space import OF_RUNS, SizeTotal, amounts
from .usage import InUse, short_keys, uses_file, uses_of, write_uses


@dataclass(frozen=True)
class RemovalReport:
    """Report of deleted runs, as (id, method, task), and of the deleted files, counted by kind.

    Only files that no other run needs are deleted. `kept` counts files that were retained because a running
    process may need them; a later `prune` removes them. With `dry_run` nothing was deleted.
    """

    runs: tuple[tuple[str, str, str], ...]
    files: dict[str, SizeTotal] = field(default_factory=dict)
    kept: int = 0
    dry_run: bool = False

    @property
    def size_bytes(self) -> int:
        """Size of the files in bytes."""
        return sum(a.size_bytes for a in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {"size_bytes": self.size_bytes, **asdict(self)}


def select_runs(heads: Sequence[RunHead], wanted: Sequence[str]) -> list[RunHead]:
    """Return the runs with the given ids or id prefixes. Raise `InputError` unless each matches one run."""
    found: dict[str, RunHead] = {}
    for name in wanted:
        fit = [h for h in heads if h.id == name] or [h for h in heads if name and h.id.startswith(name)]
        own = [h.id for h in heads if h.method == name]
        if not fit and own:
            listed = first_few(own, 10, count=False)
            raise InputError(f"{name!r} is a method; pass the ids of its runs: {listed}")
        if not fit:
            raise InputError(f"the store has no run {name!r}; `store ls` lists the run ids")
        if len(fit) > 1:
            listed = first_few([h.id for h in fit], 5, count=False)
            raise InputError(f"{len(fit)} run ids begin with {name!r}: {listed}; pass more characters")
        found[fit[0].id] = fit[0]
    if not found:
        raise InputError("no runs to delete; pass run ids, which `store ls` lists")
    return list(found.values())


def remove_runs(
    store: Store, wanted: Sequence[str], *, dry_run: bool = False, step: Step = after_step_hook
) -> RemovalReport:
    """Delete runs, and the records, scene values, features and transforms that no other run needs.

    Files that other running processes may use are retained. If the process is killed, the store contains
    either all or none of the runs, and the next process removes the remaining files of deleted runs.

    Args:
        store: Open for writing, or for reading with `dry_run`.
        wanted: Run ids or prefixes of run ids.
        dry_run: Return what would be deleted; change nothing.
        step: Called with the name of each finished step.

    Raises:
        InputError: An id matches no run or several runs; nothing is deleted.
    """
    if dry_run:
        return _removal_report(*_planned(store, wanted), InUse.read(store.root), dry_run=True)
    finish_changes(store)
    with store.begin() as connection:
        heads, own = _planned(store, wanted)
        report = _removal_report(heads, own, InUse.read(store.root))
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
    return report


def remove_races(store: Store, ids: Sequence[str]) -> None:
    """Delete races. Records that only these races used stay until `prune_store`."""
    with store.begin():
        for name in ids:
            race_file(store.root, name).unlink(missing_ok=True)
            uses_file(store.root, name).unlink(missing_ok=True)


def _planned(store: Store, wanted: Sequence[str]) -> tuple[list[RunHead], list[tuple[StoreEntry, str]]]:
    """Return the runs to delete, and (entry, task) for each store entry that only these runs need."""
    links = FileReferences.read(store)
    heads = select_runs(links.heads, wanted)
    gone = {h.id for h in heads}
    own = []
    for entry in entries(store):
        if entry.kind in OF_RUNS:
            users = links.of(entry)
            if users and all(h.id in gone for h in users) and links.raced(entry) is None:
                own.append((entry, users[0].task))
    return heads, own


def _removal_report(
    heads: Sequence[RunHead], own: Sequence[tuple[StoreEntry, str]], busy: InUse, *, dry_run: bool = False
) -> RemovalReport:
    gone = [entry for entry, task in own if not busy.has(entry, task)]
    files = amounts(gone, OF_RUNS)
    return RemovalReport(tuple((h.id, h.method, h.task) for h in heads), files, len(own) - len(gone), dry_run)


@dataclass(frozen=True)
class RenameReport:
    """Report of a renamed method. `ids` maps old to new run ids. With `dry_run` nothing was changed."""

    old: str
    new: str
    ids: dict[str, str]
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


def rename_method(
    store: Store, old: str, new: str, *, dry_run: bool = False, step: Step = after_step_hook
) -> RenameReport:
    """Rename a method in the rows, files and ids of all its runs. Scores do not change.

    A renamed run gets the id that it would have had under the new name. Running the method with that `name`
    then finds the stored run.

    Args:
        store: Open for writing, or for reading with `dry_run`.
        old: The current name.
        new: The new name.
        dry_run: Return what would change; change nothing.
        step: Called with the name of each finished step.

    Raises:
        InputError: No run has the old name, a run already has the new name, or the new name is invalid.
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
        delete_rows(connection, list(ids))
        step("rows")
    step("committed")
    finish_changes(store, step)
    return RenameReport(old, new, ids)


def _pairs(store: Store, connection: sa.Connection, old: str, new: str) -> list[tuple[StoredRun, StoredRun]]:
    """Return each run of a method together with its renamed version."""
    names = set(connection.execute(sa.select(methods.c.name).join(runs)).scalars())
    if old not in names:
        raise UnknownNameError("method in the store", old, names)
    if new in names:
        raise InputError(f"the store already has runs of a method {printable(new)!r}; choose another name")
    pairs = []
    for run in load_rows(connection, methods.c.name == old):
        method = run.manifest.method.model_copy(update={"name": new, "name_given": True})
        manifest = run.manifest.model_copy(update={"method": method})
        pairs.append((run, replace(run, id=run_id(manifest), manifest=manifest)))
    there = set(connection.execute(sa.select(runs.c.id)).scalars())
    made = [b.id for _, b in pairs]
    clash = sorted({name for name in made if name in there or made.count(name) > 1})
    if clash:
        raise InputError(f"the new run ids already exist: {', '.join(clash)}; choose another name")
    return pairs


def _features(store: Store, old: str, pairs: list[tuple[StoredRun, StoredRun]]) -> Any:
    """Return the keys of all cached features of the old method. Empty if all its runs have usage files."""
    if all(uses_of(store.root, run.id) is not None for run, _ in pairs):
        return short_keys([])
    return short_keys(e.key for e in entries(store) if e.kind == "features" and e.method == old)
