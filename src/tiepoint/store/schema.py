# SPDX-License-Identifier: BSD-3-Clause
"""SQL tables and their versions. A migration is a list of statements from one version to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from .views import create_views

metadata = sa.MetaData()

versions = sa.Table("tiepoint_schema", metadata, sa.Column("version", sa.Integer, nullable=False))

datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("path", sa.Text),
    sa.Column("family", sa.String(32), nullable=False),
    sa.Column("items", sa.Integer),
)

methods = sa.Table(
    "methods",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("spec", sa.Text),
    sa.Column("family", sa.String(32), nullable=False),
    sa.Column("distance", sa.String(32)),
    sa.Column("config", sa.Text, nullable=False),
)

keypoint_sets = sa.Table(
    "keypoint_sets",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("generator_type", sa.Text),
    sa.Column("generation_method", sa.Text),
    sa.Column("dataset_path", sa.Text),
    sa.Column("max_features", sa.Integer),
    sa.Column("boundary_filter_px", sa.Float),
    sa.Column("tolerance_px", sa.Float),
    sa.Column("source_set_a_id", sa.String(64)),
    sa.Column("source_set_b_id", sa.String(64)),
    sa.Column("total_keypoints", sa.Integer),
    sa.Column("avg_keypoints_per_image", sa.Float),
    sa.Column("config", sa.Text),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("method_id", sa.String(64), sa.ForeignKey("methods.id"), nullable=False),
    sa.Column("dataset_id", sa.String(64), sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("keypoint_set_id", sa.String(64), sa.ForeignKey("keypoint_sets.id")),
    sa.Column("task", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("time_s", sa.Float),
    sa.Column("manifest", sa.Text, nullable=False),
)

scores = sa.Table(
    "scores",
    metadata,
    sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), primary_key=True),
    sa.Column("protocol", sa.String(64), primary_key=True),
    sa.Column("metric", sa.String(128), primary_key=True),
    sa.Column("group", sa.String(512), primary_key=True),
    sa.Column("value", sa.Float),
    sa.Column("n", sa.BigInteger),
    sa.Column("low", sa.Float),
    sa.Column("high", sa.Float),
    sa.Column("interval", sa.String(32)),
    sa.Column("chance", sa.Float),
    sa.Column("note", sa.Text),
    sa.Column("position", sa.Integer, info={"since": 3}),
)
"""`position` is the place of a score among those of its run: the order of the task."""


def _to_1(connection: sa.Connection) -> None:
    for table in (versions, datasets, methods, keypoint_sets, runs, scores):
        table.create(connection, checkfirst=True)
    connection.execute(sa.insert(versions).values(version=1))


def _to_2(connection: sa.Connection) -> None:
    create_views(connection)


def _to_3(connection: sa.Connection) -> None:
    if "position" not in {c["name"] for c in sa.inspect(connection).get_columns(scores.name)}:
        connection.execute(sa.text("alter table scores add column position integer"))


def _to_4(connection: sa.Connection) -> None:
    connection.execute(sa.update(runs).where(runs.c.status == "error").values(status="failed"))


MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (_to_1, _to_2, _to_3, _to_4)
"""Step i takes a database from version i to version i + 1."""

VERSION = len(MIGRATIONS)


def version_of(connection: sa.Connection) -> int:
    """Schema version of a database, 0 for an empty one."""
    if not sa.inspect(connection).has_table(versions.name):
        return 0
    return int(connection.execute(sa.select(versions.c.version)).scalar() or 0)


def upgrade(connection: sa.Connection, *, to: int = VERSION) -> None:
    """Bring the tables of a database to version `to`."""
    for step in range(version_of(connection), to):
        MIGRATIONS[step](connection)
        connection.execute(sa.update(versions).values(version=step + 1))


def columns_in(table: sa.Table, version: int) -> list[sa.Column[Any]]:
    """The columns that a table has in a version of the schema.

    >>> [c.name for c in columns_in(scores, 3) if c not in columns_in(scores, 2)]
    ['position']
    """
    return [c for c in table.columns if c.info.get("since", 1) <= version]
