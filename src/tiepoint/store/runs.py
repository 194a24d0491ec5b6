# SPDX-License-Identifier: BSD-3-Clause
"""Runs in the store: written once all their files exist, read back as plain values, rebuilt from files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from ..formats.keypoints.keypoint_set import read_keypoint_set
from ..model.errors import InputError, StoreError
from ..model.hashing import hash_json
from .schema import datasets, keypoint_sets, methods, runs, scores
from .store import Store

SCORE_COLUMNS = ("protocol", "metric", "group", "value", "n", "low", "high", "interval", "chance", "note")


@dataclass(frozen=True)
class StoredRun:
    """One method on one task, as it is kept.

    `manifest` holds everything else: method and dataset with their hashes, options, units with the keys
    of their records, versions, machine, times, warnings.
    """

    id: str
    task: str
    status: str
    manifest: Mapping[str, Any]
    scores: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    created_at: str = ""
    time_s: float | None = None
    keypoint_set: Mapping[str, Any] | None = field(default=None)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.manifest["method"]["name"])

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return str(self.manifest["dataset"]["name"])


def _clean(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _upsert(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a content-addressed row unless it is there (concurrent writers included)."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    connection.execute(insert(table).values(**row).on_conflict_do_nothing())


def method_id(manifest: Mapping[str, Any]) -> str:
    """Identity of a method: name and everything that determines its output."""
    m = manifest["method"]
    return hash_json([m["name"], m["family"], m["config"]])


def _insert(connection: sa.Connection, run: StoredRun) -> None:
    m, d = run.manifest["method"], run.manifest["dataset"]
    mid = method_id(run.manifest)
    _upsert(
        connection,
        methods,
        {
            "id": mid,
            "name": m["name"],
            "spec": m.get("spec"),
            "family": m["family"],
            "distance": m.get("distance"),
            "config": json.dumps(m["config"], sort_keys=True, default=str),
        },
    )
    _upsert(
        connection,
        datasets,
        {
            "id": d["hash"],
            "name": d["name"],
            "path": d.get("path"),
            "family": m["family"],
            "items": d.get("items"),
        },
    )
    if run.keypoint_set is not None:
        known = {c.name for c in keypoint_sets.columns}
        _upsert(connection, keypoint_sets, {k: v for k, v in run.keypoint_set.items() if k in known})
    connection.execute(sa.delete(scores).where(scores.c.run_id == run.id))
    connection.execute(sa.delete(runs).where(runs.c.id == run.id))
    connection.execute(
        sa.insert(runs).values(
            id=run.id,
            method_id=mid,
            dataset_id=d["hash"],
            keypoint_set_id=None if run.keypoint_set is None else run.keypoint_set["id"],
            task=run.task,
            status=run.status,
            error=run.error,
            created_at=run.created_at,
            time_s=run.time_s,
            manifest=json.dumps(run.manifest, sort_keys=True, default=str),
        )
    )
    if run.scores:
        rows = [
            {"run_id": run.id, "position": i, **{c: _clean(s.get(c)) for c in SCORE_COLUMNS}}
            for i, s in enumerate(run.scores)
        ]
        connection.execute(sa.insert(scores), rows)


def save_run(store: Store, run: StoredRun) -> None:
    """Write a run: its file first, then its rows in one transaction. One of the same id is replaced."""
    plain = {
        "id": run.id,
        "task": run.task,
        "status": run.status,
        "manifest": dict(run.manifest),
        "scores": [{c: _clean(s.get(c)) for c in SCORE_COLUMNS} for s in run.scores],
        "error": run.error,
        "created_at": run.created_at,
        "time_s": run.time_s,
        "keypoint_set": None if run.keypoint_set is None else dict(run.keypoint_set),
    }
    store.write_json(f"runs/{run.id}.json", plain)
    with store.begin() as connection:
        _insert(connection, run)


def load_runs(
    store: Store, *, task: str | None = None, method: str | None = None, run_id: str | None = None
) -> list[StoredRun]:
    """Runs that match, newest last; ids may be abbreviated."""
    query = sa.select(runs, methods.c.name.label("method")).join(methods, methods.c.id == runs.c.method_id)
    if task is not None:
        query = query.where(runs.c.task == task)
    if method is not None:
        query = query.where(methods.c.name == method)
    if run_id is not None:
        query = query.where(runs.c.id.startswith(run_id, autoescape=True))
    query = query.order_by(runs.c.created_at, runs.c.id)
    with store.begin() as connection:
        rows = connection.execute(query).mappings().all()
        found = []
        for row in rows:
            score_rows = connection.execute(
                sa.select(scores)
                .where(scores.c.run_id == row["id"])
                .order_by(scores.c.position, scores.c.protocol, scores.c.metric, scores.c["group"])
            )
            found.append(
                StoredRun(
                    row["id"],
                    row["task"],
                    row["status"],
                    json.loads(row["manifest"]),
                    [dict(s) for s in score_rows.mappings()],
                    row["error"],
                    row["created_at"],
                    row["time_s"],
                )
            )
    return found


def load_run(store: Store, run_id: str) -> StoredRun:
    """The one run of an (abbreviated) id."""
    found = load_runs(store, run_id=run_id)
    if not found:
        raise InputError(f"no run {run_id!r} in store {store.where}; `tiepoint list runs` shows them")
    if len(found) > 1:
        raise InputError(
            f"run {run_id!r} is ambiguous: {', '.join(r.id for r in found)}; give more characters"
        )
    return found[0]


def rebuild(store: Store) -> int:
    """Write all run files and keypoint sets of the store's folder into its database; returns how many runs.

    The database can be lost: files are written first and hold everything.
    """
    files = sorted((store.root / "runs").glob("*.json"))
    with store.begin() as connection:
        for path in files:
            try:
                plain = json.loads(path.read_text())
                run = StoredRun(**plain)
            except (ValueError, TypeError) as e:
                raise StoreError(f"{path} is not a run file: {e}; remove it and rebuild again") from e
            _insert(connection, run)
        for header in sorted((store.root / "keypoint_sets").glob("*/set.json")):
            _upsert(connection, keypoint_sets, read_keypoint_set(header.parent).row())
    return len(files)
