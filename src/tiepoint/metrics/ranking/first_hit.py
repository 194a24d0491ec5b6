# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of the first correct answer in a ranked list: success at k, reciprocal rank, histogram.

The first tie that contains a correct answer decides. It has `items` items, `relevant` of them correct, and
`before` wrong items precede it. The first correct answer is at position p of the tie with probability P(p) =
(relevant / (items - p + 1)) x the probability that the p - 1 positions before p are wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .from_counts import blocks_from_counts, sort_targets
from .ties import Floats, TieBlocks, check_ties, harmonic_difference


class FirstBlocks(NamedTuple):
    """First tie of each list that contains a correct answer; all arrays are (lists,).

    `before` is the number of items ahead of the tie, `items` its size and `relevant` its number of correct
    answers. `relevant` is 0 for a list without a correct answer.
    """

    before: Floats
    items: Floats
    relevant: Floats


def first_blocks(
    lt: ArrayLike, eq: ArrayLike, owner: ArrayLike, lists: int, *, retrieved: ArrayLike | None = None
) -> FirstBlocks:
    """Find the first tie of each list that contains a correct answer, from counts of wrong items.

    For each correct answer, `lt` is the number of nearer and `eq` of equally near wrong items in its list.

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
    """Return every tie that contains a correct answer, sorted by list and rank.

    The arguments are those of `first_blocks`.
    """
    return blocks_from_counts(sort_targets(lt, eq, owner, lists, None, retrieved, "expected"))


def success_at(first: FirstBlocks, k: int) -> Floats:
    """Return the probability (lists,) that a correct answer is among the first k ranks.

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
    """Return the expected 1/rank of the first correct answer, (lists,); 0 if no correct answer is retrieved.

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
    """Return the expected number (lists,) of correct answers among the first k ranks.

    >>> hits_at(all_blocks([0, 1], [0, 1], [0, 0], 1), 3, 1)
    array([1.5])
    """
    places = np.clip(k - blocks.before, 0, blocks.items)
    hits = np.bincount(blocks.owner, weights=blocks.relevant * places / blocks.items, minlength=lists)
    return np.asarray(hits, np.float64)


def chance_first(items: ArrayLike, relevant: ArrayLike) -> FirstBlocks:
    """Return the `FirstBlocks` of lists in random order: each list is one tie of all its items."""
    n: NDArray[Any] = np.asarray(items, np.float64)
    return FirstBlocks(np.zeros(len(n)), n, np.asarray(relevant, np.float64))


def rank_bounds(
    lt: ArrayLike, eq: ArrayLike, *, eq_before: ArrayLike | None = None, ties: str = "expected"
) -> tuple[Floats, Floats]:
    """Return the lowest and highest possible rank of each correct answer under a tie rule.

    `lt` is the number of nearer and `eq` of equally near wrong items; `eq_before` is required by ties `file`.

    >>> rank_bounds([0, 2], [0, 3])
    (array([1., 3.]), array([1., 6.]))
    """
    check_ties(ties)
    low = np.asarray(lt, np.float64) + 1.0
    high = low + np.asarray(eq, np.float64)
    if ties == "optimistic":
        return low, low
    if ties in ("pessimistic", "group"):
        return high, high
    if ties == "file":
        if eq_before is None:
            raise InputError(
                "eq_before: missing, but the tie rule 'file' needs the number of equal items before each "
                "answer; pass it"
            )
        at = low + np.asarray(eq_before, np.float64)
        return at, at
    return low, high


def reciprocal_rank(
    lt: ArrayLike,
    eq: ArrayLike,
    *,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> Floats:
    """Return the expected 1/rank of each correct answer: (1/(eq+1)) sum of 1/(lt+1+i), i = 0 … eq.

    `lt` and `eq` are the numbers of nearer and equally near wrong items. For a list with one correct answer
    the result is the average precision. An answer that is not `retrieved` gets 0. The expected 1/rank is
    larger than 1 / expected rank.

    >>> reciprocal_rank([0, 0, 3], [0, 1, 0])
    array([1.  , 0.75, 0.25])
    """
    low, high = rank_bounds(lt, eq, eq_before=eq_before, ties=ties)
    width = high - low + 1.0
    value = harmonic_difference(low - 1.0, width) / width
    return value if retrieved is None else np.where(np.asarray(retrieved, bool), value, 0.0)


def half_tie_rank(better: ArrayLike, ties: ArrayLike) -> NDArray[np.int64]:
    """Return the mean rank of the correct answer, rounded up: 1 + better + ceil(ties / 2).

    `better` counts the wrong items ahead of the answer, `ties` those at equal distance.

    >>> half_tie_rank([0, 0, 0, 3], [0, 1, 2, 3]).tolist()
    [1, 2, 2, 6]
    """
    return 1 + np.asarray(better, np.int64) + (np.asarray(ties, np.int64) + 1) // 2
