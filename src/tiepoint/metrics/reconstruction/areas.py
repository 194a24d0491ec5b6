# SPDX-License-Identifier: BSD-3-Clause
"""Recall and area under the recall curve, as COLMAP's benchmark computes them."""

from __future__ import annotations

import numpy as np

from .scene import Floats


def auc_colmap(errors: Floats, threshold: float, min_error: float = 0.0) -> float:
    """Return the trapezoid area under the recall curve from 0 to a threshold, divided by the threshold.

    `errors` are sorted, NaN last. Errors of at most `min_error` count as 0. From the last error to the
    threshold the recall is constant.

    >>> auc_colmap(np.array([1.0, 1.0]), 1.0), auc_colmap(np.array([0.5, 2.0]), 1.0)
    (0.25, 0.375)
    """
    n = len(errors)
    first = int(np.searchsorted(errors, min_error, side="right"))
    last = max(first, int(np.searchsorted(errors, threshold, side="right")))
    x = np.concatenate([[0.0, min(min_error, threshold)], errors[first:last], [threshold]])
    y = np.concatenate([[first, first], np.arange(first + 1, last + 1), [last]]) / n
    return float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2 / threshold)


def recall(errors: Floats, threshold: float) -> float:
    """Return the share of errors that are at most a threshold. NaN is a miss."""
    with np.errstate(invalid="ignore"):
        return float(np.count_nonzero(errors <= threshold) / len(errors))
