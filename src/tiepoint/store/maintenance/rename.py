# SPDX-License-Identifier: BSD-3-Clause
"""Renaming a method in all its runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import method_name, printable
from ..run_files import write_run_file
from ..run_id import run_id
from ..run_rows import load_rows
from ..schema import methods, runs
from ..store import Store
from ..stored_run_part import StoredRun
from ..writers import insert_run
from .inventory import entries
from .journal import Step, after_step_hook, delete_rows, finish_changes, journal_change
from .usage import short_keys, uses_of, write_uses


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
    for run in load_rows(connection, store.version, methods.c.name == old):
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
