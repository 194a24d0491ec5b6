# SPDX-License-Identifier: BSD-3-Clause
"""Relative pose from matches: one frozen description for the estimators of all protocols, and one function.

Matches and intrinsics must be in the same frame of pixels, the one in which `threshold_px` is meant
(`scaling.in_frame`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...model.errors import InputError
from .epipolar import intrinsics, normalised
from .libraries import library, library_versions

Floats = NDArray[np.float64]

_LIBRARIES = {
    "opencv-e": ("cv2",),
    "usac-e": ("cv2",),
    "poselib-e": ("poselib",),
    "poselib-f": ("poselib", "cv2"),
    "degensac-f": ("pydegensac", "cv2"),
}
_METHODS = ("RANSAC", "USAC_MAGSAC", "USAC_ACCURATE", "USAC_DEFAULT")


@dataclass(frozen=True)
class Estimator:
    """How a relative pose is estimated.

    Args:
        kind: `opencv-e`: `findEssentialMat` with a flag; its random numbers start from a constant, so only
            the order of the matches changes the result. `usac-e`: OpenCV's MAGSAC score with uniform samples
            and a seed. `poselib-e`: PoseLib, seeded. `poselib-f`: PoseLib's F, then the pose of E = K1^T F K0
            by all matches. `degensac-f`: pydegensac's F, then the pose by its inliers; not repeatable.
        threshold_px: pixels of the frame. OpenCV's kinds divide by `focal`; PoseLib by the harmonic mean of
            the mean focal lengths of the two views.
        confidence, max_iterations, min_iterations: when to stop; the last is known to PoseLib alone.
        method: flag of `opencv-e`: RANSAC, USAC_MAGSAC, USAC_ACCURATE or USAC_DEFAULT.
        focal: `mean4`, the mean of the four focal lengths, or `slip`, the mean of fx of view 0 and fy of view
            1, which a widely copied script computes.
        dtype: precision to which points and intrinsics are rounded first.
        skew: whether K[0, 1] is respected when points are normalised.
        distance: how many baselines away a point may be to vote for one of the four poses of E. Trap: calls
            of the form ``recoverPose(E, u0, u1, K, 1e9, mask=…)`` do not set it; they hand 1e9 over as an
            array for R, and 50 stays in force.
        fewest: with fewer matches nothing is tried; 0 leaves it to the library (PoseLib answers R = I and
            t = 0).
    """

    kind: str
    threshold_px: float
    confidence: float
    max_iterations: int
    min_iterations: int = 1000
    method: str = "RANSAC"
    focal: str = "mean4"
    dtype: str = "float64"
    skew: bool = False
    distance: float = 50.0
    fewest: int = 5

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind", self.kind, tuple(_LIBRARIES)),
            ("method", self.method, _METHODS),
            ("focal", self.focal, ("mean4", "slip")),
            ("dtype", self.dtype, ("float64", "float32")),
        ):
            if value not in known:
                raise InputError(f"`{name}` of an estimator is one of {', '.join(known)}, found {value!r}")
        if not self.threshold_px > 0:
            raise InputError(f"`threshold_px` must be positive, found {self.threshold_px}")


@dataclass(frozen=True)
class Estimate:
    """A pose x1 = R x0 + t, |t| = 1, and how many matches agree with it.

    Where `ok` is false there is none and `reason` says why; R and t are then what the library left (PoseLib:
    R = I, t = 0) or NaN.
    """

    R: Floats
    t: Floats
    inliers: int
    ok: bool
    reason: str = ""


def estimate(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, seed: int | None = None
) -> Estimate:
    """The relative pose of two views from matches (n, 2), (n, 2) and intrinsics (3, 3).

    Args:
        est: the estimator and its parameters.
        x0: points of view 0, in pixels of the frame.
        x1: the points of view 1 they were matched to.
        K0: intrinsics of view 0 in the same frame.
        K1: intrinsics of view 1.
        seed: for `poselib-e`, `poselib-f` and `usac-e`, 0 by default; other kinds have none and refuse one.

    The inliers of `opencv-e` and `usac-e` are those in front of both cameras; PoseLib's are its own.
    """
    if seed is not None and est.kind not in ("poselib-e", "poselib-f", "usac-e"):
        raise InputError(f"estimator {est.kind} has no seed; permute the matches instead")
    a, b = (np.asarray(x, np.float64).reshape(-1, 2) for x in (x0, x1))
    if len(a) != len(b):
        raise InputError(f"matches are pairs of points, found {len(a)} and {len(b)}")
    if len(a) < est.fewest:
        return none(f"{len(a)} matches, {est.fewest} are needed")
    return _KINDS[est.kind](est, a, b, intrinsics(K0), intrinsics(K1), seed or 0)


def estimate_seeds(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, seeds: Sequence[int]
) -> list[Estimate]:
    """One estimate for every seed, from the same matches."""
    return [estimate(est, x0, x1, K0, K1, seed) for seed in seeds]


def estimate_shuffled(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, K0: ArrayLike, K1: ArrayLike, repeats: int, seed: int = 0
) -> list[Estimate]:
    """One estimate for every order of `shuffles`, for estimators whose result depends on the order."""
    a, b = np.asarray(x0, np.float64), np.asarray(x1, np.float64)
    return [estimate(est, a[order], b[order], K0, K1) for order in shuffles(len(a), repeats, seed)]


def shuffles(n: int, repeats: int, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """Orders of n matches that are permuted again and again in place: the k-th is a product of k draws.

    Draws are ``RandomState(seed).permutation(n)``.

    >>> [order.tolist() for order in shuffles(3, 2)]
    [[2, 1, 0], [0, 2, 1]]
    """
    random, order = np.random.RandomState(seed), np.arange(n)
    for _ in range(repeats):
        order = order[random.permutation(n)]
        yield order


def estimator_versions(est: Estimator) -> dict[str, str]:
    """Versions of the libraries an estimator uses; they belong to the key of its results."""
    return library_versions(*_LIBRARIES[est.kind])


def none(reason: str) -> Estimate:
    """No pose, and why."""
    return Estimate(np.full((3, 3), np.nan), np.full(3, np.nan), 0, False, reason)


def _pose(R: ArrayLike, t: ArrayLike, inliers: int) -> Estimate:
    """A pose as the library gave it, checked: a finite one with t other than 0 is ok."""
    rotation, direction = np.array(R, np.float64), np.array(t, np.float64).ravel()
    reason = ""
    if not (np.isfinite(rotation).all() and np.isfinite(direction).all()):
        reason = "the pose is not finite"
    elif not direction.any():
        reason = "the library found no model and answered t = 0"
    return Estimate(rotation, direction, int(inliers), not reason, reason)


def _rounded(est: Estimator, *arrays: Floats) -> list[Floats]:
    return [np.ascontiguousarray(a.astype(est.dtype), np.float64) for a in arrays]


def _focal(est: Estimator, K0: Floats, K1: Floats) -> float:
    a, b = K0.astype(est.dtype), K1.astype(est.dtype)
    if est.focal == "slip":
        return float(np.mean(np.array([a[0, 0], b[1, 1], a[0, 0], b[1, 1]])))
    return float(np.mean(np.array([a[0, 0], a[1, 1], b[0, 0], b[1, 1]])))


def _opencv_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    cv2 = library("cv2")
    u0, u1 = (normalised(x, K, est.dtype, skew=est.skew) for x, K in ((x0, K0), (x1, K1)))
    E, mask = cv2.findEssentialMat(
        u0,
        u1,
        np.eye(3),
        method=getattr(cv2, est.method),
        prob=est.confidence,
        threshold=est.threshold_px / _focal(est, K0, K1),
        maxIters=est.max_iterations,
    )
    return _best_of(est, E, u0, u1, mask)


def _usac_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    cv2 = library("cv2")
    u0, u1 = (normalised(x, K, est.dtype, skew=est.skew) for x, K in ((x0, K0), (x1, K1)))
    params = cv2.UsacParams()
    params.threshold = est.threshold_px / _focal(est, K0, K1)
    params.confidence, params.maxIterations = est.confidence, est.max_iterations
    params.score, params.sampler = cv2.SCORE_METHOD_MAGSAC, cv2.SAMPLING_UNIFORM
    params.loMethod, params.loIterations, params.loSampleSize = cv2.LOCAL_OPTIM_SIGMA, 10, 50
    params.isParallel, params.randomGeneratorState = False, seed
    E, mask = cv2.findEssentialMat(u0, u1, np.eye(3), np.eye(3), None, None, params)
    return _best_of(est, E, u0, u1, mask)


def _best_of(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any) -> Estimate:
    """The pose with most votes among the blocks of E; the first of equals. Five matches give several blocks.

    Every call overwrites the mask, so that later blocks are judged by fewer matches, as all scripts do it.
    """
    if E is None:
        return none("no essential matrix was found")
    best: Estimate | None = None
    for block in np.split(E, len(E) // 3):
        votes, R, t, mask, _ = _recover(est, block, u0, u1, mask)
        if votes > (best.inliers if best else 0):
            best = _pose(R, t, votes)
    return best or none("no match lies in front of both cameras")


def _recover(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any) -> Any:
    """`recoverPose` with the distance by its name: a positional one is taken for R."""
    return library("cv2").recoverPose(E, u0, u1, np.eye(3), distanceThresh=est.distance, mask=mask)


def _poselib_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    points = _rounded(est, x0, x1)
    cameras = [camera(K) for K in _rounded(est, K0, K1)]
    pose, info = library("poselib").estimate_relative_pose(*points, *cameras, options(est, seed), {})
    return _pose(pose.R, pose.t, info["num_inliers"])


def _poselib_f(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    if len(x0) < 8:
        return Estimate(np.eye(3), np.zeros(3), 0, False, f"{len(x0)} matches, 8 are needed")
    F, info = library("poselib").estimate_fundamental(x0, x1, options(est, seed), {})
    found = pose_of_fundamental(est, F, x0, x1, K0, K1)
    return found if not found.ok else Estimate(found.R, found.t, int(info["num_inliers"]), True)


def _degensac_f(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    F, mask = library("pydegensac").findFundamentalMatrix(
        x0, x1, est.threshold_px, est.confidence, est.max_iterations, 0, "sampson", True, True
    )
    kept = np.asarray(mask, bool).ravel() if mask is not None else np.zeros(len(x0), bool)
    if F is None or kept.sum() < 8:
        return none(f"{int(kept.sum())} inliers of a fundamental matrix, 8 are needed")
    return pose_of_fundamental(est, F, x0[kept], x1[kept], K0, K1)


def pose_of_fundamental(
    est: Estimator, F: ArrayLike, x0: Floats, x1: Floats, K0: Floats, K1: Floats
) -> Estimate:
    """The pose of E = K1^T F K0 for which most of the given matches lie in front of both cameras."""
    f = np.asarray(F, np.float64)
    if f.shape != (3, 3) or not np.isfinite(f).all() or not f.any():
        return none("no fundamental matrix was found")
    u0, u1 = (normalised(x, K, est.dtype) for x, K in ((x0, K0), (x1, K1)))
    votes, R, t, _, _ = _recover(est, K1.T @ f @ K0, u0, u1, None)
    return _pose(R, t, votes)


def camera(K: Floats) -> dict[str, Any]:
    """PoseLib's pinhole camera of K; it does not use the size."""
    return {"model": "PINHOLE", "width": 1, "height": 1, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]}


def options(est: Estimator, seed: int) -> dict[str, Any]:
    """PoseLib's options; all of these names are known to series 2.0, which ignores unknown ones."""
    return {
        "max_epipolar_error": est.threshold_px,
        "max_iterations": est.max_iterations,
        "min_iterations": est.min_iterations,
        "success_prob": est.confidence,
        "seed": seed,
    }


_KINDS = {
    "opencv-e": _opencv_e,
    "usac-e": _usac_e,
    "poselib-e": _poselib_e,
    "poselib-f": _poselib_f,
    "degensac-f": _degensac_f,
}
