# SPDX-License-Identifier: BSD-3-Clause
"""Views with the columns of the DescriptorWorkbench schema, so that SQL written for it works."""

from __future__ import annotations

import sqlalchemy as sa

WORKBENCH_COLUMNS: dict[str, tuple[str, str]] = {
    "true_map_micro": ("keypoints/ranking", "true_map_micro"),
    "true_map_macro": ("keypoints/ranking", "true_map_macro_by_scene"),
    "true_map_micro_with_zeros": ("keypoints/ranking", "true_map_micro_including_zeros"),
    "true_map_macro_with_zeros": ("keypoints/ranking", "true_map_macro_by_scene_including_zeros"),
    "viewpoint_map": ("keypoints/ranking", "viewpoint_map"),
    "illumination_map": ("keypoints/ranking", "illumination_map"),
    "viewpoint_map_with_zeros": ("keypoints/ranking", "viewpoint_map_with_zeros"),
    "illumination_map_with_zeros": ("keypoints/ranking", "illumination_map_with_zeros"),
    "mean_average_precision": ("keypoints/ranking", "mean_average_precision"),
    "legacy_mean_precision": ("keypoints/ranking", "mean_precision"),
    "legacy_macro_precision_by_scene": ("keypoints/ranking", "legacy_macro_precision_by_scene"),
    "precision_at_1": ("keypoints/ranking", "precision_at_1"),
    "precision_at_5": ("keypoints/ranking", "precision_at_5"),
    "precision_at_10": ("keypoints/ranking", "precision_at_10"),
    "recall_at_1": ("keypoints/ranking", "recall_at_1"),
    "recall_at_5": ("keypoints/ranking", "recall_at_5"),
    "recall_at_10": ("keypoints/ranking", "recall_at_10"),
    "total_matches": ("keypoints/ranking", "total_matches"),
    "total_keypoints": ("keypoints/ranking", "total_keypoints"),
    "total_queries_processed": ("keypoints/ranking", "total_queries_processed"),
    "total_queries_excluded": ("keypoints/ranking", "total_queries_excluded"),
    "processing_time_ms": ("keypoints/ranking", "processing_time_ms"),
    "image_retrieval_map": ("keypoints/images", "map"),
    "keypoint_verification_ap": ("keypoints/verification", "keypoint_verification_ap"),
    "verification_viewpoint_ap": ("keypoints/verification", "verification_viewpoint_ap"),
    "verification_illumination_ap": ("keypoints/verification", "verification_illumination_ap"),
    "keypoint_retrieval_ap": ("keypoints/retrieval", "keypoint_retrieval_ap"),
    "retrieval_viewpoint_ap": ("keypoints/retrieval", "retrieval_viewpoint_ap"),
    "retrieval_illumination_ap": ("keypoints/retrieval", "retrieval_illumination_ap"),
    "retrieval_num_true_positives": ("keypoints/retrieval", "retrieval_num_true_positives"),
    "retrieval_num_hard_negatives": ("keypoints/retrieval", "retrieval_num_hard_negatives"),
    "retrieval_num_distractors": ("keypoints/retrieval", "retrieval_num_distractors"),
}
"""Column of the view -> task and metric it shows, under protocol ``workbench`` and group ``all``."""


def _pivot() -> str:
    rows = [
        f"max(case when r.task = '{task}' and s.metric = '{metric}' then s.value end) as {column}"
        for column, (task, metric) in WORKBENCH_COLUMNS.items()
    ]
    return ",\n  ".join(rows)


def statements() -> list[str]:
    """The SQL that makes the views."""
    key = "r.method_id, r.dataset_id, r.keypoint_set_id"
    results = f"""create view results as select
  min(r.id) as id, min(r.id) as experiment_id, m.name as method, d.name as dataset,
  r.method_id, r.dataset_id, r.keypoint_set_id,
  {_pivot()},
  max(case when r.task = 'keypoints/ranking' and s.metric = 'metadata' then s.note end) as metadata,
  max(r.created_at) as timestamp
from runs r
join methods m on m.id = r.method_id
join datasets d on d.id = r.dataset_id
join scores s on s.run_id = r.id and s.protocol = 'workbench' and s."group" = 'all'
where r.task like 'keypoints/%' and r.status = 'done'
group by {key}, m.name, d.name"""
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


def create_views(connection: sa.Connection) -> None:
    """(Re)make the views."""
    for name in ("results", "experiments"):
        connection.execute(sa.text(f"drop view if exists {name}"))
    for statement in statements():
        connection.execute(sa.text(statement))
