# SPDX-License-Identifier: BSD-3-Clause
"""Published questions with their data, ground truth and scores, by name."""

from ..model.registry import Registry

TASKS = Registry("task")

_V1 = "tiepoint.tasks.hpatches_v1"
TASKS.add("hpatches-v1/classification", f"{_V1}_classification:TASK", "2016: same or not", family="patches")
TASKS.add("hpatches-v1/matching", f"{_V1}_matching:TASK", "2016: match two images' patches", family="patches")
TASKS.add("hpatches-v1/retrieval", f"{_V1}_retrieval:TASK", "2016: find a patch in a pool", family="patches")
