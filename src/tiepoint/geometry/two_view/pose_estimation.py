# SPDX-License-Identifier: BSD-3-Clause
"""Relative pose estimation from matches, with the estimators of all protocols.

Matches, intrinsics and `threshold_px` must refer to the same (resized) images; see `scaling.in_frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .epipolar import intrinsics, normalise_points
from .estimator import (
    LIBRARIES,
    SEEDED,
    Estimate,
    Estimator,
    Floats,
    as_matches,
    camera,
    estimator_library_versions,
    import_library,
    none,
    pose,
    ransac_options,
    recover,
    round_arrays,
)


def opencv_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    """Run OpenCV's `findEssentialMat` and return the best of its poses. `seed` has no effect."""
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
    """Run OpenCV's MAGSAC in one thread with uniform sampling, local optimisation and a seed."""
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
    """Return the focal length that divides thresholds in pixels, in the precision of the estimator."""
    a, b = K0.astype(est.dtype), K1.astype(est.dtype)
    if est.focal == "slip":
        return float(np.mean(np.array([a[0, 0], b[1, 1], a[0, 0], b[1, 1]])))
    if est.focal == "blocks":
        return float(np.mean(np.abs(a[:2, :2])) + np.mean(np.abs(b[:2, :2])))
    return float(np.mean(np.array([a[0, 0], a[1, 1], b[0, 0], b[1, 1]])))


