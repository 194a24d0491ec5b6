# SPDX-License-Identifier: BSD-3-Clause
"""DescriptorWorkbench's metrics under one import, for code written against that tool.

>>> from tiepoint.compat.workbench import ExperimentMetrics, compute_query_ap
>>> metrics = ExperimentMetrics()
>>> result = compute_query_ap((0, 0), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1]], [0.7])
>>> metrics.add_query_ap("i_dome", result)
>>> metrics.calculate_mean_precision()
>>> metrics.true_map_micro
1.0
"""

from __future__ import annotations

from ..geometry.workbench_truth import find_single_relevant_index, project_point
from ..metrics.workbench.experiment_metrics import ExperimentMetrics, merge_metrics
from ..metrics.workbench.query_ap import (
    QueryAPResult,
    compute_average_precision,
    compute_query_ap,
    workbench_rank,
)

__all__ = [
    "ExperimentMetrics",
    "QueryAPResult",
    "compute_average_precision",
    "compute_query_ap",
    "find_single_relevant_index",
    "merge_metrics",
    "project_point",
    "workbench_rank",
]
