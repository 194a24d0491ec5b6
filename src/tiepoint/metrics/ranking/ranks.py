# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of right answers from counts, and their reciprocals.

A right answer with `lt` others nearer and `eq` others equally near has, in a random order of the tie, each of
the ranks lt+1 … lt+eq+1 with the same probability. Here the others are all other items of the list.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .harmonic import harmonic_difference
from .ties import Floats, check_ties


def rank_bounds(
    lt: ArrayLike, eq: ArrayLike, *, eq_before: ArrayLike | None = None, ties: str = "expected"
) -> tuple[Floats, Floats]:
    """First and last possible rank of each right answer under a tie rule (`group`: the last one).

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
            raise InputError("the tie rule 'file' needs eq_before, the equal items before each answer")
        at = low + np.asarray(eq_before, np.float64)
        return at, at
    return low, high


def _found(retrieved: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.ones(shape, bool) if retrieved is None else np.asarray(retrieved, bool)


def reciprocal_rank(
    lt: ArrayLike,
    eq: ArrayLike,
    *,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> Floats:
    """Expected 1/rank of each right answer: (1/(eq+1)) sum of 1/(lt+1+i), i = 0 … eq.

    With one right answer in a list this is its average precision. An answer that is not `retrieved` gets 0.
    The trap: 1 / expected rank is smaller than the expected 1/rank.

    >>> reciprocal_rank([0, 0, 3], [0, 1, 0])
    array([1.  , 0.75, 0.25])
    """
    low, high = rank_bounds(lt, eq, eq_before=eq_before, ties=ties)
    width = high - low + 1.0
    return np.where(_found(retrieved, low.shape), harmonic_difference(low - 1.0, width) / width, 0.0)


def half_tie_rank(better: ArrayLike, ties: ArrayLike) -> NDArray[np.int64]:
    """Rank of the one right answer as a whole number: 1 + better + ceil(ties / 2).

    The mean rank among ties, 1 + better + ties / 2, rounded up.

    >>> half_tie_rank([0, 0, 0, 3], [0, 1, 2, 3]).tolist()
    [1, 2, 2, 6]
    """
    return 1 + np.asarray(better, np.int64) + (np.asarray(ties, np.int64) + 1) // 2
