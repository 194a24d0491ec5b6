# SPDX-License-Identifier: BSD-3-Clause
"""Fundamental matrices from matches, and the poses in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .epipolar import normalise_points
from .estimator import SEEDED, Estimate, Estimator, Floats, as_matches, none, pose, recover
from .libraries import import_library
from .poselib_options import ransac_options

MIN_MATCHES_FUNDAMENTAL = 8


@dataclass(frozen=True)
class FundamentalEstimate:
    """F with x1^T F x0 = 0 and the matches that agree with it; where `ok` is false F is NaN."""

    F: Floats
    kept: NDArray[np.bool_]
    ok: bool
    reason: str = ""

    @property
    def inliers(self) -> int:
        """How many matches agree."""
        return int(self.kept.sum())


def estimate_fundamental(
    est: Estimator, x0: ArrayLike, x1: ArrayLike, seed: int | None = None
) -> FundamentalEstimate:
    """F from matches (n, 2), (n, 2) in pixels, by `opencv-f`, `poselib-f` or `degensac-f`.

    Fewer than 8 matches give none. Only `poselib-f` has a seed, 0 by default.
    """
    if est.kind not in _FUNDAMENTAL_KINDS:
        raise InputError(
            f"`kind` of an estimator of F must be one of {', '.join(_FUNDAMENTAL_KINDS)}, found {est.kind!r}"
        )
    if seed is not None and est.kind not in SEEDED:
        raise InputError(f"estimator {est.kind} has no seed; permute the matches instead")
    a, b = as_matches(x0, x1)
    if len(a) < MIN_MATCHES_FUNDAMENTAL:
        return _nothing(len(a), f"{len(a)} matches, {MIN_MATCHES_FUNDAMENTAL} are needed")
    F, mask = _FUNDAMENTAL_KINDS[est.kind](est, a, b, seed or 0)
    kept = np.zeros(len(a), bool) if mask is None else np.asarray(mask, bool).ravel()
    if F is None or np.shape(F) != (3, 3) or not np.isfinite(F).all() or not np.any(F):
        return _nothing(len(a), "no fundamental matrix was found")
    return FundamentalEstimate(np.array(F, np.float64), kept, True)


def pose_by_fundamental(
    est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int
) -> Estimate:
    """The pose of E = K1^T F K0 for which most matches lie in front of both cameras.

    PoseLib's F is judged by all matches, and without F its answer is R = I, t = 0; that of others by their
    inliers, of which 8 are needed. `inliers` are those of F.
    """
    found = estimate_fundamental(est, x0, x1, seed if est.kind in SEEDED else None)
    everything = est.kind == "poselib-f"
    if not found.ok and everything:
        return Estimate(np.eye(3), np.zeros(3), 0, False, found.reason)
    if not found.ok or (found.inliers < MIN_MATCHES_FUNDAMENTAL and not everything):
        return none(found.reason or f"{found.inliers} inliers of F, {MIN_MATCHES_FUNDAMENTAL} are needed")
    rows = np.ones(len(x0), bool) if everything else found.kept
    u0, u1 = (normalise_points(x[rows], K, est.dtype) for x, K in ((x0, K0), (x1, K1)))
    _, R, t, _, _ = recover(est, K1.T @ found.F @ K0, u0, u1)
    return pose(R, t, found.inliers)


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
