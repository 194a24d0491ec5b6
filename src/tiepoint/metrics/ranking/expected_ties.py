# SPDX-License-Identifier: BSD-3-Clause
"""Expected precision over random orders of tied items, in closed form, also for truncated lists.

Take a tie of m items of which r are relevant, preceded by N items of which R are relevant. In a random order
place p of the tie holds a relevant item with probability r/m, and then (p-1)(r-1)/(m-1) relevant ones are
expected before it inside the tie. The expected precision collected at place p is therefore

    (r/m) (R + 1 + (p-1)(r-1)/(m-1)) / (N + p).

Summing over p = 1 … min(m, K-N) gives the contribution of the tie to a list cut after K places.
"""

from __future__ import annotations

import numpy as np

from .harmonic import harmonic_difference
from .ties import Floats, TieBlocks

_EXPAND = 64


def places_before_cutoff(blocks: TieBlocks, cutoff: int | None) -> Floats:
    """How many places of each block lie inside the first `cutoff` places."""
    if cutoff is None:
        return blocks.items
    return np.clip(cutoff - blocks.before, 0.0, blocks.items)


def expected_precision_sums(blocks: TieBlocks, *, flavour: str = "trec", cutoff: int | None = None) -> Floats:
    """Expected sum over the relevant items of each block of the precision at them.

    Args:
        blocks: tie blocks of any number of lists.
        flavour: `trec`, precision at the item; `trapezoid`, mean of the precision just before and at it,
            where the precision before the first item of a list is 1.
        cutoff: count only the first so many places of each list.

    Returns:
        float64, one value per block; divide the sum over a list by its normaliser to get its AP.

    Short blocks are summed place by place. Long ones use a + b/(N+p) = (R+1+s(p-1))/(N+p) with
    s = (r-1)/(m-1), so that a tie of a million costs no more than one of two.

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
    """Sum of (base + slope (p-1)) / (before + p) for p = 1 … places; a zero denominator is left out."""
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
    """The same with each tie taken as one step of the curve (all of it is retrieved at once).

    This is what scikit-learn does. A tie that the cutoff divides counts with the expected share of its items.

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
