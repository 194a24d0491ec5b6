# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the database read back as runs and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ..core.errors import StoreError
from .schema import columns_in, keypoint_sets, methods, runs, scores
from .stored_run import Manifest
from .stored_run_part import SCORE_COLUMNS, StoredRun


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
    by_run = score_rows(connection, version, of, singles)
    found = []
    for row in connection.execute(query).mappings():
        known = {c.name: row[f"set_{c.name}"] for c in keypoint_sets.columns}
        manifest, own = Manifest.from_text(row["manifest"]), by_run.get(row["id"], [])
        facts = (row["id"], row["task"], row["status"], manifest, own, row["error"], row["created_at"])
        try:
            made = StoredRun(*facts, row["time_s"], None if row["keypoint_set_id"] is None else known)
        except ValueError as e:
            raise StoreError(f"run {row['id']}: {e}; `store check` makes its row again from its file") from e
        found.append(made)
    return found


def score_rows(
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
