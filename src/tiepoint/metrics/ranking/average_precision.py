# SPDX-License-Identifier: BSD-3-Clause
"""Average precision of ranked lists, with every choice that published numbers differ in made explicit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .normaliser import Normaliser, normalise_precision
from .ties import blocks_of_lists, check_list, check_ties


def average_precision(
    distances: ArrayLike,
    relevant: ArrayLike,
    *,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    ties: str = "expected",
    cutoff: int | None = None,
) -> float:
    """Average precision of one list ranked by ascending distance.

    With precision Q_k and recall R_k after k items, `trec` is sum (R_k - R_{k-1}) Q_k, the mean of the
    precision at the relevant items, and `trapezoid` is sum (R_k - R_{k-1}) (Q_{k-1} + Q_k) / 2 with Q_0 = 1.

    Args:
        distances: (n,), smaller is better. Infinite: never retrieved, but a relevant one still counts in
            the normaliser `all`. NaN is an error.
        relevant: (n,) booleans, or probabilities in [0, 1] of being relevant, independent of each other.
        flavour: `trec` or `trapezoid`.
        normaliser: `all` relevant items of the list; the `retrieved` ones (finite distance, inside the
            cutoff); or a number, at least as large as what can be found.
        ties: order of equal distances. `expected`: mean over all orders, in closed form; `group`: a tie is
            one step of the curve (scikit-learn); `optimistic`: relevant first; `pessimistic`: relevant last;
            `file`: as given.
        cutoff: use only the first so many places.

    Returns:
        The value, NaN where the normaliser is zero (no relevant item).

    The trap: `file` is not neutral. Where lists are written positives first, as most benchmark files are, a
    descriptor that maps everything to one point gets AP 1.

    >>> d, y = [.1, .2, .2, .4], [1, 0, 1, 1]
    >>> [round(average_precision(d, y, ties=t), 4) for t in ("optimistic", "expected", "pessimistic")]
    [0.9167, 0.8611, 0.8056]
    """
    d, v = check_list(distances, relevant)
    check_ties(ties)
    blocks = blocks_of_lists(d, v, None, ties=ties)
    total = np.array([v.sum()])
    value = normalise_precision(
        blocks, total, flavour=flavour, normaliser=normaliser, ties=ties, cutoff=cutoff
    )
    return float(value[0])


def average_precision_of_lists(
    distances: ArrayLike,
    relevant: ArrayLike,
    owner: ArrayLike,
    lists: int,
    *,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    ties: str = "expected",
    cutoff: int | None = None,
) -> NDArray[np.float64]:
    """Average precision of many lists laid end to end, without a loop over them.

    Args:
        distances: (n,) of all lists.
        relevant: (n,).
        owner: (n,) number of the list of each item, non-decreasing, in 0 … lists-1.
        lists: number of lists; an empty one gives NaN.
        flavour: as in `average_precision`.
        normaliser: as in `average_precision`, also one number per list.
        ties: as in `average_precision`.
        cutoff: as in `average_precision`.

    Returns:
        float64 (lists,).

    >>> average_precision_of_lists([1, 2, 1, 2], [1, 0, 0, 1], [0, 0, 1, 1], 2)
    array([1. , 0.5])
    """
    d, v = check_list(distances, relevant)
    o = np.asarray(owner, np.int64)
    check_ties(ties)
    if o.shape != d.shape or (o.size and (o[0] < 0 or o[-1] >= lists or (np.diff(o) < 0).any())):
        raise InputError(f"owner must be a non-decreasing list of {len(d)} numbers in 0 … {lists - 1}")
    blocks = blocks_of_lists(d, v, o, ties=ties)
    total: NDArray[Any] = np.bincount(o, weights=v, minlength=lists)
    return normalise_precision(
        blocks, total, flavour=flavour, normaliser=normaliser, ties=ties, cutoff=cutoff
    )
