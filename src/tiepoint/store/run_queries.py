# SPDX-License-Identifier: BSD-3-Clause
"""Load runs from the database."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from ..core.errors import InputError, StoreError
from ..core.formatting import first_few
from ..core.scores import SCORE_COLUMNS, ScoreRow
from .schema import keypoint_sets, methods, runs, scores
from .store import Store
from .stored_run import Manifest, StoredRun


def load_rows(
    connection: sa.Connection, *wanted: sa.ColumnElement[bool], singles: bool = True
) -> list[StoredRun]:
    """Build runs from database rows without reading run files. Return them oldest first."""
    query = (
        sa.select(runs, *(c.label(f"set_{c.name}") for c in keypoint_sets.columns))
        .join(methods, methods.c.id == runs.c.method_id)
        .join(keypoint_sets, keypoint_sets.c.id == runs.c.keypoint_set_id, isouter=True)
        .where(*wanted)
        .order_by(runs.c.created_at, runs.c.id)
    )
    of = None
    if wanted:
        of = sa.select(runs.c.id).join(methods, methods.c.id == runs.c.method_id).where(*wanted)
    by_run = score_rows(connection, of, singles)
    found = []
    for row in connection.execute(query).mappings():
        known = {c.name: row[f"set_{c.name}"] for c in keypoint_sets.columns}
        manifest, own = Manifest.from_text(row["manifest"]), by_run.get(row["id"], [])
        facts = (row["id"], row["task"], row["status"], manifest, own, row["error"], row["created_at"])
        try:
            made = StoredRun(*facts, row["time_s"], None if row["keypoint_set_id"] is None else known)
        except ValueError as e:
            raise StoreError(f"run {row['id']}: {e}; `store check` rebuilds the row from the run file") from e
        found.append(made)
    return found


def score_rows(connection: sa.Connection, of: Any, singles: bool) -> dict[str, list[ScoreRow]]:
    """Return scores by run id, in the task's order. The SQL query `of` selects run ids; None selects all."""
    own = [scores.c[name] for name in SCORE_COLUMNS]
    query = sa.select(scores.c.run_id, scores.c.position, *own)
    if of is not None:
        query = query.where(scores.c.run_id.in_(of))
    if not singles:
        place = sa.func.instr if connection.dialect.name == "sqlite" else sa.func.strpos
        for key in (",scene=", ",pair="):
            query = query.where(place(sa.literal(",").concat(scores.c["group"]), key) == 0)
    found: dict[str, list[Any]] = {}
    same: dict[Any, Any] = {}  # equal texts are shared
    texts = [SCORE_COLUMNS.index(c) for c in ("protocol", "metric", "group", "interval", "note")]
    for run, position, *made in connection.execute(query):
        for i in texts:
            made[i] = same.setdefault(made[i], made[i])
        place_of = (position is not None, position, *made[:3])
        found.setdefault(run, []).append((place_of, ScoreRow(*made)))
    return {run: [s for _, s in sorted(rows, key=lambda r: r[0])] for run, rows in found.items()}


def load_runs(
    store: Store,
    *,
    task: str | None = None,
    method: str | None = None,
    run_id: str | None = None,
    ids: Collection[str] | None = None,
    singles: bool = True,
) -> list[StoredRun]:
    """Return matching runs, oldest first. `run_id` may be a prefix; `ids` must be complete.

    Without `singles` the scores of individual scenes and pairs are skipped. A large store consists mostly of
    these scores.
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
        found = load_rows(connection, *wanted, singles=singles)
    return found if ids is None else [r for r in found if r.id in ids]


_MAX_IDS_PER_QUERY = 500
"""Largest number of ids in one SQL query. For more ids, all runs are read and filtered."""


def load_singles(store: Store, run_id: str) -> list[ScoreRow]:
    """Return all scores of a run, including the scores of individual scenes and pairs."""
    with store.reading() as connection:
        of = sa.select(runs.c.id).where(runs.c.id == run_id)
        return score_rows(connection, of, True).get(run_id, [])


def load_run(store: Store, run_id: str) -> StoredRun:
    """Return the run with an id or an unambiguous id prefix."""
    found = load_runs(store, run_id=run_id)
    if not found:
        raise InputError(f"the store {store.where} has no run {run_id!r}; `list runs` shows all runs")
    if len(found) > 1:
        raise InputError(
            f"several run ids begin with {run_id!r}: {first_few([r.id for r in found])}; pass more characters"
        )
    return found[0]


@dataclass(frozen=True)
class RunHead:
    """Summary of a run for lists; its manifest is parsed on access."""

    id: str
    task: str
    method: str
    status: str
    created_at: str
    protocols: tuple[str, ...]
    text: str = field(repr=False)

    @cached_property
    def manifest(self) -> Manifest:
        """Manifest of the run."""
        return Manifest.from_text(self.text)

    @property
    def is_deterministic(self) -> bool:
        """Whether no item of the run differed when it was computed twice."""
        return _NONDETERMINISTIC not in self.text

    @property
    def dataset(self) -> str:
        """Name of the dataset, read without parsing the complete manifest."""
        start = _BEFORE_METHOD.match(self.text)
        if start is not None:
            _, end = _DECODER.raw_decode(self.text, start.end())
            if self.text.startswith(_BEFORE_DATASET, end):
                found, _ = _DECODER.raw_decode(self.text, end + len(_BEFORE_DATASET))
                return str(found["name"])
        return self.manifest.dataset.name


_DECODER = json.JSONDecoder()

_BEFORE_METHOD = re.compile(r'\{"task": "(?:[^"\\]|\\.)*", "method": ')

_BEFORE_DATASET = ', "dataset": '

_NONDETERMINISTIC = '"nondeterministic_items": '
"""Text in a stored manifest that has this field. Quotes inside values are escaped."""

_PROTOCOLS = """with recursive p(run, protocol) as (
  select id, (select min(protocol) from scores where run_id = runs.id) from runs
  union all
  select run, (select min(protocol) from scores where run_id = p.run and protocol > p.protocol) from p
  where protocol is not null
) select run, protocol from p where protocol is not null"""
"""SQL query of the protocols of every run. It skips along the index of the scores table."""


def run_names(store: Store, *, task: str | None = None) -> list[tuple[str, str, str]]:
    """Return id, method and status of all runs, or of the runs of one task, oldest first."""
    query = (
        sa.select(runs.c.id, methods.c.name, runs.c.status)
        .join(methods, methods.c.id == runs.c.method_id)
        .order_by(runs.c.created_at, runs.c.id)
    )
    if task is not None:
        query = query.where(runs.c.task == task)
    with store.reading() as connection:
        return [(i, name, status) for i, name, status in connection.execute(query)]


def load_heads(store: Store, *, task: str | None = None) -> list[RunHead]:
    """Return summaries of all runs, or of the runs of one task, oldest first. Scores are not read."""
    query = (
        sa.select(runs.c.id, runs.c.task, methods.c.name, runs.c.status, runs.c.created_at, runs.c.manifest)
        .join(methods, methods.c.id == runs.c.method_id)
        .order_by(runs.c.created_at, runs.c.id)
    )
    if task is not None:
        query = query.where(runs.c.task == task)
    with store.reading() as connection:
        have: dict[str, list[str]] = {}
        for run, protocol in connection.execute(sa.text(_PROTOCOLS)):
            have.setdefault(run, []).append(protocol)
        found = connection.execute(query).all()
    return [
        RunHead(i, t, m, status, made, tuple(have.get(i, ())), text) for i, t, m, status, made, text in found
    ]
