# SPDX-License-Identifier: BSD-3-Clause
"""The database follows the files of a store: what they say is what it says afterwards."""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from ..formats.keypoints.set_folder import read_keypoint_set, sets_below
from ..model.errors import InputError, StoreError
from .older import combined, is_older, renewed
from .run_files import read_run, run_file, write_run_file
from .saving import insert_run, refused, upsert
from .schema import datasets, keypoint_sets, methods, runs, scores
from .store import Store
from .stored_run import StoredRun


def rebuild(store: Store) -> list[str]:
    """Make the database say what the files of the store say, in one transaction; returns problems in words.

    A run whose file is gone disappears, with its method and dataset if no other run has them. The rows of a
    run whose file cannot be read stay, since they are all that is left of it; the file is named.
    """
    with store.begin() as connection:
        return follow_files(store, connection)


def renew(store: Store, run: StoredRun) -> StoredRun:
    """Write the file of a run of an older version under the name that the run has now."""
    made = renewed(run)
    before, target = run_file(store, run.id), run_file(store, made.id)
    if target != before and target.is_file():
        with contextlib.suppress(StoreError):  # one that cannot be read is replaced
            made = combined(read_run(target), made)
    write_run_file(store, made)
    if target != before:
        before.unlink(missing_ok=True)
    return made


def follow_files(store: Store, connection: sa.Connection) -> list[str]:
    """`rebuild` within a transaction."""
    problems = []
    there = set()
    for path in sorted((store.root / "runs").glob("*.json")):
        try:
            run = read_run(path)
            if run.id != path.stem:
                raise StoreError(f"{path} holds the run {run.id}; name it {run.id}.json or remove it")
        except StoreError as e:
            there.add(path.stem)
            problems.append(str(e))
            continue
        if is_older(run):
            run = renew(store, run)
        there.add(run.id)
        try:
            with connection.begin_nested(), refused(run):
                insert_run(connection, run)
        except InputError as e:
            problems.append(f"{e}; remove {path} and make the run again")
    for name in connection.execute(sa.select(runs.c.id)).scalars().all():
        if name not in there:
            connection.execute(sa.delete(scores).where(scores.c.run_id == name))
            connection.execute(sa.delete(runs).where(runs.c.id == name))
    sets = []
    for folder in sets_below(store.root).values():
        try:
            row = read_keypoint_set(folder).row()
        except InputError as e:
            problems.append(str(e))
            continue
        sets.append(row["id"])
        upsert(connection, keypoint_sets, row)
    for table, used in (
        (methods, runs.c.method_id),
        (datasets, runs.c.dataset_id),
        (keypoint_sets, runs.c.keypoint_set_id),
    ):
        known = set(connection.execute(sa.select(used).distinct()).scalars()) | set(sets)
        for name in connection.execute(sa.select(table.c.id)).scalars().all():
            if name not in known:
                connection.execute(sa.delete(table).where(table.c.id == name))
    return problems
