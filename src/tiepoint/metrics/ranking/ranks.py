# SPDX-License-Identifier: BSD-3-Clause
"""Rank statistics of right answers from counts: reciprocal rank, hits at k, histogram.

A right answer with `lt` others nearer and `eq` others equally near has, in a random order of the tie, each of
the ranks lt+1 … lt+eq+1 with the same probability. Here the others are all other items of the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...model.errors import InputError
from .blocks import Floats, check_ties
from .harmonic import harmonic_difference


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


def hit_at_k(
    lt: ArrayLike,
    eq: ArrayLike,
    k: int,
    *,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> Floats:
    """Probability that each right answer stands among the first k.

    With one right answer: recall (and success) at k is its mean, precision at k its mean divided by k.

    >>> hit_at_k([0, 0, 3], [0, 3, 0], 2)
    array([1. , 0.5, 0. ])
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    low, high = rank_bounds(lt, eq, eq_before=eq_before, ties=ties)
    inside = np.clip((k - low + 1.0) / (high - low + 1.0), 0.0, 1.0)
    return np.where(_found(retrieved, low.shape), inside, 0.0)


def precision_at_k(hits: ArrayLike, k: int) -> float:
    """Mean precision at k of queries with `hits` (expected) right answers among their first k.

    >>> precision_at_k([1, 0], 5)
    0.1
    """
    h = np.asarray(hits, np.float64)
    return float(h.mean() / k) if h.size else float("nan")


def recall_at_k(hits: ArrayLike, relevant: ArrayLike) -> float:
    """Mean over queries of the share of right answers among the first k; queries without any are skipped.

    >>> recall_at_k([1, 2], [1, 4])
    0.75
    """
    h, r = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(relevant, np.float64))
    some = r > 0
    return float(np.mean(h[some] / r[some])) if some.any() else float("nan")


def rank_histogram(
    lt: ArrayLike,
    eq: ArrayLike,
    edges: ArrayLike,
    *,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> Floats:
    """Expected number of right answers with a rank in each class [edges[i], edges[i+1]).

    Answers that are not `retrieved` are in no class: the sum falls short of the number of queries by them.

    Args:
        lt: (q,) others nearer.
        eq: (q,) others equally near.
        edges: increasing ranks; the last may be infinite.
        eq_before: (q,) for ties `file`.
        retrieved: (q,) booleans.
        ties: tie rule.

    Returns:
        float64 (len(edges) - 1,).

    >>> rank_histogram([0, 0, 9], [0, 3, 0], [1, 2, 5, np.inf])
    array([1.25, 0.75, 1.  ])
    """
    low, high = rank_bounds(lt, eq, eq_before=eq_before, ties=ties)
    kept = _found(retrieved, low.shape)
    low, high = low[kept], high[kept]
    e = np.asarray(edges, np.float64)
    if e.ndim != 1 or len(e) < 2 or (np.diff(e) <= 0).any():
        raise InputError("edges must be at least two increasing ranks")
    below: list[Any] = [np.sum(np.clip((x - low) / (high - low + 1.0), 0.0, 1.0)) for x in e]
    return np.diff(np.array(below, np.float64))
