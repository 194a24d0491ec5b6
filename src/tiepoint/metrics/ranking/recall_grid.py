# SPDX-License-Identifier: BSD-3-Clause
"""Step curves of many lists, and precision read from them at a grid of recalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .curves import RankingCurve
from .expected_ties import expected_precision_sums, group_precision_sums
from .ties import Floats, blocks_of_lists, check_list, check_ties


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
    table = StepCurves(blocks.owner, end, height).at(at, lists)
    return np.where(by[:, None] > 0, table, np.nan)


@dataclass(frozen=True)
class StepCurves:
    """Step curves of many lists: `height` up to recall `end`, in order of list (`owner`) and place."""

    owner: NDArray[np.int64]
    end: Floats
    height: Floats

    def at(self, recall: Floats, lists: int) -> Floats:
        """The curves read at recalls (k,) in (0, 1], (lists, k); 0 beyond the last step."""
        # Lists lie end to end on one axis, 2 apart, because no recall is above 1.
        place = np.searchsorted(
            2.0 * self.owner + self.end, (2.0 * np.arange(lists)[:, None] + recall).ravel()
        )
        found = np.append(self.height, 0.0)[place]
        mine = np.append(self.owner, lists)[place] == np.repeat(np.arange(lists), len(recall))
        return np.where(mine, found, 0.0).reshape(lists, len(recall))

    def of(self, number: int) -> RankingCurve:
        """The curve of one list; without points where nothing was found."""
        lo, hi = np.searchsorted(self.owner, [number, number + 1])
        return _from_zero(self.end[lo:hi], self.height[lo:hi])

    def mean(self, lists: int) -> RankingCurve:
        """The mean of the curves over `lists` lists, 0 where one has ended; its area is their mean area.

        >>> steps = StepCurves(np.array([0, 0, 1]), np.array([0.5, 1.0, 0.5]), np.array([1.0, 0.6, 0.4]))
        >>> steps.mean(2).x, steps.mean(2).y.round(6)
        (array([0. , 0.5, 1. ]), array([0.7, 0.7, 0.3]))
        """
        points = np.unique(self.end)
        first = np.append(True, self.owner[1:] != self.owner[:-1])[: len(self.end)]
        begin = np.where(first, 0.0, np.roll(self.end, 1))
        change = np.zeros(len(points) + 1)
        np.add.at(change, np.searchsorted(points, begin, side="right"), self.height)
        np.add.at(change, np.searchsorted(points, self.end) + 1, -self.height)
        return _from_zero(points, np.maximum(np.cumsum(change)[:-1], 0.0) / max(lists, 1))


def _from_zero(x: Floats, y: Floats) -> RankingCurve:
    """A step curve that begins at 0."""
    return RankingCurve(np.append(np.zeros(min(len(x), 1)), x), np.append(y[:1], y), "step")
