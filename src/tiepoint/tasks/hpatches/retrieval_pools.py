# SPDX-License-Identifier: BSD-3-Clause
"""Pools of the 2017 retrieval task: which of the listed distractors a query meets, in three definitions.

`others` counts distractors of other sequences than the query's (protocol `exact`); `with` counts them and the
right answers (Python tool: 100 means 95 distractors); `first` cuts the list before those of the query's
sequence are left out (MATLAB tool). The list order is that of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = (100, 500, 1000, 2000, 5000, 10000, 15000, 20000)
PYTHON_SIZES = (100, 500, 1000, 5000, 10000, 15000, 20000)
MATLAB_SIZE = 2000
"""The MATLAB tool's default number of distractors; its article script uses all of them."""
ALL = "all"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """One column of limits: how it counts (`others`, `with`, `first` or `all`) and its size."""

    rule: str
    size: int | None

    @property
    def label(self) -> str:
        """Value of the group key `pool`."""
        return ALL if self.size is None else str(self.size)


def pools() -> list[Pool]:
    """All columns that are counted, the whole list last."""
    return [
        *(Pool("others", k) for k in SIZES),
        *(Pool("with", k) for k in PYTHON_SIZES),
        Pool("first", MATLAB_SIZE),
        Pool(ALL, None),
    ]


def limits(
    columns: list[Pool], scenes: int, query_scene: NDArray[Any], pool_scene: NDArray[Any], positives: int
) -> tuple[Ints, Ints]:
    """First list position outside each pool, and the distractors of other sequences inside; both (q, s).

    A pool larger than what the list offers ends with the list.

    >>> at, inside = limits([Pool("others", 2), Pool("first", 2)], 2, np.array([0]), np.array([0, 1, 1]), 5)
    >>> at.tolist(), inside.tolist()
    ([[3, 2]], [[2, 1]])
    """
    total = len(pool_scene)
    at = np.zeros((scenes, len(columns)), np.int64)
    inside = np.zeros_like(at)
    for scene in np.unique(query_scene):
        others = np.cumsum(pool_scene != scene)
        for s, column in enumerate(columns):
            if column.size is None:
                at[scene, s] = total
            elif column.rule == "first":
                at[scene, s] = min(column.size, total)
            else:
                wanted = column.size - (positives if column.rule == "with" else 0)
                end = int(np.searchsorted(others, wanted)) + 1 if wanted > 0 else 0
                at[scene, s] = min(end, total)
            inside[scene, s] = others[at[scene, s] - 1] if at[scene, s] else 0
    return at[query_scene], inside[query_scene]
