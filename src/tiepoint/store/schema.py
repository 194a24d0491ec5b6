# SPDX-License-Identifier: BSD-3-Clause
"""SQL tables and views of a store.

The views have the columns of the DescriptorWorkbench schema, so that SQL written for it works.
"""

from __future__ import annotations

import time

import sqlalchemy as sa

from ..metrics.experiment import METADATA

metadata = sa.MetaData()

versions = sa.Table(
    "tiepoint_schema",
    metadata,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False),
)
"""Format version, and a counter that every write transaction increments."""

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
    sa.Column("position", sa.Integer),
)
"""Scores of the runs. `position` is the index of a score in the order that the task returned."""


_COLUMNS = {
    "keypoints/ranking": """
        true_map_micro true_map_macro=true_map_macro_by_scene true_map_macro_by_scene
        true_map_micro_with_zeros=true_map_micro_including_zeros true_map_micro_including_zeros
        true_map_macro_with_zeros=true_map_macro_by_scene_including_zeros
        true_map_macro_by_scene_including_zeros viewpoint_map illumination_map viewpoint_map_with_zeros
        illumination_map_with_zeros mean_average_precision legacy_mean_precision=mean_precision
        mean_precision legacy_macro_precision_by_scene precision_at_1 precision_at_5 precision_at_10
        recall_at_1 recall_at_5 recall_at_10 total_matches total_keypoints total_queries_processed
        total_queries_excluded processing_time_ms
    """,
    "keypoints/images": "image_retrieval_map=map",
    "keypoints/verification": """
        keypoint_verification_ap verification_viewpoint_ap verification_illumination_ap
    """,
    "keypoints/retrieval": """
        keypoint_retrieval_ap retrieval_viewpoint_ap retrieval_illumination_ap retrieval_num_true_positives
        retrieval_num_hard_negatives retrieval_num_distractors
    """,
}
"""Columns of the view `results` by task: names of metrics, or ``column=metric`` if they differ."""

WORKBENCH_COLUMNS = {
    column: (task, metric or column)
    for task, names in _COLUMNS.items()
    for column, _, metric in (name.partition("=") for name in names.split())
}
"""Task and metric of each column of the view `results`, in group ``all`` and the protocol of the row.

A metric has two columns if DescriptorWorkbench's table and documentation name it differently.
"""


def _value(column: str) -> str:
    task, metric = WORKBENCH_COLUMNS[column]
    return f"max(case when r.task = '{task}' and s.metric = '{metric}' then s.value end)"


def _pivot() -> str:
    return ",\n  ".join(f"{_value(column)} as {column}" for column in WORKBENCH_COLUMNS)


def _metadata() -> str:
    """Return the SQL of the column `metadata`: ranking metadata as a string, then further values."""
    ranking = "max(case when r.task = 'keypoints/ranking' and s.metric = 'metadata' then s.note end)"
    others = (
        f"coalesce('{column}=' || cast(round(cast({_value(column)} as numeric), 6) as text) || ';', '')"
        for column in WORKBENCH_COLUMNS
        if column not in METADATA
    )
    parts = " ||\n  ".join([f"coalesce({ranking}, '')", *others])
    return f"nullif({parts}, '')"


def statements() -> list[str]:
    """Return the SQL of the views.

    A row of `results` combines the newest run of every task. Older runs of the same method, dataset, keypoint
    set and task, with other options, have separate rows. Column `newest_of` is the number of runs from which
    the newest was taken. A failed run has a row with its error.
    """
    same = "method_id, dataset_id, coalesce(keypoint_set_id, '')"
    tasks = ", ".join(f"'{task}'" for task in dict.fromkeys(task for task, _ in WORKBENCH_COLUMNS.values()))
    results = f"""create view results as select
  min(r.id) as id, r.experiment_id, s.protocol, m.name as method, d.name as dataset,
  r.method_id, r.dataset_id, r.keypoint_set_id,
  {_pivot()},
  {_metadata()} as metadata,
  max(r.created_at) as timestamp, max(case when t.place = 1 then t.runs end) as newest_of, null as error
from (
  select *, min(id) over (partition by {same}) as experiment_id from runs where task like 'keypoints/%'
) r
join (
  select p.run_id, p.protocol, row_number() over (
    partition by {same}, q.task, p.protocol order by q.created_at desc, q.id
  ) as place, count(*) over (partition by {same}, q.task, p.protocol) as runs
  from (select distinct run_id, protocol from scores) p join runs q on q.id = p.run_id
  where q.task in ({tasks}) and q.status = 'done'
) t on t.run_id = r.id
join methods m on m.id = r.method_id
join datasets d on d.id = r.dataset_id
join scores s on s.run_id = r.id and s.protocol = t.protocol and s."group" = 'all'
group by r.experiment_id, r.method_id, r.dataset_id, r.keypoint_set_id, s.protocol, m.name, d.name,
  case when t.place > 1 then r.id else '' end
union all select
  r.id, r.id, null, m.name, d.name, r.method_id, r.dataset_id, r.keypoint_set_id,
  {", ".join("null" for _ in WORKBENCH_COLUMNS)},
  'success=false;error_message=' || replace(r.error, ';', ',') || ';', r.created_at, null, r.error
from runs r join methods m on m.id = r.method_id join datasets d on d.id = r.dataset_id
where r.task in ({tasks}) and r.status = 'failed'"""
    experiments = """create view experiments as select
  min(r.id) as id, m.name as descriptor_type, d.path as dataset_name, m.config as parameters,
  max(r.created_at) as timestamp, r.keypoint_set_id, k.name as keypoint_set_name, m.distance as distance
from runs r
join methods m on m.id = r.method_id
join datasets d on d.id = r.dataset_id
left join keypoint_sets k on k.id = r.keypoint_set_id
where r.task like 'keypoints/%'
group by r.method_id, r.dataset_id, r.keypoint_set_id, m.name, d.path, m.config, k.name, m.distance"""
    return [results, experiments]


VERSION = 6
"""Format version of a store."""


def version_of(connection: sa.Connection) -> int:
    """Return the format version of a database; 0 for an empty database."""
    if not sa.inspect(connection).has_table(versions.name):
        return 0
    return int(connection.execute(sa.select(versions.c.version)).scalar() or 0)


def create(connection: sa.Connection) -> None:
    """Create the tables and views of an empty database."""
    for table in (versions, datasets, methods, keypoint_sets, runs, scores):
        table.create(connection, checkfirst=True)
    for name in ("results", "experiments"):
        connection.execute(sa.text(f"drop view if exists {name}"))
    for statement in statements():
        connection.execute(sa.text(statement))
    # A database that replaces another one must not repeat its numbers.
    connection.execute(sa.insert(versions).values(version=VERSION, changes=time.time_ns()))


def count_change(connection: sa.Connection) -> None:
    """Increment the counter of write transactions."""
    connection.execute(sa.update(versions).values(changes=versions.c.changes + 1))


def change_count(connection: sa.Connection) -> int:
    """Return the counter of write transactions. It differs after every change of the store."""
    return int(connection.execute(sa.select(versions.c.changes)).scalar_one())
