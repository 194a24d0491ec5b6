# SPDX-License-Identifier: BSD-3-Clause
"""Runs of the store, read back as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from ..core.errors import InputError
from .run_rows import load_rows, score_rows
from .schema import methods, runs
from .store import Store
from .stored_run_part import StoredRun


def load_runs(
    store: Store,
    *,
    task: str | None = None,
    method: str | None = None,
    run_id: str | None = None,
    ids: Collection[str] | None = None,
    singles: bool = True,
) -> list[StoredRun]:
    """Runs that match, newest last; ids may be abbreviated, those of `ids` are whole.

    Without `load_single_scores` the scores of single scenes and pairs are left out: most of the rows of a large store.
    """
    wanted = []
    if task is not None:
        wanted.append(runs.c.task == task)
    if method is not None:
        wanted.append(methods.c.name == method)
    if run_id is not None:
        wanted.append(runs.c.id.startswith(run_id, autoescape=True))
    if ids is not None and len(ids) <= _MAX_IDS_PER_QUERY:
        wanted.append(runs.c.id.in_(sorted(ids)))
    with store.reading() as connection:
        found = load_rows(connection, store.version, *wanted, singles=singles)
    return found if ids is None else [r for r in found if r.id in ids]


_MAX_IDS_PER_QUERY = 500
"""Ids that a query may name; more are picked from all runs."""


def load_singles(store: Store, run_id: str) -> list[Mapping[str, Any]]:
    """All scores of a run, those of single scenes and pairs among them."""
    with store.reading() as connection:
        of = sa.select(runs.c.id).where(runs.c.id == run_id)
        return score_rows(connection, store.version, of, True).get(run_id, [])


def load_run(store: Store, run_id: str) -> StoredRun:
    """The one run of an (abbreviated) id."""
    found = load_runs(store, run_id=run_id)
    if not found:
        raise InputError(f"the store {store.where} has no run {run_id!r}; `list runs` shows those it has")
    if len(found) > 1:
        raise InputError(
            f"several runs begin with {run_id!r}: {', '.join(r.id for r in found)}; give more characters"
        )
    return found[0]