def _best_of(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any) -> Estimate:
    """Return the pose with the most votes among all solutions for E; the first of equal poses.

    E contains several stacked (3, 3) solutions if it comes from five matches. Every call overwrites the
    inlier mask, so fewer matches vote for later solutions. Published scripts do the same.
    """
    if E is None:
        return none("no essential matrix was found")
    best: Estimate | None = None
    for block in np.split(E, len(E) // 3):
        votes, R, t, mask, _ = recover(est, block, u0, u1, mask)
        if votes > (best.inliers if best else 0):
            best = pose(R, t, votes)
    return best or none("no match lies in front of both cameras")


MIN_MATCHES_FUNDAMENTAL = 8


@dataclass(frozen=True)
class FundamentalEstimate:
    """Fundamental matrix F with x1^T F x0 = 0, and the mask of its inliers. F is NaN if `ok` is false."""

    F: Floats
    inlier_mask: NDArray[np.bool_]
    ok: bool
    reason: str = ""

    @property
    def inliers(self) -> int:
        """Number of matches that are inliers of F."""
        return int(self.inlier_mask.sum())


def estimate_fundamental(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, seed: int | None = None
) -> FundamentalEstimate:
    """Estimate F from matches (n, 2), (n, 2) in pixels, by `opencv-f`, `poselib-f` or `degensac-f`.

    At least 8 matches are required. Only `poselib-f` accepts a seed, 0 by default.
    """
    if est.kind not in _FUNDAMENTAL_KINDS:
        kinds = ", ".join(_FUNDAMENTAL_KINDS)
        raise InputError(f"`kind` of an estimator for F: unknown value {est.kind!r}; choose one of {kinds}")
    if seed is not None and est.kind not in SEEDED:
        raise InputError(f"estimator {est.kind} takes no seed; permute the matches instead")
    a, b = as_matches(x0, x1)
    if len(a) < MIN_MATCHES_FUNDAMENTAL:
        return _nothing(len(a), f"{len(a)} matches, {MIN_MATCHES_FUNDAMENTAL} are needed")
    F, mask = _FUNDAMENTAL_KINDS[est.kind](est, a, b, seed or 0)
    inliers = np.zeros(len(a), bool) if mask is None else np.asarray(mask, bool).ravel()
    if F is None or np.shape(F) != (3, 3) or not np.isfinite(F).all() or not np.any(F):
        return _nothing(len(a), "no fundamental matrix was found")
    return FundamentalEstimate(np.array(F, np.float64), inliers, True)


def pose_by_fundamental(
    est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int
) -> Estimate:
    """Return the pose of E = K1^T F K0 with the most matches in front of both cameras.

    For PoseLib all matches vote, and the result is R = I, t = 0 if F could not be estimated. For other
    libraries only the inliers of F vote, and at least 8 are required. The returned `inliers` is the number of
    inliers of F.
    """
    model = estimate_fundamental(est, x0, x1, seed if est.kind in SEEDED else None)
    all_matches = est.kind == "poselib-f"
    if not model.ok and all_matches:
        return Estimate(np.eye(3), np.zeros(3), 0, False, model.reason)
    if not model.ok or (model.inliers < MIN_MATCHES_FUNDAMENTAL and not all_matches):
        return none(model.reason or f"{model.inliers} inliers of F, {MIN_MATCHES_FUNDAMENTAL} are needed")
    rows = np.ones(len(x0), bool) if all_matches else model.inlier_mask
    u0, u1 = (normalise_points(x[rows], K, est.dtype) for x, K in ((x0, K0), (x1, K1)))
    _, R, t, _, _ = recover(est, K1.T @ model.F @ K0, u0, u1)
    return pose(R, t, model.inliers)


def _nothing(n: int, reason: str) -> FundamentalEstimate:
    return FundamentalEstimate(np.full((3, 3), np.nan), np.zeros(n, bool), False, reason)


def _opencv(est: Estimator, x0: Floats, x1: Floats, seed: int) -> tuple[Any, Any]:
    cv2 = import_library("cv2")
    method = cv2.FM_RANSAC if est.method == "RANSAC" else getattr(cv2, est.method)
    F, mask = cv2.findFundamentalMat(x0, x1, method, est.threshold_px, est.confidence, est.max_iterations)
    return F, mask


def _poselib(est: Estimator, x0: Floats, x1: Floats, seed: int) -> tuple[Any, Any]:
    F, info = import_library("poselib").estimate_fundamental(x0, x1, ransac_options(est, seed), {})
    return F, info["inliers"]


def _degensac(est: Estimator, x0: Floats, x1: Floats, seed: int) -> tuple[Any, Any]:
    F, mask = import_library("pydegensac").findFundamentalMatrix(
        x0, x1, est.threshold_px, est.confidence, est.max_iterations, 0, "sampson", True, True
    )
    return F, mask


_FUNDAMENTAL_KINDS: dict[str, Callable[[Estimator, Floats, Floats, int], tuple[Any, Any]]] = {
    "opencv-f": _opencv,
    "poselib-f": _poselib,
    "degensac-f": _degensac,
}


def estimate(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, seed: int | None = None
) -> Estimate:
    """Estimate the relative pose of two views from matches (n, 2), (n, 2) and intrinsics (3, 3).

    Points and intrinsics use the pixels of the same image frame. `poselib-e`, `poselib-f` and `usac-e` accept
    a `seed` (default 0). Other kinds raise an error for a seed. For `opencv-e` and `usac-e`, `inliers` counts
    inliers in front of both cameras. For other kinds it counts all inliers of the model.
    """
    if seed is not None and est.kind not in SEEDED:
        raise InputError(f"estimator {est.kind} takes no seed; permute the matches instead")
    a, b = as_matches(x0, x1)
    if len(a) < est.fewest:
        return none(f"{len(a)} matches, {est.fewest} are needed")
    return _KINDS[est.kind](est, a, b, intrinsics(K0), intrinsics(K1), seed or 0)


def shuffles(n: int, repeats: int, seed: int | np.random.RandomState = 0) -> Iterator[NDArray[np.int64]]:
    """Yield `repeats` random orders of n matches. Each order permutes the previous one further.

    Permutations are sampled by ``RandomState(seed).permutation(n)``. If `seed` is a RandomState, sampling
    continues from its current state.

    >>> [order.tolist() for order in shuffles(3, 2)]
    [[2, 1, 0], [0, 2, 1]]
    """
    random = seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)
    order = np.arange(n)
    for _ in range(repeats):
        order = order[random.permutation(n)]
        yield order


def estimator_versions(est: Estimator) -> dict[str, str]:
    """Return the versions of the libraries that an estimator uses, for the cache key of its results."""
    return estimator_library_versions(*LIBRARIES[est.kind])


def _poselib_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    points = round_arrays(est.dtype, x0, x1)
    cameras = [camera(K) for K in round_arrays(est.camera_dtype or est.dtype, K0, K1)]
    result, info = import_library("poselib").estimate_relative_pose(
        *points, *cameras, ransac_options(est, seed), {}
    )
    return pose(result.R, result.t, info["num_inliers"])


_KINDS = {
    "opencv-e": opencv_e,
    "usac-e": usac_e,
    "opencv-f": pose_by_fundamental,
    "poselib-e": _poselib_e,
    "poselib-f": pose_by_fundamental,
    "degensac-f": pose_by_fundamental,
}
