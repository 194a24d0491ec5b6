# SPDX-License-Identifier: BSD-3-Clause
"""Runs in the store: saved under a lock, their file first and then their rows; read back as plain values."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ..model.errors import InputError, StoreError
from ..model.hashing import hash_json
from .atomic import atomic_file
from .manifest import Manifest
from .schema import columns_in, datasets, keypoint_sets, methods, runs, scores
from .store import Store

STATUSES = ("done", "failed")
SCORE_COLUMNS = ("protocol", "metric", "group", "value", "n", "low", "high", "interval", "chance", "note")


@dataclass(frozen=True)
class StoredRun:
    """One method on one task, as it is kept. `status` is one of `STATUSES`; `error` says why a run failed.

    `manifest` holds everything else: method and dataset with their hashes, options, units with the keys
    of their records, versions, machine, times, warnings.
    """

    id: str
    task: str
    status: str
    manifest: Manifest
    scores: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    created_at: str = ""
    time_s: float | None = None
    keypoint_set: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        if self.status == "error":  # as older versions wrote it
            object.__setattr__(self, "status", "failed")
        if self.status not in STATUSES:
            raise ValueError(f"a run is {' or '.join(STATUSES)}, not {self.status!r}")

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.manifest.method.name

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.manifest.dataset.name


def _clean(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def upsert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a content-addressed row unless it is there (concurrent writers included)."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    connection.execute(insert(table).values(**row).on_conflict_do_nothing())


def method_id(manifest: Manifest) -> str:
    """Identity of a method: name and everything that determines its output."""
    m = manifest.method
    return hash_json([m.name, m.family, m.config])


def insert_run(connection: sa.Connection, run: StoredRun) -> None:
    """Write the rows of a run; those of the same id are replaced."""
    m, d = run.manifest.method, run.manifest.dataset
    mid = method_id(run.manifest)
    upsert(
        connection,
        methods,
        {
            "id": mid,
            "name": m.name,
            "spec": m.spec,
            "family": m.family,
            "distance": m.distance,
            "config": json.dumps(m.config, sort_keys=True, default=str),
        },
    )
    upsert(
        connection,
        datasets,
        {
            "id": d.hash,
            "name": d.name,
            "path": d.path,
            "family": m.family,
            "items": d.items,
        },
    )
    if run.keypoint_set is not None:
        known = {c.name for c in keypoint_sets.columns}
        upsert(connection, keypoint_sets, {k: v for k, v in run.keypoint_set.items() if k in known})
    connection.execute(sa.delete(scores).where(scores.c.run_id == run.id))
    connection.execute(sa.delete(runs).where(runs.c.id == run.id))
    connection.execute(
        sa.insert(runs).values(
            id=run.id,
            method_id=mid,
            dataset_id=d.hash,
            keypoint_set_id=None if run.keypoint_set is None else run.keypoint_set["id"],
            task=run.task,
            status=run.status,
            error=run.error,
            created_at=run.created_at,
            time_s=run.time_s,
            manifest=json.dumps(run.manifest.plain(), default=str),
        )
    )
    if run.scores:
        rows = [
            {"run_id": run.id, "position": i, **{c: _clean(s.get(c)) for c in SCORE_COLUMNS}}
            for i, s in enumerate(run.scores)
        ]
        connection.execute(sa.insert(scores), rows)


def write_run_file(store: Store, run: StoredRun) -> None:
    """Write the file of a run."""
    plain = {
        "id": run.id,
        "task": run.task,
        "status": run.status,
        "manifest": run.manifest.plain(),
        "scores": [{c: _clean(s.get(c)) for c in SCORE_COLUMNS} for s in run.scores],
        "error": run.error,
        "created_at": run.created_at,
        "time_s": run.time_s,
        "keypoint_set": None if run.keypoint_set is None else dict(run.keypoint_set),
    }
    with atomic_file(run_file(store, run.id)) as temporary:
        temporary.write_text(json.dumps(plain, indent=1, default=str))


def run_file(store: Store, run_id: str) -> Path:
    """The file of a run; it holds everything the database says about it."""
    return store.root / "runs" / f"{run_id}.json"


def read_run(path: Path) -> StoredRun:
    """A run from its file; one that is not a run file is a `StoreError`."""
    try:
        plain = json.loads(path.read_text())
        return StoredRun(**plain | {"manifest": Manifest.read(plain["manifest"])})
    except (OSError, ValueError, TypeError, KeyError) as e:
        raise StoreError(f"{path} is not a run file: {e}; remove it and make the run again") from e


Merge = Callable[[StoredRun | None], StoredRun]
"""Makes the run to save of the run that is stored under its id, None if there is none."""


def save_run(store: Store, run: StoredRun, merge: Merge | None = None) -> StoredRun:
    """Write a run, its file first and then its rows; returns what was written.

    A stored run of the same id is replaced. With `merge` the run to write is what that makes of the stored
    one: it is called while this process alone may write the run, so nothing that another process has added
    is lost. It may read the store, and must not write to it.
    """
    with store.begin(lock=run.id) as connection:
        if merge is not None:
            made = merge(_stored(store, connection, run.id))
            if made.id != run.id:
                raise ValueError(f"merging run {run.id} gave run {made.id}")
            run = made
        write_run_file(store, run)
        insert_run(connection, run)
    return run


def _stored(store: Store, connection: sa.Connection, run_id: str) -> StoredRun | None:
    """The run of an id: its file, which is never older than its rows, or else these."""
    path = run_file(store, run_id)
    if path.is_file():
        with contextlib.suppress(StoreError):
            return read_run(path)
    return next(iter(load_rows(connection, store.version, runs.c.id == run_id)), None)


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

    Without `singles` the scores of single scenes and pairs are left out: most of the rows of a large store.
    """
    wanted = []
    if task is not None:
        wanted.append(runs.c.task == task)
    if method is not None:
        wanted.append(methods.c.name == method)
    if run_id is not None:
        wanted.append(runs.c.id.startswith(run_id, autoescape=True))
    if ids is not None and len(ids) <= _MOST_IDS:
        wanted.append(runs.c.id.in_(sorted(ids)))
    with store.reading() as connection:
        found = load_rows(connection, store.version, *wanted, singles=singles)
    return found if ids is None else [r for r in found if r.id in ids]


