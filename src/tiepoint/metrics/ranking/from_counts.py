# SPDX-License-Identifier: BSD-3-Clause
"""AP, AUC and FPR at 95 % recall from counts of nearer and equally near items, without distances.

For every relevant item, `lt` counts the irrelevant items of its list that are nearer, and `eq` those that are
equally near. `eq_before` counts the equally near irrelevant items that precede it in file order. Distances
are not required, because the counts determine the order of the relevant items of a list. Two relevant items
are tied if their `lt` and `eq` are equal and `eq` > 0. With `eq` = 0 their order changes no metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .average_precision import Normaliser, normalise_precision
from .roc import needed_positives
from .ties import Floats, TieBlocks, check_ties

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SortedTargets:
    """Retrieved relevant items sorted by list and rank, with `lt` and `eq` adjusted to the tie rule."""

    lt: Ints
    eq: Ints
    owner: Ints
    relevant: Floats


def sort_targets(
    lt: ArrayLike, eq: ArrayLike, owner: Any, lists: int, eq_before: Any, retrieved: Any, ties: str
) -> SortedTargets:
    """Check the counts, apply the tie rule and sort the retrieved items."""
    check_ties(ties)
    low, same = np.asarray(lt, np.int64), np.asarray(eq, np.int64)
    o = np.zeros(low.shape, np.int64) if owner is None else np.asarray(owner, np.int64)
    if not (low.ndim == 1 and low.shape == same.shape == o.shape):
        found = f"{low.shape}, {same.shape}, {o.shape}"
        raise InputError(f"lt, eq and owner must have the same length, found {found}")
    one = owner is None and lists == 1
    total = np.array([float(len(low))]) if one else np.bincount(o, minlength=lists).astype(np.float64)
    if ties == "file":
        if eq_before is None:
            raise InputError(
                "eq_before: missing, but the tie rule 'file' needs the number of equal items before each "
                "target; pass it"
            )
        low, same = low + np.asarray(eq_before, np.int64), np.zeros_like(same)
    elif ties == "optimistic":
        same = np.zeros_like(same)
    elif ties == "pessimistic":
        low, same = low + same, np.zeros_like(same)
    if retrieved is not None:
        keep = np.asarray(retrieved, bool)
        if not keep.all():
            low, same, o = low[keep], same[keep], o[keep]
    later = (low[1:] > low[:-1]) | ((low[1:] == low[:-1]) & (same[1:] >= same[:-1]))
    if not one:
        later = (o[1:] > o[:-1]) | ((o[1:] == o[:-1]) & later)
    if later.all():  # already sorted
        return SortedTargets(low, same, o, total)
    order = np.lexsort((same, low, o))
    return SortedTargets(low[order], same[order], o[order], total)


def blocks_from_counts(t: SortedTargets, *, ties: str = "expected") -> TieBlocks:
    """Return the tie blocks of counted items. Relevant items with the same `lt` and `eq` share a block.

    Under the tie rule `group`, relevant items that are not tied with an irrelevant item form separate blocks.
    """
    n = len(t.lt)
    if not n:
        empty = np.zeros(0)
        return TieBlocks(np.zeros(0, np.int64), empty, empty, empty, empty, empty)
    new = np.ones(n, bool)
    new[1:] = (t.owner[1:] != t.owner[:-1]) | (t.lt[1:] != t.lt[:-1]) | (t.eq[1:] != t.eq[:-1])
    if ties == "group":
        new |= t.eq == 0
    first = np.flatnonzero(new)
    r = np.diff(np.append(first, n)).astype(np.float64)
    new_list = np.ones(n, bool)
    new_list[1:] = t.owner[1:] != t.owner[:-1]
    list_start = np.maximum.accumulate(np.where(new_list, np.arange(n), 0))[first]
    before = (first - list_start).astype(np.float64)
    return TieBlocks(t.owner[first], t.lt[first] + before, before, r + t.eq[first], r, r * (r - 1.0))


def average_precision_from_counts(
    lt: ArrayLike,
    eq: ArrayLike,
    *,
    owner: ArrayLike | None = None,
    lists: int = 1,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    ties: str = "expected",
    cutoff: int | None = None,
) -> Floats:
    """Compute the average precision of many lists from the counts of their relevant items.

    Args:
        lt: (t,) for each relevant item, the number of nearer irrelevant items.
        eq: (t,) for each relevant item, the number of equally near irrelevant items.
        owner: (t,) list of each relevant item, in 0 … lists-1; None for one list.
        lists: number of lists.
        eq_before: (t,) equally near irrelevant items that precede the relevant item in the file; required for
            ties `file`.
        retrieved: (t,) False for relevant items at infinite distance. They still count in the normaliser
            `all`.
        flavour: as in `average_precision`.
        normaliser: as in `average_precision`, or one number per list.
        ties: as in `average_precision`. Counts do not show ties among relevant items alone. Under `group`,
            such items count as distinct.
        cutoff: as in `average_precision`.

    Returns:
        float64 (lists,), NaN for a list without relevant items.

    >>> average_precision_from_counts([0, 1, 1], [0, 1, 1]).round(6)   # hit, miss, tie of two hits and a miss
    array([0.753704])
    """
    t = sort_targets(lt, eq, owner, lists, eq_before, retrieved, ties)
    blocks = blocks_from_counts(t, ties=ties)
    return normalise_precision(blocks, t.relevant, flavour, normaliser, ties, cutoff)


def roc_auc_from_counts(
    lt: ArrayLike,
    eq: ArrayLike,
    negatives: ArrayLike,
    *,
    owner: ArrayLike | None = None,
    lists: int = 1,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> Floats:
    """Compute the area under the ROC curve of many lists: 1 - mean(lt + eq/2) / negatives.

    `negatives` is the number of irrelevant items, as one number or (lists,). A relevant item that is never
    retrieved counts 0. An irrelevant item that is never retrieved is a correct rejection.

    >>> roc_auc_from_counts([0, 0], [0, 1], 2)
    array([0.875])
    """
    t = sort_targets(lt, eq, owner, lists, eq_before, retrieved, ties)
    n = np.broadcast_to(np.asarray(negatives, np.float64), lists)
    area: Floats
    if lists == 1:  # The sum of integers and halves is exact in any order.
        area = n * len(t.lt) - float(t.lt.sum()) - float(t.eq.sum()) / 2.0
    else:
        won = n[t.owner] - t.lt - t.eq / 2.0
        area = np.bincount(t.owner, weights=won, minlength=lists).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((t.relevant > 0) & (n > 0), area / (t.relevant * n), np.nan)


def fpr_at_recall_from_counts(
    lt: ArrayLike,
    eq: ArrayLike,
    negatives: int,
    *,
    recall: float = 0.95,
    eq_before: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    ties: str = "expected",
) -> float:
    """Return the false positive rate of one list at a given recall, from counts; see `fpr_at_recall`.

    >>> fpr_at_recall_from_counts([0, 1], [0, 0], 2, recall=1.0)
    0.5
    """
    rule = "pessimistic" if ties == "group" else ties
    t = sort_targets(lt, eq, None, 1, eq_before, retrieved, rule)
    if not t.relevant[0] or not negatives:
        return float("nan")
    needed = needed_positives(int(t.relevant[0]), recall)
    if needed > len(t.lt):
        return 1.0
    at = max(needed - 1, 0)
    nearer, equal = int(t.lt[at]), int(t.eq[at])
    if not equal:
        return nearer / negatives
    # The tie of the positive that reaches the recall has `size` positives, and `first` positives precede it.
    place = np.searchsorted(t.lt, [nearer, nearer + 1])
    inside = np.searchsorted(t.eq[place[0] : place[1]], [equal, equal + 1])
    first, size = int(place[0] + inside[0]), int(inside[1] - inside[0])
    return (nearer + equal * (needed - first) / (size + 1.0)) / negatives
