# SPDX-License-Identifier: BSD-3-Clause
"""Precision-recall and ROC curves. The number of points can be reduced without changing the area."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .roc import class_counts
from .ties import Floats, blocks_of_lists, check_list, check_ties, precision_sums


@dataclass(frozen=True)
class RankingCurve:
    """Points (x, y) of a precision-recall or ROC curve, and how to join them.

    `line`: straight lines join the points. `step`: from x[i] to x[i+1] the curve is constant at y[i+1]. For a
    step curve y[0] repeats y[1], so that plots show the first step.
    """

    x: Floats
    y: Floats
    kind: str

    @property
    def area(self) -> float:
        """Area under the curve.

        >>> RankingCurve(np.array([0., 1.]), np.array([0., 1.]), "line").area
        0.5
        """
        width = np.diff(self.x)
        if self.kind == "step":
            return float(np.sum(width * self.y[1:]))
        return float(np.sum(width * (self.y[1:] + self.y[:-1])) / 2.0)


def precision_recall_curve(
    distances: ArrayLike,
    relevant: ArrayLike,
    *,
    flavour: str = "trec",
    ties: str = "expected",
    max_points: int = 1000,
) -> RankingCurve:
    """Return precision against recall as a step curve; its area is the average precision.

    Each of the P relevant items adds a step of width 1/P, as high as the precision at the item. A tie adds
    one step with the mean height of its relevant items. If there are more than `max_points` points,
    neighbouring steps are replaced by one step of their mean height, which preserves the area up to rounding.
    Items at infinite distance are not part of the curve.

    >>> c = precision_recall_curve([1, 2, 3, 4], [1, 0, 1, 0])
    >>> c.x, c.y, round(c.area, 6)
    (array([0. , 0.5, 1. ]), array([1.        , 1.        , 0.66666667]), 0.833333)
    """
    _check_points(max_points)
    d, v = check_list(distances, relevant)
    check_ties(ties)
    if not v.any():
        return RankingCurve(np.zeros(1), np.full(1, np.nan), "step")
    blocks = blocks_of_lists(d, v, None, ties=ties)
    width = blocks.relevant / v.sum()
    area = precision_sums(blocks, ties, flavour=flavour) / v.sum()
    if len(width) > max_points - 1:
        share = (np.cumsum(width) - width / 2.0) / width.sum()
        bins = np.minimum((share * (max_points - 1)).astype(np.int64), max_points - 2)
        width = np.bincount(bins, weights=width)
        area = np.bincount(bins, weights=area)
        width, area = width[width > 0], area[width > 0]
    x = np.concatenate([[0.0], np.cumsum(width)])
    y = area / width
    return RankingCurve(x, np.concatenate([y[:1], y]) if len(y) else np.full(1, np.nan), "step")


def roc_curve(
    distances: ArrayLike, relevant: ArrayLike, *, ties: str = "expected", max_points: int = 1000
) -> RankingCurve:
    """Return the true positive rate against the false positive rate, in straight lines; area: `roc_auc`.

    Points on a straight line are dropped. If more than `max_points` remain, the curve is divided into
    segments, and each segment is replaced by two lines with the same area below them. The curve stays
    monotone. Items at infinite distance are never accepted: the curve ends with a horizontal line to x = 1.

    >>> c = roc_curve([1, 2, 3, 4], [1, 0, 1, 0])
    >>> c.x, c.y, c.area
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]), 0.75)
    """
    _check_points(max_points)
    d, v = check_list(distances, relevant)
    check_ties(ties)
    positives = float(v.sum())
    negatives = len(v) - positives
    if not positives or not negatives:
        return RankingCurve(np.zeros(1), np.full(1, np.nan), "line")
    pos, neg = class_counts(d, v, ties=ties)
    x = np.concatenate([[0.0], np.cumsum(neg), [negatives]]) / negatives
    y = np.concatenate([[0.0], np.cumsum(pos), [pos.sum()]]) / positives
    steps_x = np.concatenate([[0.0], neg, [negatives - neg.sum()]])
    corner = _corners(steps_x, np.concatenate([[0.0], pos, [0.0]]))
    return RankingCurve(*_thin(x[corner], y[corner], max_points), "line")


def _corners(dx: Floats, dy: Floats) -> NDArray[np.int64]:
    """Return the indices of points where the curve changes direction. `dx` and `dy` are its integer steps."""
    moved = np.flatnonzero((dx != 0) | (dy != 0))
    sx, sy = dx[moved], dy[moved]
    turn = sx[:-1] * sy[1:] != sx[1:] * sy[:-1]
    return np.concatenate([[0], moved[:-1][turn], moved[-1:]]).astype(np.int64)


def _thin(x: Floats, y: Floats, max_points: int) -> tuple[Floats, Floats]:
    if len(x) <= max_points:
        return x, y
    retained = np.unique(np.linspace(0, len(x) - 1, (max_points + 1) // 2).round().astype(np.int64))
    pieces = np.diff(x) * (y[1:] + y[:-1]) / 2.0
    area = np.add.reduceat(pieces, retained[:-1])
    x0, x1, y0, y1 = x[retained[:-1]], x[retained[1:]], y[retained[:-1]], y[retained[1:]]
    dx, dy = x1 - x0, y1 - y0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where((dx > 0) & (dy > 0), (y1 - area / dx) / dy, 0.5)
    t = np.clip(t, 0.0, 1.0)
    xs = np.stack([x0, x0 + t * dx], 1).ravel()
    ys = np.stack([y0, y1 - t * dy], 1).ravel()
    return np.append(xs, x1[-1]), np.append(ys, y1[-1])


def _check_points(max_points: int) -> None:
    if max_points < 3:
        raise InputError(f"max_points: a curve needs at least 3 points, found {max_points}; pass 3 or more")


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
    """Return the precision (lists, k) of the precision-recall step curve of every list at given recalls.

    The curve of a list is computed as in `precision_recall_curve`, with recall relative to `normaliser`
    items. It is constant between two relevant items and 0 beyond the last relevant item found. At k evenly
    spaced recalls (i + 1/2)/k the mean of the values tends to the list's average precision.

    Args:
        distances: (n,), concatenated lists. An item at infinite distance is never retrieved.
        relevant: (n,) relevance of each item in [0, 1].
        owner: (n,) index of the list of each item, non-decreasing.
        lists: number of lists.
        recall: (k,) in (0, 1).
        normaliser: (lists,) or one number: how many relevant items each list could have.
        ties: as in `average_precision`.
        flavour: as in `average_precision`.

    Returns:
        (lists, k); NaN rows if the normaliser is 0.

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
    height = precision_sums(blocks, ties, flavour=flavour) / blocks.relevant
    with np.errstate(divide="ignore", invalid="ignore"):
        end = (blocks.relevant_before + blocks.relevant) / by[blocks.owner]
    table = StepCurves(blocks.owner, end, height).at(at, lists)
    return np.where(by[:, None] > 0, table, np.nan)


