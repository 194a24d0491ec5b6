# SPDX-License-Identifier: BSD-3-Clause
"""Journal of multi-step changes. After a kill, another process completes or undoes the change.

The journal entry is written first, then the database commits, then files are changed. If the process was
killed before the commit, the change is undone. If it was killed after the commit, the change is completed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ...core.hashing import hash_json
from ...core.regular_files import read_content
from .. import status_files
from ..atomic_files import atomic_file, remove_atomically, remove_temporaries, temporary_folder
from ..run_queries import load_rows
from ..schema import datasets, keypoint_sets, methods, runs, scores
from ..store import Store
from ..stored_run import run_file, write_run_file
from .inventory import FileReferences, StoreEntry, entries
from .usage import InUse, uses_file, uses_of

FOLDER = "changing"
_ID = re.compile(r"[\w-]{1,64}")
Step = Callable[[str], None]


def after_step_hook(_: str) -> None:
    """Do nothing. Called after each step of a change; tests replace it to inject a failure."""


def journal_change(store: Store, plain: Mapping[str, Any]) -> Path:
    """Write a journal entry before a multi-step change. Requires the store lock."""
    path = store.root / FOLDER / f"{hash_json([plain, os.getpid(), os.urandom(8).hex()])[:16]}.json"
    with atomic_file(path) as temporary:
        temporary.write_bytes(json.dumps(plain).encode())
    return path


def delete_rows(connection: sa.Connection, ids: Sequence[str]) -> None:
    """Delete the rows of runs, and of methods, datasets and keypoint sets that no other run uses.

    Keypoint sets with a folder in the store are retained.
    """
    sets = {
        name
        for (name,) in connection.execute(
            sa.select(runs.c.keypoint_set_id).where(runs.c.id.in_(ids)).distinct()
        )
    }
    for i in range(0, len(ids), 500):
        part = list(ids[i : i + 500])
        connection.execute(sa.delete(scores).where(scores.c.run_id.in_(part)))
        connection.execute(sa.delete(runs).where(runs.c.id.in_(part)))
    for table, used in ((methods, runs.c.method_id), (datasets, runs.c.dataset_id)):
        connection.execute(sa.delete(table).where(table.c.id.not_in(sa.select(used).distinct())))
    needed = {name for (name,) in connection.execute(sa.select(runs.c.keypoint_set_id).distinct())}
    for name in sets - needed - {None}:
        connection.execute(
            sa.delete(keypoint_sets).where(
                keypoint_sets.c.id == name, keypoint_sets.c.total_keypoints.is_(None)
            )
        )


def finish_changes(store: Store, step: Step = after_step_hook) -> int:
    """Complete or undo the changes of killed processes. Return the number of bytes removed."""
    folder = store.root / FOLDER
    removed = sum(_finish(store, path, step) for path in sorted(folder.glob("*.json")))
    with contextlib.suppress(OSError):
        folder.rmdir()
    return removed


def _finish(store: Store, path: Path, step: Step) -> int:
    with store.begin() as connection:
        try:
            change = _read(path)
        except FileNotFoundError:  # another process was faster
            return 0
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # corrupt
            path.unlink(missing_ok=True)
            return 0
        there = set(connection.execute(sa.select(runs.c.id)).scalars())
        for old, new in change.ids.items():
            gone = old if new in there else new
            _forget(store, gone)
            if gone in there:  # the database was rebuilt from the files of both runs
                delete_rows(connection, [gone])
        busy = InUse.read(store.root)
        for name in change.runs:
            if name not in there:
                _forget(store, name, busy)
            elif not run_file(store, name).is_file():
                for run in load_rows(connection, runs.c.id == name):
                    write_run_file(store, run)
        step("forgotten")
        removed = discard(store, change.files, busy)
        step("discarded")
        path.unlink(missing_ok=True)
    return removed


@dataclass(frozen=True)
class _Change:
    """Journal entry of a change. `ids` maps old to new run ids; `runs` and `files` are to be deleted."""

    ids: dict[str, str]
    runs: list[str]
    files: dict[tuple[str, str], str]


def _read(path: Path) -> _Change:
    plain = json.loads(read_content(path))
    ids, gone = dict(plain.get("ids", {})), list(plain.get("runs", []))
    if not all(_ID.fullmatch(name) for name in (*ids, *ids.values(), *gone)):
        raise ValueError("not a run id")
    return _Change(ids, gone, {(kind, key): task for kind, key, task in plain.get("files", [])})


def _forget(store: Store, name: str, busy: InUse | None = None) -> None:
    run_file(store, name).unlink(missing_ok=True)
    uses = uses_of(store.root, name)
    if uses is not None and (busy is None or uses.when < busy.since):  # else the run is being repeated
        uses_file(store.root, name).unlink(missing_ok=True)


def remove_leftovers(store: Store) -> None:
    """Remove temporary files of killed processes, and complete or undo their changes."""
    remove_temporaries(store.root)
    status_files.remove_dead(store.root)
    finish_changes(store)


def discard(store: Store, candidates: Mapping[tuple[str, str], str], busy: InUse) -> int:
    """Remove the candidates that no run needs, and return their size in bytes.

    `candidates` maps (kind, key) to the task of the runs that needed the file. The caller must hold the store
    lock (`Store.begin`), so that no run starts to use a candidate during removal.
    """
    if not candidates:
        return 0
    links = FileReferences.read(store)
    gone = [
        entry
        for entry in entries(store)
        if (task := candidates.get((entry.kind, entry.key))) is not None
        and not links.of(entry)
        and links.raced(entry) is None
        and not busy.has(entry, task)
    ]
    delete_entries(store.root, gone)
    return sum(e.size_bytes for e in gone)


def delete_entries(root: Path, gone: Iterable[StoreEntry]) -> None:
    """Remove each entry atomically. After a kill, the next process removes the remaining entries."""
    with temporary_folder(root) as folder:
        for number, entry in enumerate(gone):
            try:
                os.rename(entry.path, folder / str(number))
            except FileNotFoundError:
                continue
            except OSError:  # on another disk
                remove_atomically(entry.path)
