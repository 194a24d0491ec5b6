# SPDX-License-Identifier: BSD-3-Clause
"""What a sum of precisions is divided by: all relevant items, the retrieved ones, or a given number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .expected_ties import expected_precision_sums, group_precision_sums, places_before_cutoff
from .ties import Floats, TieBlocks

Normaliser = str | int | NDArray[Any]


def normalise_precision(
    blocks: TieBlocks,
    relevant: Floats,
    *,
    flavour: str,
    normaliser: Normaliser,
    ties: str,
    cutoff: int | None,
) -> Floats:
    """Average precision of every list, from its blocks.

    Args:
        blocks: tie blocks.
        relevant: (lists,) relevant items of each list, retrieved or not.
        flavour: `trec` or `trapezoid`.
        normaliser: `all`, `retrieved`, or a number (one, or one per list).
        ties: tie rule; the blocks must have been made for it.
        cutoff: count only the first so many places.

    Returns:
        (lists,) with NaN where the normaliser is zero.
    """
    check_choices(flavour, normaliser, cutoff)
    lists = len(relevant)
    if isinstance(normaliser, str) and normaliser == "retrieved":
        return _by_retrieved(blocks, lists, flavour=flavour, ties=ties, cutoff=cutoff)
    sums = _block_sums(blocks, flavour, ties, cutoff)
    total = np.bincount(blocks.owner, weights=sums, minlength=lists)
    by = relevant if isinstance(normaliser, str) else np.broadcast_to(np.asarray(normaliser, float), lists)
    if not isinstance(normaliser, str):
        reachable = relevant if cutoff is None else np.minimum(relevant, cutoff)
        if (by < np.floor(reachable)).any():
            i = int(np.argmax(by < np.floor(reachable)))
            raise InputError(f"the normaliser {by[i]:g} is smaller than the {reachable[i]:g} relevant items")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by > 0, total / by, np.nan)


def check_choices(flavour: str, normaliser: Normaliser, cutoff: int | None) -> None:
    """Raise `InputError` for a flavour, normaliser or cutoff that does not exist."""
    if flavour not in ("trec", "trapezoid"):
        raise InputError(f"unknown flavour {flavour!r} of average precision; trec or trapezoid")
    if isinstance(normaliser, str) and normaliser not in ("all", "retrieved"):
        raise InputError(f"unknown normaliser {normaliser!r}; all, retrieved or a number")
    if cutoff is not None and cutoff < 1:
        raise InputError(f"the cutoff must be at least 1, not {cutoff}")


def _block_sums(blocks: TieBlocks, flavour: str, ties: str, cutoff: int | None) -> Floats:
    rule = group_precision_sums if ties == "group" else expected_precision_sums
    return rule(blocks, flavour=flavour, cutoff=cutoff)


def _by_retrieved(blocks: TieBlocks, lists: int, *, flavour: str, ties: str, cutoff: int | None) -> Floats:
    """AP over the relevant items inside the cutoff, whose number is itself random when a tie is cut."""
    sums = _block_sums(blocks, flavour, ties, cutoff)
    places = places_before_cutoff(blocks, cutoff)
    found = blocks.relevant * places / blocks.items
    total = np.bincount(blocks.owner, weights=sums, minlength=lists)
    count = np.bincount(blocks.owner, weights=found, minlength=lists)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(count > 0, total / count, np.nan)
    if ties == "group":
        return result
    fixed = np.isclose(blocks.pairs, blocks.relevant * (blocks.relevant - 1.0))
    if not (fixed & (np.rint(blocks.relevant) == blocks.relevant)).all():
        raise InputError("the normaliser 'retrieved' needs relevance of 0 or 1; use 'all'")
    cut = (places > 0) & (places < blocks.items) & (blocks.relevant < blocks.items)
    for i in np.flatnonzero(cut):
        owner = blocks.owner[i]
        result[owner] = _mixture(blocks, int(i), places[i], total[owner] - sums[i], flavour)
    return result


def _mixture(blocks: TieBlocks, i: int, places: float, sum_before: float, flavour: str) -> float:
    """Expectation of sum/found when the cut tie brings x relevant items, x hypergeometric.

    Given x, the places inside the cutoff are a tie of their own with x relevant items. No item found at all
    counts as 0, as the tools that divide by the retrieved items do.
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
