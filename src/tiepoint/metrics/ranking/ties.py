# SPDX-License-Identifier: BSD-3-Clause
"""Tie blocks: a ranked list reduced to what average precision needs of it.

A block is a run of list places whose items may stand in any order: a group of equal distances under
`expected` and `group`, the relevant or the irrelevant part of such a group under `optimistic` and
`pessimistic`, a single item under `file`. Only blocks with something relevant matter, so a list of a
million items becomes a few arrays, and counts of nearer and equal items (see `counts`) give the same blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError

Ties = Literal["expected", "group", "optimistic", "pessimistic", "file"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TieBlocks:
    """Blocks of many lists, in order of list and place; all arrays have one entry per block.

    `owner`: which list. `before`: items of the list before the block. `relevant_before`: the relevant ones
    of these. `items`: items in the block. `relevant`: expected number of relevant ones among them (fractions
    where relevance itself is uncertain). `pairs`: sum of v_i v_j over ordered pairs of different items, which
    is r(r-1) when relevance is 0 or 1.
    """

    owner: NDArray[np.int64]
    before: Floats
    relevant_before: Floats
    items: Floats
    relevant: Floats
    pairs: Floats


def check_ties(ties: str) -> None:
    """Raise `InputError` for a tie rule that does not exist.

    >>> check_ties("expected")
    """
    if ties not in get_args(Ties):
        raise InputError(f"unknown tie rule {ties!r}; one of {', '.join(get_args(Ties))}")


def check_list(distances: Any, relevant: Any) -> tuple[Floats, Floats]:
    """Distances (n,) without NaN and relevance (n,) in [0, 1], as float64.

    >>> check_list([1, 2], [True, False])
    (array([1., 2.]), array([1., 0.]))
    """
    d = np.asarray(distances, dtype=np.float64)
    v = np.asarray(relevant, dtype=np.float64)
    if d.ndim != 1 or d.shape != v.shape:
        raise InputError(f"distances and relevance must have the same length, found {d.shape}, {v.shape}")
    bad = np.flatnonzero(np.isnan(d))
    if bad.size:
        raise InputError(f"distance {bad[0]} is NaN ({bad.size} in all); give failures an infinite distance")
    if v.size and not (v.min() >= 0 and v.max() <= 1):
        raise InputError("relevance must lie between 0 and 1")
    return d, v


def blocks_of_lists(
    distances: Floats, relevant: Floats, owner: NDArray[Any] | None, *, ties: str
) -> TieBlocks:
    """Blocks of one list (`owner` None) or of many lists laid end to end.

    Args:
        distances: (n,), smaller is better, file order within a list; infinite is never retrieved.
        relevant: (n,) in [0, 1].
        owner: (n,) non-decreasing list number of each item.
        ties: see `Ties`.

    >>> b = blocks_of_lists(np.array([1., 2, 2, 3]), np.array([0., 1, 0, 1]), None, ties="expected")
    >>> b.before, b.items, b.relevant
    (array([1., 3.]), array([2., 1.]), array([1., 1.]))
    """
    kept = distances < np.inf
    if not kept.all():
        distances, relevant = distances[kept], relevant[kept]
        owner = None if owner is None else owner[kept]
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


def _order(distances: Floats, relevant: Floats, owner: NDArray[Any] | None, ties: str) -> NDArray[np.intp]:
    """Stable order by list, distance and, where the rule says so, relevance."""
    keys: list[NDArray[Any]] = [distances]
    if ties in ("optimistic", "pessimistic"):
        keys.insert(0, -relevant if ties == "optimistic" else relevant)
    if owner is not None:
        keys.append(owner)
    if len(keys) == 1:
        return np.argsort(distances, kind="stable")
    return np.lexsort(keys)