_MOST_IDS = 500
"""Ids that a query may name; more are picked from all runs."""


def load_rows(
    connection: sa.Connection, version: int, *wanted: sa.ColumnElement[bool], singles: bool = True
) -> list[StoredRun]:
    """Runs from the rows of a database of a schema version, newest last; the file of a run is not read."""
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
    by_run = _score_rows(connection, version, of, singles)
    found = []
    for row in connection.execute(query).mappings():
        known = {c.name: row[f"set_{c.name}"] for c in keypoint_sets.columns}
        found.append(
            StoredRun(
                row["id"],
                row["task"],
                row["status"],
                Manifest.from_text(row["manifest"]),
                by_run.get(row["id"], []),
                row["error"],
                row["created_at"],
                row["time_s"],
                keypoint_set=None if row["keypoint_set_id"] is None else known,
            )
        )
    return found


def _score_rows(
    connection: sa.Connection, version: int, of: Any, singles: bool
) -> dict[str, list[Mapping[str, Any]]]:
    """Scores by run in the order of the task, of the runs that a query `of` gives, None for all."""
    placed = scores.c.position in columns_in(scores, version)
    own = [scores.c[name] for name in SCORE_COLUMNS]
    query = sa.select(scores.c.run_id, scores.c.position if placed else sa.literal(0), *own)
    if of is not None:
        query = query.where(scores.c.run_id.in_(of))
    if not singles:
        place = sa.func.instr if connection.dialect.name == "sqlite" else sa.func.strpos
        for key in (",scene=", ",pair="):
            query = query.where(place(sa.literal(",").concat(scores.c["group"]), key) == 0)
    found: dict[str, list[Any]] = {}
    same: dict[Any, Any] = {}  # one text for all rows that have it
    texts = [SCORE_COLUMNS.index(c) for c in ("protocol", "metric", "group", "interval", "note")]
    for run, position, *made in connection.execute(query):
        for i in texts:
            made[i] = same.setdefault(made[i], made[i])
        place_of = (position is not None, position, *made[:3])
        found.setdefault(run, []).append((place_of, dict(zip(SCORE_COLUMNS, made, strict=True))))
    return {run: [s for _, s in sorted(rows, key=lambda r: r[0])] for run, rows in found.items()}


@dataclass(frozen=True)
class RunHead:
    """What a list shows of a run; its manifest is read when it is looked at."""

    id: str
    task: str
    method: str
    status: str
    created_at: str
    protocols: tuple[str, ...]
    text: str = field(repr=False)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the run."""
        return Manifest.from_text(self.text)

    @property
    def dataset(self) -> str:
        """Name of the dataset, for which the long rest of the manifest need not be read."""
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

_PROTOCOLS = """with recursive p(run, protocol) as (
  select id, (select min(protocol) from scores where run_id = runs.id) from runs
  union all
  select run, (select min(protocol) from scores where run_id = p.run and protocol > p.protocol) from p
  where protocol is not null
) select run, protocol from p where protocol is not null"""
"""Protocols of every run, from one to the next in the index, past the many scores of each."""


def names_of(store: Store, *, task: str | None = None) -> list[tuple[str, str, str]]:
    """Id, method and status of all runs, or those of a task, newest last."""
    query = (
        sa.select(runs.c.id, methods.c.name, runs.c.status)
        .join(methods, methods.c.id == runs.c.method_id)
        .order_by(runs.c.created_at, runs.c.id)
    )
    if task is not None:
        query = query.where(runs.c.task == task)
    with store.reading() as connection:
        return [(i, name, status) for i, name, status in connection.execute(query)]


def load_singles(store: Store, run_id: str) -> list[Mapping[str, Any]]:
    """All scores of a run, those of single scenes and pairs among them."""
    with store.reading() as connection:
        of = sa.select(runs.c.id).where(runs.c.id == run_id)
        return _score_rows(connection, store.version, of, True).get(run_id, [])


def load_heads(store: Store, *, task: str | None = None) -> list[RunHead]:
    """What a list shows of all runs, or those of a task, newest last; no score is read."""
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
        RunHead(i, t, m, "failed" if status == "error" else status, made, tuple(have.get(i, ())), text)
        for i, t, m, status, made, text in found
    ]


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
