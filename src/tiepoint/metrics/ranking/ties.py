# SPDX-License-Identifier: BSD-3-Clause
"""Tie blocks: the parts of a ranked list that determine its average precision.

A block is a range of ranks within which the order of the items is arbitrary. It depends on the tie rule:

- `expected`, `group`: all items at one distance;
- `optimistic`, `pessimistic`: the relevant or the irrelevant items at one distance;
- `file`: a single item.

Only blocks with relevant items are stored, so that a list of a million items needs little memory.
`from_counts` builds the same blocks from the numbers of nearer and equally near items, without the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError

Array = NDArray[Any]
Ties = Literal["expected", "group", "optimistic", "pessimistic", "file"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TieBlocks:
    """Tie blocks of many ranked lists, sorted by list and rank; all arrays have one entry per block.

    `owner`: index of the list. `before`: number of items before the block. `relevant_before`: number of
    relevant items before the block. `items`: number of items in the block. `relevant`: expected number of
    relevant items in the block (a fraction if relevance is uncertain). `pairs`: sum of the product of
    relevances over ordered pairs of different items. For r relevant items with relevance 1 it is r(r-1).
    """

    owner: NDArray[np.int64]
    before: Floats
    relevant_before: Floats
    items: Floats
    relevant: Floats
    pairs: Floats


def check_ties(ties: str) -> None:
    """Raise `InputError` for an unknown tie rule.

    >>> check_ties("expected")
    """
    if ties not in get_args(Ties):
        raise InputError(f"unknown tie rule {ties!r}; choose one of {', '.join(get_args(Ties))}")


def check_list(distances: Any, relevant: Any) -> tuple[Floats, Floats]:
    """Convert distances and relevance, (n,) each, to float64. Raise `InputError` for invalid values.

    >>> check_list([1, 2], [True, False])
    (array([1., 2.]), array([1., 0.]))
    """
    d = np.asarray(distances, dtype=np.float64)
    v = np.asarray(relevant, dtype=np.float64)
    if d.ndim != 1 or d.shape != v.shape:
        raise InputError(f"distances and relevance must have the same length, found {d.shape}, {v.shape}")
    bad = np.flatnonzero(np.isnan(d))
    if bad.size:
        raise InputError(f"distance {bad[0]} is NaN ({bad.size} NaN in all); pass infinity for failures")
    if v.size and not (v.min() >= 0 and v.max() <= 1):
        raise InputError("relevance must be between 0 and 1; pass labels or probabilities")
    return d, v


def blocks_of_lists(distances: Floats, relevant: Floats, owner: Array | None, *, ties: str) -> TieBlocks:
    """Return the tie blocks of one list (`owner` None) or of many concatenated lists.

    `distances` (n,) are in file order within a list; an item at infinite distance is never retrieved.
    `relevant` (n,) is in [0, 1]. `owner` (n,) is the index of each item's list, non-decreasing.

    >>> b = blocks_of_lists(np.array([1., 2, 2, 3]), np.array([0., 1, 0, 1]), None, ties="expected")
    >>> b.before, b.items, b.relevant
    (array([1., 3.]), array([2., 1.]), array([1., 1.]))
    """
    finite = distances < np.inf
    if not finite.all():
        distances, relevant = distances[finite], relevant[finite]
        owner = None if owner is None else owner[finite]
    order = _order(distances, relevant, owner, ties)
    d, v = distances[order], relevant[order]
    o = np.zeros(len(d), np.int64) if owner is None else np.asarray(owner, np.int64)[order]
    new_list = np.ones(len(d), bool)
    new_list[1:] = o[1:] != o[:-1]
    starts = new_list.copy()
    if ties == "file":
        starts[:] = True
    else:
        starts[1:] |= d[1:] != d[:-1]
        if ties in ("optimistic", "pessimistic"):
            starts[1:] |= v[1:] != v[:-1]
    first = np.flatnonzero(starts)
    if not len(first):
        empty = np.zeros(0)
        return TieBlocks(np.zeros(0, np.int64), empty, empty, empty, empty, empty)
    mass = np.add.reduceat(v, first)
    squares = np.add.reduceat(v * v, first)
    total = np.concatenate([[0.0], np.cumsum(v)])
    list_start = np.maximum.accumulate(np.where(new_list, np.arange(len(d)), 0))[first]
    hit = mass > 0
    return TieBlocks(
        owner=o[first][hit],
        before=(first - list_start)[hit].astype(np.float64),
        relevant_before=(total[first] - total[list_start])[hit],
        items=np.diff(np.append(first, len(d)))[hit].astype(np.float64),
        relevant=mass[hit],
        pairs=np.maximum(mass * mass - squares, 0.0)[hit],
    )


def _order(distances: Floats, relevant: Floats, owner: Array | None, ties: str) -> NDArray[np.intp]:
    """Return the indices that sort items by list, then distance, and relevance if the tie rule needs it."""
    keys: list[Array] = [distances]
    if ties in ("optimistic", "pessimistic"):
        keys.insert(0, -relevant if ties == "optimistic" else relevant)
    if owner is not None:
        keys.append(owner)
    if len(keys) == 1:
        return np.argsort(distances, kind="stable")
    return np.lexsort(keys)


_DIRECT = 32


def harmonic_difference(start: ArrayLike, count: ArrayLike) -> Floats:
    """Return the sum of 1/k for k = start+1 … start+count, i.e. H(start+count) - H(start).

    `start` and `count` are non-negative integers of any shape, broadcast against each other. The result is
    exact to a few units in the last place. Subtracting two harmonic numbers would lose digits: only nine
    remain for `start` = a million and `count` = 2. Instead, the first terms are added one by one. The other
    terms are computed with log1p and the series of the digamma function at half-integers,
    ln x + 1/(24 x^2) - 7/(960 x^4) + 31/(8064 x^6) - 127/(30720 x^8).

    >>> harmonic_difference([0, 2, 7], [3, 0, 1])
    array([1.83333333, 0.        , 0.125     ])
    """
    a, c = np.broadcast_arrays(np.asarray(start, np.float64), np.asarray(count, np.float64))
    total = np.zeros(a.shape)
    head = np.minimum(c, _DIRECT)
    for k in range(1, int(head.max(initial=0)) + 1):
        total += np.where(k <= head, 1.0 / (a + k), 0.0)
    rest = c - head
    if rest.any():
        total += np.where(rest > 0, _far_difference(a + head, rest), 0.0)
    return total


def _far_difference(a: Floats, c: Floats) -> Floats:
    """Return H(a+c) - H(a) for a >= 32, where H is the harmonic number.

    The series used is exact to double precision only for these a.
    """
    low, high = a + 0.5, a + c + 0.5
    return np.asarray(np.log1p(c / low) + (_tail(high) - _tail(low)))


def _tail(x: Floats) -> Any:
    y = 1.0 / (x * x)
    return y * (1 / 24 + y * (-7 / 960 + y * (31 / 8064 - y * (127 / 30720))))


_EXPAND = 64


def places_before_cutoff(blocks: TieBlocks, cutoff: int | None) -> Floats:
    """Return for each block how many of its ranks are among the first `cutoff` ranks of its list."""
    if cutoff is None:
        return blocks.items
    return np.clip(cutoff - blocks.before, 0.0, blocks.items)


def precision_sums(
    blocks: TieBlocks, ties: str, *, flavour: str = "trec", cutoff: int | None = None
) -> Floats:
    """Return for each block the sum of the precision at its relevant items, under a tie rule."""
    rule = group_precision_sums if ties == "group" else expected_precision_sums
    return rule(blocks, flavour=flavour, cutoff=cutoff)


def expected_precision_sums(blocks: TieBlocks, *, flavour: str = "trec", cutoff: int | None = None) -> Floats:
    """Return for each block the sum of the precision at its relevant items, expected over the orders of ties.

    Flavour `trec` uses the precision at the item. Flavour `trapezoid` uses the mean of the precision just
    before and at the item, where the precision before the first item of a list is 1. Only the first `cutoff`
    ranks of each list count. Divide the sum over a list by its normaliser to get its AP.

    Short blocks are summed rank by rank. Long blocks use a closed form with `harmonic_difference`, so that
    the time does not depend on the length of the tie.

    >>> one_tie = TieBlocks(*(np.array([x]) for x in (0, 0.0, 0.0, 2.0, 1.0, 0.0)))
    >>> expected_precision_sums(one_tie)     # relevant item first or second: (1 + 1/2) / 2
    array([0.75])
    """
    places = places_before_cutoff(blocks, cutoff)
    result = np.zeros(len(places))
    chance = blocks.relevant / blocks.items
    pair = blocks.pairs / (blocks.items * np.maximum(blocks.items - 1.0, 1.0))
    lag_choices = (0.0,) if flavour == "trec" else (0.0, 1.0)
    for lag in lag_choices:
        base = chance * (blocks.relevant_before + 1.0 - lag)
        result += _sum_places(base, pair, blocks.before - lag, places) / len(lag_choices)
        if lag:
            opens = (blocks.before == 0) & (places > 0)
            result += np.where(opens, chance, 0.0) / len(lag_choices)
    return result


def _sum_places(base: Floats, slope: Floats, before: Floats, places: Floats) -> Floats:
    """Return the sum of (base + slope (p-1)) / (before + p) over p = 1 … places. Skip zero denominators."""
    result = np.zeros(len(places))
    short = places <= _EXPAND
    single = places == 1
    with np.errstate(divide="ignore", invalid="ignore"):
        result[single] = np.where(before[single] == -1, 0.0, base[single] / (before[single] + 1.0))
    some = np.flatnonzero(short & (places > 1))
    if some.size:
        count = places[some].astype(np.int64)
        block = np.repeat(np.arange(len(some)), count)
        p = np.arange(len(block)) - np.repeat(np.cumsum(count) - count, count)
        i = some[block]
        below = before[i] + 1.0 + p
        terms = np.where(below == 0, 0.0, (base[i] + slope[i] * p) / np.where(below == 0, 1.0, below))
        result[some] = np.bincount(block, weights=terms, minlength=len(some))
    far = np.flatnonzero(~short)
    if far.size:
        a, s, n, c = base[far], slope[far], before[far], places[far]
        skipped = (n == -1).astype(np.float64)
        a, n, c = a + s * skipped, n + skipped, c - skipped
        result[far] = s * c + (a - s * (n + 1.0)) * harmonic_difference(n, c)
    return result


def group_precision_sums(blocks: TieBlocks, *, flavour: str = "trec", cutoff: int | None = None) -> Floats:
    """Return `expected_precision_sums`, but with each tie as one step of the curve, as in scikit-learn.

    If the cutoff divides a tie, only the expected share of its items counts.

    >>> one_tie = TieBlocks(*(np.array([x]) for x in (0, 0.0, 0.0, 2.0, 1.0, 0.0)))
    >>> group_precision_sums(one_tie)
    array([0.5])
    """
    places = places_before_cutoff(blocks, cutoff)
    inside = blocks.relevant * places / blocks.items
    with np.errstate(divide="ignore", invalid="ignore"):
        at_end = np.where(places > 0, (blocks.relevant_before + inside) / (blocks.before + places), 0.0)
        if flavour == "trec":
            return inside * at_end
        at_start = np.where(blocks.before > 0, blocks.relevant_before / blocks.before, 1.0)
    return inside * (at_start + at_end) / 2.0
