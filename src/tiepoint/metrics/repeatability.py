# SPDX-License-Identifier: BSD-3-Clause
"""Repeatability of detectors, and matching score and matching accuracy of matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def repeatability(corresponding: int, visible_first: int, visible_second: int) -> float:
    """Return the repeatability: correspondences divided by the smaller number of points in the shared view.

    `corresponding` is the number of mutual nearest neighbours by position, within the tolerance.
    `visible_first` is the number of points of the first image that are visible in the second image;
    `visible_second` is the reverse. The result is in [0, 1], or NaN if an image has no point in the shared
    view.

    More points increase repeatability by chance, so compare detectors at equal numbers of points. One-to-one
    counting avoids a bias towards clustered points.

    >>> repeatability(30, 60, 40)
    0.75
    """
    smaller = min(visible_first, visible_second)
    return min(corresponding / smaller, 1.0) if smaller > 0 else float("nan")


def matching_score(correct: int, visible_first: int, visible_second: int) -> float:
    """Return the matching score: correct matches divided by the smaller number of points in the shared view.

    NaN if an image has no point in the shared view.

    >>> matching_score(10, 60, 40)
    0.25
    """
    return repeatability(correct, visible_first, visible_second)


def matching_accuracy(error_px: ArrayLike, thresholds_px: ArrayLike) -> NDArray[np.float64]:
    """Return the share of matches with a reprojection error of at most each threshold, (t,).

    A pair without matches scores 0, so that missing matches are not rewarded. The mean over pairs is the
    MMA. It does not depend on the number of matches, so report that number as well.

    >>> matching_accuracy([0.5, 2.0, 40.0, float("inf")], [1, 3])
    array([0.25, 0.5 ])
    """
    errors, limits = np.asarray(error_px, np.float64), np.asarray(thresholds_px, np.float64)
    if errors.size == 0:
        return np.zeros(limits.shape)
    return np.asarray((errors[:, None] <= limits[None]).mean(axis=0), np.float64)
