# SPDX-License-Identifier: BSD-3-Clause
"""Mean matching accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def matching_accuracy(error_px: ArrayLike, thresholds_px: ArrayLike) -> NDArray[np.float64]:
    """Share of the matches of an image pair with a reprojection error of at most each threshold, (t,).

    A pair without matches scores 0, as is usual; averaging it away would reward silence. The mean over
    pairs is the MMA.

    Trap: it says nothing about how many matches there are; print their number beside it.

    >>> matching_accuracy([0.5, 2.0, 40.0, float("inf")], [1, 3])
    array([0.25, 0.5 ])
    """
    errors, limits = np.asarray(error_px, np.float64), np.asarray(thresholds_px, np.float64)
    if errors.size == 0:
        return np.zeros(limits.shape)
    return np.asarray((errors[:, None] <= limits[None]).mean(axis=0), np.float64)
