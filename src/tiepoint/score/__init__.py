# SPDX-License-Identifier: BSD-3-Clause
"""Score arrays in memory, without a dataset folder or a store.

Each function returns a `Result` with the numbers that the task gives on the same data.
"""

from .dense import flow
from .descriptors import matching, retrieval, verification
from .pairs import homography, planes, pose
from .reconstruction import reconstruction
from .result import Result

__all__ = [
    "Result",
    "flow",
    "homography",
    "matching",
    "planes",
    "pose",
    "reconstruction",
    "retrieval",
    "verification",
]
