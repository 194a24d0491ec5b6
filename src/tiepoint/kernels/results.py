# SPDX-License-Identifier: BSD-3-Clause
"""What the kernels return."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Nearest(NamedTuple):
    """`index` int64 (q, k) and `distance` float64 (q, k), each row sorted by (distance, pool index)."""

    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    distance: NDArray[np.float64]


class FirstTwo(NamedTuple):
    """First and second neighbour of each query, all of shape (q,).

    `index` is the lowest pool index at the smallest distance `d1`; `ties` >= 1 counts the pool rows at it;
    `d2` is the second smallest distance, equal to `d1` when tied and infinite in a pool of one row.
    """

    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    d1: NDArray[np.float64]
    ties: NDArray[np.int64]
    d2: NDArray[np.float64]


class RankCounts(NamedTuple):
    """For each target and limit, int64 (t, s): pool rows nearer, equal, equal and at an earlier position."""

    lt: NDArray[np.int64]
    eq: NDArray[np.int64]
    eq_before: NDArray[np.int64]
