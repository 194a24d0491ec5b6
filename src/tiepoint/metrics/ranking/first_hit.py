# SPDX-License-Identifier: BSD-3-Clause
"""The first right answer of lists that may have several: success at k, reciprocal rank, histogram.

In a list with `before` wrong items ahead, then a tie of `items` of which `relevant` are right, the first
right answer stands at place p of the tie with probability P(p) = (relevant / (items - p + 1)) x the
probability that the p - 1 places before it hold wrong ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .from_counts import _targets, blocks_from_counts
from .harmonic import harmonic_difference
from .ties import Floats, TieBlocks


class FirstBlocks(NamedTuple):
    """The first tie with a right answer of each list, (lists,); `relevant` is 0 where none is retrieved."""

    before: Floats
    items: Floats
    relevant: Floats


def first_blocks(
    lt: ArrayLike, eq: ArrayLike, owner: ArrayLike, lists: int, *, retrieved: ArrayLike | None = None
) -> FirstBlocks:
    """First ties from the counts of the right answers (see `counts`): `lt` wrong ones nearer, `eq` equal.

    >>> first_blocks([3, 1, 1], [0, 2, 2], [0, 0, 0], 1)
    FirstBlocks(before=array([1.]), items=array([4.]), relevant=array([2.]))
    """
    blocks = all_blocks(lt, eq, owner, lists, retrieved=retrieved)
    out = FirstBlocks(*(np.zeros(lists) for _ in range(3)))
    start = np.ones(len(blocks.owner), bool)
    start[1:] = blocks.owner[1:] != blocks.owner[:-1]
    where = blocks.owner[start]
    for column, values in zip(out, (blocks.before, blocks.items, blocks.relevant), strict=True):
        column[where] = values[start]
    return out


def all_blocks(
    lt: ArrayLike, eq: ArrayLike, owner: ArrayLike, lists: int, *, retrieved: ArrayLike | None = None
) -> TieBlocks:
    """Every tie that holds a right answer, list by list in the order of the places."""
    return blocks_from_counts(_targets(lt, eq, owner, lists, None, retrieved, "expected"))


def success_at(first: FirstBlocks, k: int) -> Floats:
    """Probability that one of the first k places holds a right answer, (lists,).

    >>> success_at(FirstBlocks(np.array([1.]), np.array([4.]), np.array([2.])), 2)
    array([0.5])
    """
    places = np.clip(k - first.before, 0, first.items)
    miss = np.ones(len(places))
    for i in range(k):
        left = np.maximum(first.items - i, 1.0)
        wrong = np.clip(first.items - first.relevant - i, 0.0, None)
        miss = np.where(i < places, miss * wrong / left, miss)
    return np.where(first.relevant > 0, 1.0 - miss, 0.0)


def expected_reciprocal_rank(first: FirstBlocks) -> Floats:
    """Expected 1 / rank of the first right answer, (lists,); 0 where none is retrieved.

    >>> expected_reciprocal_rank(FirstBlocks(np.array([0.]), np.array([2.]), np.array([1.])))
    array([0.75])
    """
    before, items, relevant = first
    out = np.where(relevant > 0, 1.0 / (before + 1.0), 0.0)
    one = np.flatnonzero((relevant == 1) & (items > 1))
    out[one] = harmonic_difference(before[one], items[one]) / items[one]
    several = np.flatnonzero((relevant > 1) & (items > relevant))
    if len(several):
        table = np.column_stack(first)[several]
        rows, inverse = np.unique(table, axis=0, return_inverse=True)
        out[several] = np.array([_reciprocal(*row) for row in rows])[inverse.reshape(-1)]
    return out


def _reciprocal(before: float, items: float, relevant: float) -> float:
    p = np.arange(int(items - relevant) + 1)
    wrong = (items - relevant - p[:-1]) / (items - p[:-1])
    reach = np.concatenate([[1.0], np.cumprod(wrong)])
    return float(np.sum(reach * relevant / (items - p) / (before + 1.0 + p)))


def hits_at(blocks: TieBlocks, k: int, lists: int) -> Floats:
    """Expected number of right answers among the first k places, (lists,).

    >>> hits_at(all_blocks([0, 1], [0, 1], [0, 0], 1), 3, 1)
    array([1.5])
    """
    places = np.clip(k - blocks.before, 0, blocks.items)
    found = np.bincount(blocks.owner, weights=blocks.relevant * places / blocks.items, minlength=lists)
    return np.asarray(found, np.float64)


def chance_first(items: ArrayLike, relevant: ArrayLike) -> FirstBlocks:
    """The same for a random order: one tie over the whole list."""
    n: NDArray[Any] = np.asarray(items, np.float64)
    return FirstBlocks(np.zeros(len(n)), n, np.asarray(relevant, np.float64))
