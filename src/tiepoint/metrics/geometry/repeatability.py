# SPDX-License-Identifier: BSD-3-Clause
"""Repeatability and localisation error of detections, and the matching score of a whole pipeline."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def repeatability(corresponding: int, visible_first: int, visible_second: int) -> float:
    """One-to-one correspondences divided by the smaller number of points in the shared view.

    Args:
        corresponding: points of one image that are mutual nearest neighbours, within the tolerance, of
            points of the other (each used once).
        visible_first: points of the first image that the second one shows.
        visible_second: points of the second image that the first one shows.

    Returns:
        In [0, 1]; NaN where an image has no point in the shared view.

    Trap: more points raise any repeatability by chance (a point every 3 px repeats always), so compare
    detectors at equal numbers. Counting every point with a neighbour, instead of one to one, lets clusters
    repeat for free.

    >>> repeatability(30, 60, 40)
    0.75
    """
    smaller = min(visible_first, visible_second)
    return min(corresponding / smaller, 1.0) if smaller > 0 else float("nan")


def localisation_error(error_px: ArrayLike, tau_px: float) -> float:
    """Mean distance in pixels between corresponding points, over those within tau_px; NaN without any.

    Trap: it falls with tau_px by construction; always name the tolerance.

    >>> localisation_error([0.5, 1.5, 8.0], 3)
    1.0
    """
    errors = np.asarray(error_px, np.float64)
    errors = errors[errors <= tau_px]
    return float(errors.mean()) if errors.size else float("nan")


def matching_score(correct: int, visible_first: int, visible_second: int) -> float:
    """Correct matches divided by the smaller number of points in the shared view: detector and descriptor.

    NaN where an image has no point in the shared view.

    >>> matching_score(10, 60, 40)
    0.25
    """
    return repeatability(correct, visible_first, visible_second)