@dataclass(frozen=True)
class StepCurves:
    """Precision-recall step curves of many ranked lists, with one entry per step.

    `owner` is the list of a step, `height` its precision, and `end` the recall at which it ends.
    """

    owner: NDArray[np.int64]
    end: Floats
    height: Floats

    def at(self, recall: Floats, lists: int) -> Floats:
        """Return the heights (lists, k) of the curves at recalls (k,) in (0, 1]; 0 beyond the last step."""
        # All lists share one axis. Offsets of 2 keep them apart, because no recall exceeds 1.
        axis = (2.0 * np.arange(lists)[:, None] + recall).ravel()
        place = np.searchsorted(2.0 * self.owner + self.end, axis)
        height = np.append(self.height, 0.0)[place]
        own = np.append(self.owner, lists)[place] == np.repeat(np.arange(lists), len(recall))
        return np.where(own, height, 0.0).reshape(lists, len(recall))

    def of(self, number: int) -> RankingCurve:
        """Return the curve of list `number`. It has no points if no relevant item was found."""
        lo, hi = np.searchsorted(self.owner, [number, number + 1])
        return _from_zero(self.end[lo:hi], self.height[lo:hi])

    def mean(self, lists: int) -> RankingCurve:
        """Return the mean curve of `lists` lists. A curve counts as 0 beyond its end.

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
    """Return a step curve with a first point added at x = 0."""
    return RankingCurve(np.append(np.zeros(min(len(x), 1)), x), np.append(y[:1], y), "step")
