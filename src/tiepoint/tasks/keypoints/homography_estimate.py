# SPDX-License-Identifier: BSD-3-Clause
"""Homographies from matches by OpenCV's robust estimators, with a fixed seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.errors import InputError

ESTIMATORS = ("magsac", "ransac")
CONFIDENCE = 0.9999
_FEWEST = 4


def estimate_homography(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    estimator: str,
    threshold_px: float,
    max_iterations: int,
) -> tuple[NDArray[np.float64] | None, int]:
    """Homography from points (m, 2) of the first image to those of the second, and its number of inliers.

    None and 0 where fewer than four matches exist or the estimator gives up. The threshold is part of the
    protocol and the same for every method.
    """
    try:
        import cv2
    except ImportError as e:
        raise InputError("keypoints/geometry needs OpenCV: pip install 'tiepoint[opencv]'") from e
    if len(first) < _FEWEST:
        return None, 0
    flag = cv2.USAC_MAGSAC if estimator == "magsac" else cv2.RANSAC
    cv2.setRNGSeed(0)  # RANSAC and USAC start from here; without it a second call may differ
    matrix, inliers = cv2.findHomography(
        np.ascontiguousarray(first, np.float64).reshape(-1, 1, 2),
        np.ascontiguousarray(second, np.float64).reshape(-1, 1, 2),
        flag,
        threshold_px,
        maxIters=max_iterations,
        confidence=CONFIDENCE,
    )
    if matrix is None or not np.isfinite(matrix).all():
        return None, 0
    return np.asarray(matrix, np.float64), int(np.asarray(inliers).sum())
