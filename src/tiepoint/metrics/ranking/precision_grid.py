# SPDX-License-Identifier: BSD-3-Clause
"""Precision at fixed levels of recall, of many lists at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .blocks import Floats, blocks_of_lists, check_list, check_ties
from .expected_ties import expected_precision_sums, group_precision_sums


def precision_at_recall(
    distances: ArrayLike,
    relevant: ArrayLike,
    owner: NDArray[Any],
    lists: int,
    *,
    recall: ArrayLike,
    normaliser: ArrayLike,
    ties: str = "expected",
    flavour: str = "trec",
) -> Floats:
    """The step curve of precision over recall of every list, read at given recalls.

    The curve of a list is the one of `precision_recall_curve`, with recall counted over `normaliser` items:
    it is level between two right items and 0 beyond the last one found. Read at k evenly spaced
    recalls (i + 1/2)/k, the mean of the values tends to the list's average precision.

    Args:
        distances: (n,), lists laid end to end; infinite is never retrieved.
        relevant: (n,) in [0, 1].
        owner: (n,) non-decreasing list number.
        lists: how many lists there are.
        recall: (k,) in (0, 1).
        normaliser: (lists,) or one number, how many right items a list could have.
        ties: see `average_precision`.
        flavour: likewise.

    Returns:
        (lists, k); NaN rows where the normaliser is 0.

    >>> d, right, owner = [1, 2, 3, 1, 2], [1, 0, 1, 0, 1], np.array([0, 0, 0, 1, 1])
    >>> precision_at_recall(d, right, owner, 2, recall=[0.25, 0.75], normaliser=2)
    array([[1.        , 0.66666667],
           [0.5       , 0.        ]])
    """
    check_ties(ties)
    d, v = check_list(distances, relevant)
    at = np.asarray(recall, np.float64)
    by = np.broadcast_to(np.asarray(normaliser, np.float64), (lists,))
    blocks = blocks_of_lists(d, v, np.asarray(owner), ties=ties)
    rule = group_precision_sums if ties == "group" else expected_precision_sums
    height = rule(blocks, flavour=flavour) / blocks.relevant
    with np.errstate(divide="ignore", invalid="ignore"):
        end = (blocks.relevant_before + blocks.relevant) / by[blocks.owner]
    # Lists lie end to end on one axis, 2 apart, because no recall is above 1.
    place = np.searchsorted(2.0 * blocks.owner + end, (2.0 * np.arange(lists)[:, None] + at).ravel())
    found = np.append(height, 0.0)[place]
    mine = np.append(blocks.owner, lists)[place] == np.repeat(np.arange(lists), len(at))
    table = np.where(mine, found, 0.0).reshape(lists, len(at))
    return np.where(by[:, None] > 0, table, np.nan)
