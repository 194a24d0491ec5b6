# SPDX-License-Identifier: BSD-3-Clause
"""Poses from OpenCV's essential matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .epipolar import normalise_points
from .estimator import Estimate, Estimator, Floats, none, pose, recover
from .libraries import import_library


def opencv_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    """`findEssentialMat` with a flag, then the best of its poses. It has no seed."""
    cv2 = import_library("cv2")
    u0, u1 = (normalise_points(x, K, est.dtype, skew=est.skew) for x, K in ((x0, K0), (x1, K1)))
    E, mask = cv2.findEssentialMat(
        u0,
        u1,
        np.eye(3),
        method=getattr(cv2, est.method),
        prob=est.confidence,
        threshold=est.threshold_px / focal_px(est, K0, K1),
        maxIters=est.max_iterations,
    )
    return _best_of(est, E, u0, u1, mask)


def usac_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    """MAGSAC scores, uniform samples, local optimisation with 10 samples of 50, one thread, a seed."""
    cv2 = import_library("cv2")
    u0, u1 = (normalise_points(x, K, est.dtype, skew=est.skew) for x, K in ((x0, K0), (x1, K1)))
    params = cv2.UsacParams()
    params.threshold = est.threshold_px / focal_px(est, K0, K1)
    params.confidence, params.maxIterations = est.confidence, est.max_iterations
    params.score, params.sampler = cv2.SCORE_METHOD_MAGSAC, cv2.SAMPLING_UNIFORM
    params.loMethod, params.loIterations, params.loSampleSize = cv2.LOCAL_OPTIM_SIGMA, 10, 50
    params.isParallel, params.randomGeneratorState = False, seed
    E, mask = cv2.findEssentialMat(u0, u1, np.eye(3), np.eye(3), None, None, params)
    return _best_of(est, E, u0, u1, mask)


def focal_px(est: Estimator, K0: Floats, K1: Floats) -> float:
    """The focal length by which a threshold in pixels is divided, in the precision of the estimator."""
    a, b = K0.astype(est.dtype), K1.astype(est.dtype)
    if est.focal == "slip":
        return float(np.mean(np.array([a[0, 0], b[1, 1], a[0, 0], b[1, 1]])))
    return float(np.mean(np.array([a[0, 0], a[1, 1], b[0, 0], b[1, 1]])))


def _best_of(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any) -> Estimate:
    """The pose with most votes among the blocks of E; the first of equals. Five matches give several blocks.

    Every call overwrites the mask, so that later blocks are judged by fewer matches, as all scripts do it.
    """
    if E is None:
        return none("no essential matrix was found")
    best: Estimate | None = None
    for block in np.split(E, len(E) // 3):
        votes, R, t, mask, _ = recover(est, block, u0, u1, mask)
        if votes > (best.inliers if best else 0):
            best = pose(R, t, votes)
    return best or none("no match lies in front of both cameras")
