# SPDX-License-Identifier: BSD-3-Clause
"""Average precision of ranked lists, with options for the variants used in publications."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .ties import (
    Floats,
    TieBlocks,
    blocks_of_lists,
    check_list,
    check_ties,
    expected_precision_sums,
    places_before_cutoff,
    precision_sums,
)

Normaliser = str | int | NDArray[Any]


def normalise_precision(
    blocks: TieBlocks, relevant: Floats, flavour: str, normaliser: Normaliser, ties: str, cutoff: int | None
) -> Floats:
    """Compute the average precision of every ranked list from its tie blocks.

    `relevant` (lists,) is the number of relevant items of each list, retrieved or not. `ties` must be the
    rule with which the blocks were computed. The other arguments are those of `average_precision`. Returns
    (lists,), NaN if the normaliser is 0.
    """
    check_choices(flavour, normaliser, cutoff)
    lists = len(relevant)
    if isinstance(normaliser, str) and normaliser == "retrieved":
        return _by_retrieved(blocks, lists, flavour=flavour, ties=ties, cutoff=cutoff)
    sums = precision_sums(blocks, ties, flavour=flavour, cutoff=cutoff)
    total = np.bincount(blocks.owner, weights=sums, minlength=lists)
    by = relevant if isinstance(normaliser, str) else np.broadcast_to(np.asarray(normaliser, float), lists)
    if not isinstance(normaliser, str):
        reachable = relevant if cutoff is None else np.minimum(relevant, cutoff)
        if (by < np.floor(reachable)).any():
            i = int(np.argmax(by < np.floor(reachable)))
            raise InputError(
                f"normaliser {by[i]:g} is below the number of relevant items of the list; pass at least "
                f"{reachable[i]:g}"
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by > 0, total / by, np.nan)


def check_choices(flavour: str, normaliser: Normaliser, cutoff: int | None) -> None:
    """Raise `InputError` for an unknown flavour, normaliser or cutoff."""
    if flavour not in ("trec", "trapezoid"):
        raise InputError(f"unknown flavour {flavour!r} of average precision; choose trec or trapezoid")
    if isinstance(normaliser, str) and normaliser not in ("all", "retrieved"):
        raise InputError(f"unknown normaliser {normaliser!r}; choose all, retrieved or a number")
    if cutoff is not None and cutoff < 1:
        raise InputError(f"the cutoff must be at least 1, found {cutoff}")


def _by_retrieved(blocks: TieBlocks, lists: int, *, flavour: str, ties: str, cutoff: int | None) -> Floats:
    """Return each list's average precision normalised by its number of relevant items before the cutoff.

    If the cutoff divides a tie, this number depends on the order of the tied items. The result is then the
    expected value over all orders, except under the tie rule `group`.
    """
    sums = precision_sums(blocks, ties, flavour=flavour, cutoff=cutoff)
    places = places_before_cutoff(blocks, cutoff)
    expected = blocks.relevant * places / blocks.items
    total = np.bincount(blocks.owner, weights=sums, minlength=lists)
    count = np.bincount(blocks.owner, weights=expected, minlength=lists)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(count > 0, total / count, np.nan)
    if ties == "group":
        return result
    fixed = np.isclose(blocks.pairs, blocks.relevant * (blocks.relevant - 1.0))
    if not (fixed & (np.rint(blocks.relevant) == blocks.relevant)).all():
        raise InputError(
            "normaliser 'retrieved': some relevance values are not 0 or 1; use the normaliser 'all'"
        )
    cut = (places > 0) & (places < blocks.items) & (blocks.relevant < blocks.items)
    for i in np.flatnonzero(cut):
        owner = blocks.owner[i]
        result[owner] = _mixture(blocks, int(i), places[i], total[owner] - sums[i], flavour)
    return result


def _mixture(blocks: TieBlocks, i: int, places: float, sum_before: float, flavour: str) -> float:
    """Return the expected average precision of a list if the cutoff divides its tie `i`.

    The number x of relevant tied items before the cutoff is hypergeometric. For each x, the ranks of the tie
    before the cutoff are scored as a shorter tie with x relevant items. The value is 0 if no relevant item is
    found, as in other tools that divide by the number of retrieved relevant items.
    """
    from scipy.stats import hypergeom

    m, r, c = int(blocks.items[i]), int(blocks.relevant[i]), int(places)
    x = np.arange(max(0, c - (m - r)), min(r, c) + 1)
    weight = hypergeom.pmf(x, m, r, c)
    ones = np.ones(len(x))
    parts = TieBlocks(
        np.zeros(len(x), np.int64),
        blocks.before[i] * ones,
        blocks.relevant_before[i] * ones,
        c * ones,
        x.astype(np.float64),
        (x * (x - 1)).astype(np.float64),
    )
    found = blocks.relevant_before[i] + x
    sums = sum_before + expected_precision_sums(parts, flavour=flavour)
    return float(np.sum(weight * np.where(found > 0, sums / np.maximum(found, 1), 0.0)))


def average_precision(
    distances: ArrayLike,
    relevant: ArrayLike,
    *,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    ties: str = "expected",
    cutoff: int | None = None,
) -> float:
    """Compute the average precision of one list ranked by ascending distance.

    With precision Q_k and recall R_k after k items, `trec` is sum (R_k - R_{k-1}) Q_k, the mean of the
    precision at the relevant items, and `trapezoid` is sum (R_k - R_{k-1}) (Q_{k-1} + Q_k) / 2 with Q_0 = 1.

    Args:
        distances: (n,), smaller is better. An item at infinite distance is never retrieved, but counts in the
            normaliser `all` if it is relevant. NaN is an error.
        relevant: (n,) booleans, or independent probabilities in [0, 1] of being relevant.
        flavour: `trec` or `trapezoid`.
        normaliser: the divisor. `all`: number of relevant items of the list. `retrieved`: number of relevant
            items at finite distance before the cutoff. A number: at least the number of relevant items that
            can be found.
        ties: order of equal distances. `expected`: mean over all orders, in closed form. `group`: a tie is
            one step of the curve (scikit-learn). `optimistic`: relevant items first. `pessimistic`: relevant
            items last. `file`: as given.
        cutoff: number of first ranks to use. None means all ranks.

    Returns:
        The average precision; NaN if the normaliser is zero (no relevant item).

    The tie rule `file` can favour a method. If positives are listed first, as in most benchmark files, a
    descriptor that maps everything to one point gets AP 1.

    >>> d, y = [.1, .2, .2, .4], [1, 0, 1, 1]
    >>> [round(average_precision(d, y, ties=t), 4) for t in ("optimistic", "expected", "pessimistic")]
    [0.9167, 0.8611, 0.8056]
    """
    d, v = check_list(distances, relevant)
    check_ties(ties)
    blocks = blocks_of_lists(d, v, None, ties=ties)
    total = np.array([v.sum()])
    value = normalise_precision(blocks, total, flavour, normaliser, ties, cutoff)
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
    """Compute the average precision of many concatenated lists in one vectorised call.

    Args:
        distances: (n,) distances of all lists, concatenated.
        relevant: (n,) relevance of each item, as in `average_precision`.
        owner: (n,) index of the list of each item, non-decreasing, in 0 … lists-1.
        lists: number of lists. A list without items gets NaN.
        flavour: as in `average_precision`.
        normaliser: as in `average_precision`, or one number per list.
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
        raise InputError(
            f"owner: expected {len(d)} list indices from 0 to {lists - 1} in ascending order; sort the "
            "items by list"
        )
    blocks = blocks_of_lists(d, v, o, ties=ties)
    total: NDArray[Any] = np.bincount(o, weights=v, minlength=lists)
    return normalise_precision(blocks, total, flavour, normaliser, ties, cutoff)
