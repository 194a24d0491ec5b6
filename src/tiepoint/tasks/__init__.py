# SPDX-License-Identifier: BSD-3-Clause
"""Published questions with their data, ground truth and scores, by name."""

from ..model.registry import Registry

TASKS = Registry("task")

_V1 = "tiepoint.tasks.hpatches_v1"
TASKS.add("hpatches-v1/classification", f"{_V1}.classification:TASK", "2016: same or not", family="patches")
TASKS.add("hpatches-v1/matching", f"{_V1}.matching:TASK", "2016: match two images' patches", family="patches")
TASKS.add("hpatches-v1/retrieval", f"{_V1}.retrieval:TASK", "2016: find a patch in a pool", family="patches")

_V2 = "tiepoint.tasks.hpatches"
TASKS.add("hpatches/verification", f"{_V2}.verification:TASK", "same or not", family="patches")
TASKS.add("hpatches/matching", f"{_V2}.matching:TASK", "match two images' patches", family="patches")
TASKS.add("hpatches/retrieval", f"{_V2}.retrieval:TASK", "find a patch among distractors", family="patches")

TASKS.add(
    "tss", "tiepoint.tasks.dense.tss:TASK", "flow and mask between two instances of an object", family="dense"
)
TASKS.add("dense/flow", "tiepoint.tasks.dense.flow:TASK", "flow against flow or homography", family="dense")
TASKS.add("dense/pck", "tiepoint.tasks.dense.pck:TASK", "keypoints carried over by a flow", family="dense")

_KEYPOINTS = "tiepoint.tasks.keypoints"
TASKS.add(
    "keypoints/ranking", f"{_KEYPOINTS}.ranking:TASK", "rank of the right keypoints", family="keypoints"
)
TASKS.add(
    "keypoints/verification", f"{_KEYPOINTS}.verification:TASK", "right pair or not", family="keypoints"
)
TASKS.add(
    "keypoints/retrieval", f"{_KEYPOINTS}.retrieval:TASK", "find a keypoint in a pool", family="keypoints"
)
TASKS.add(
    "keypoints/matching", f"{_KEYPOINTS}.matching:TASK", "first neighbours of a pair", family="keypoints"
)
TASKS.add("keypoints/images", f"{_KEYPOINTS}.images:TASK", "images of a scene by matches", family="keypoints")
TASKS.add(
    "keypoints/geometry", f"{_KEYPOINTS}.geometry:TASK", "repeatability to homography", family="keypoints"
)
