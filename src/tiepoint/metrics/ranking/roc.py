# SPDX-License-Identifier: BSD-3-Clause
"""Area under the ROC curve, and the false positive rate at a given recall."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError
from .ties import Floats, check_list, check_ties


def class_counts(distances: Floats, relevant: Floats, *, ties: str) -> tuple[Floats, Floats]:
    """Return the numbers of positives and negatives in each step of the ROC curve.

    Infinite distances are excluded.

    Under `expected` and `group` a step is a tie. Under `optimistic` and `pessimistic` it is the positive or
    the negative part of a tie. Under `file` it is one item.

    >>> class_counts(np.array([1., 1, 2]), np.array([0., 1, 1]), ties="expected")
    (array([1., 1.]), array([1., 0.]))
    """
    finite = distances < np.inf
    d, v = distances[finite], relevant[finite]
    order = np.argsort(d, kind="stable")
    d, v = d[order], v[order]
    if ties == "file":
        return v, 1.0 - v
    first = np.flatnonzero(np.append(True, d[1:] != d[:-1])) if len(d) else np.zeros(0, np.int64)
    pos = np.add.reduceat(v, first) if len(d) else np.zeros(0)
    neg = np.diff(np.append(first, len(d))) - pos
    if ties in ("expected", "group"):
        return pos, neg
    zeros = np.zeros(len(pos))
    halves = [(pos, zeros), (zeros, neg)]
    if ties == "pessimistic":
        halves.reverse()
    return (
        np.stack([halves[0][0], halves[1][0]], 1).ravel(),
        np.stack([halves[0][1], halves[1][1]], 1).ravel(),
    )


def _steps(distances: ArrayLike, relevant: ArrayLike, ties: str) -> tuple[Floats, Floats, int, int]:
    """Check the input. Return its `class_counts` and the total numbers of positives and negatives."""
    d, v = check_list(distances, relevant)
    check_ties(ties)
    if ((v != 0) & (v != 1)).any():
        raise InputError("relevant: ROC metrics need labels of 0 or 1; found another value")
    positives = int(v.sum())
    return *class_counts(d, v, ties=ties), positives, len(v) - positives


def roc_auc(
    distances: ArrayLike, relevant: ArrayLike, *, ties: str = "expected", unretrieved: str = "extend"
) -> float:
    """Return the area under the ROC curve: the probability that a positive is nearer than a negative.

    Args:
        distances: (n,), smaller is more positive. NaN is an error.
        relevant: (n,) labels, 1 positive, 0 negative.
        ties: what a positive and a negative at equal distance count. `expected`: 1/2, as in the Mann-Whitney
            statistic. `group`: the same area. `optimistic`: 1. `pessimistic`: 0. `file`: 1 if the positive is
            first, else 0.
        unretrieved: treatment of infinite distances, which are never accepted. `extend` continues the curve
            horizontally: a negative at infinite distance is a correct rejection. `stop` ends the area at the
            last finite distance, as VLFeat does: a negative at infinite distance counts against the method.

    Returns:
        The area; NaN without positives or without negatives. With many more negatives than positives, an AUC
        near 1 can occur at a precision near 0.

    >>> roc_auc([1, 2, 2, 3], [1, 1, 0, 0]), roc_auc([1, 2, 2, 3], [1, 0, 1, 0], ties="file")
    (0.875, 0.75)
    """
    if unretrieved not in ("extend", "stop"):
        raise InputError(f"unknown rule {unretrieved!r} for infinite distances; choose extend or stop")
    pos, neg, positives, negatives = _steps(distances, relevant, ties)
    if not positives or not negatives:
        return float("nan")
    above = np.cumsum(pos)
    area = float(np.sum(neg * (above - pos / 2.0)))
    if unretrieved == "extend":
        area += float(pos.sum()) * (negatives - float(neg.sum()))
    return area / (positives * negatives)


def needed_positives(positives: int, recall: float) -> int:
    """Return the smallest number of true positives t with t / positives >= recall in floating point.

    >>> needed_positives(20, 0.95), needed_positives(100, 0.29)
    (19, 29)
    """
    t = max(int(recall * positives) - 1, 0)
    while t / positives < recall:
        t += 1
    return t


def fpr_at_recall(
    distances: ArrayLike, relevant: ArrayLike, *, recall: float = 0.95, ties: str = "expected"
) -> float:
    """Return the false positive rate at the first list position where the recall reaches `recall`.

    Args:
        distances: (n,), smaller is more positive. Infinite is never accepted, NaN is an error.
        relevant: (n,) labels, 1 positive, 0 negative.
        recall: in (0, 1].
        ties: how many negatives of a tie are false positives if the recall is reached inside the tie. Let the
            tie have r positives and s negatives, and let its j-th positive reach the recall. `expected`:
            s j / (r + 1). `optimistic`: none. `pessimistic` and `group`: all s. `file`: those before the
            positive.

    Returns:
        The rate. It is 1 if the positives at finite distance do not reach the recall, and NaN without
        positives or without negatives.

    >>> fpr_at_recall([1, 2, 3, 4], [1, 0, 1, 0], recall=1.0)
    0.5
    """
    if not 0 < recall <= 1:
        raise InputError(f"recall must be above 0 and at most 1, found {recall}")
    pos, neg, positives, negatives = _steps(distances, relevant, ties)
    if not positives or not negatives:
        return float("nan")
    needed = needed_positives(positives, recall)
    reached = np.cumsum(pos)
    step = int(np.searchsorted(reached, needed))
    if step == len(pos):
        return 1.0
    wrong = float(neg[:step].sum())
    if ties == "expected":
        wrong += float(neg[step]) * (needed - float(reached[step] - pos[step])) / (float(pos[step]) + 1.0)
    else:
        wrong += float(neg[step])
    return wrong / negatives
