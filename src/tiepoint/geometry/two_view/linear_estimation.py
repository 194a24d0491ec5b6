# SPDX-License-Identifier: BSD-3-Clause
"""Homographies from matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .dlt import dlt
from .estimator import METHODS, Estimator, as_matches
from .libraries import estimator_library_versions, import_library
from .poselib_options import ransac_options

Floats = NDArray[np.float64]

MIN_MATCHES_HOMOGRAPHY = 4
_LIBRARIES = {"opencv": ("cv2",), "poselib": ("poselib",), "degensac": ("pydegensac",), "dlt": ()}


@dataclass(frozen=True)
class HomographyEstimator:
    """How a homography is estimated.

    Args:
        kind: `opencv` (no seed; the order of the matches counts), `poselib` (seeded), `degensac` (pydegensac,
            not repeatable) or `dlt` (all matches, weighted; `dlt`).
        threshold_px: reprojection error of an inlier, in pixels of the frame; not used by `dlt`.
        confidence, max_iterations, min_iterations: when to stop; the last is known to PoseLib alone. The
            values here are OpenCV's own; PoseLib's are 0.9999 and 100000.
        method: flag of `opencv`: RANSAC or USAC_MAGSAC, USAC_ACCURATE, USAC_DEFAULT.
        dtype: precision to which points are rounded first.
    """

    kind: str
    threshold_px: float = 3.0
    confidence: float = 0.995
    max_iterations: int = 2000
    min_iterations: int = 1000
    method: str = "RANSAC"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind", self.kind, tuple(_LIBRARIES)),
            ("method", self.method, METHODS),
            ("dtype", self.dtype, ("float64", "float32")),
        ):
            if value not in known:
                raise InputError(
                    f"`{name}` of an estimator must be one of {', '.join(known)}, found {value!r}"
                )


@dataclass(frozen=True)
class HomographyEstimate:
    """H with x1 ~ H x0 and the number of matches that agree; where `ok` is false H is NaN."""

    H: Floats
    inliers: int
    ok: bool
    reason: str = ""


def estimate_homography(
    est: HomographyEstimator,
    x0: ArrayLike,
    x1: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    seed: int | None = None,
) -> HomographyEstimate:
    """The homography of matches (n, 2), (n, 2). Fewer than 4 give none.

    `weights` (n,) are for `dlt`; `seed` is for `poselib`, 0 by default, and other kinds refuse it.

    >>> corners = np.array([[0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 9.0]])
    >>> estimate_homography(HomographyEstimator("dlt"), corners, 2 * corners + 1).H.round(6)[:, 2].tolist()
    [1.0, 1.0, 1.0]
    """
    if seed is not None and est.kind != "poselib":
        raise InputError(f"estimator {est.kind} has no seed; permute the matches instead")
    a, b = as_matches(x0, x1)
    if len(a) < MIN_MATCHES_HOMOGRAPHY:
        return _nothing(f"{len(a)} matches, {MIN_MATCHES_HOMOGRAPHY} are needed")
    a, b = (np.ascontiguousarray(x.astype(est.dtype)) for x in (a, b))
    if est.kind == "dlt":
        H, inliers = dlt(a, b, weights, est.dtype), len(a)
    else:
        H, inliers = _KINDS[est.kind](est, a, b, seed or 0)
    if H is None or not np.isfinite(H).all() or not np.any(H):
        return _nothing("no homography was found")
    return HomographyEstimate(np.array(H, np.float64), int(inliers), True)


def homography_versions(est: HomographyEstimator) -> dict[str, str]:
    """Versions of the libraries an estimator uses; they belong to the key of its results."""
    return estimator_library_versions(*_LIBRARIES[est.kind])


def _nothing(reason: str) -> HomographyEstimate:
    return HomographyEstimate(np.full((3, 3), np.nan), 0, False, reason)


def _opencv(est: HomographyEstimator, x0: Any, x1: Any, seed: int) -> tuple[Any, int]:
    cv2 = import_library("cv2")
    H, mask = cv2.findHomography(
        x0,
        x1,
        getattr(cv2, est.method),
        est.threshold_px,
        maxIters=est.max_iterations,
        confidence=est.confidence,
    )
    return H, 0 if mask is None else int(mask.sum())


def _poselib(est: HomographyEstimator, x0: Any, x1: Any, seed: int) -> tuple[Any, int]:
    like = Estimator("poselib-f", est.threshold_px, est.confidence, est.max_iterations, est.min_iterations)
    H, info = import_library("poselib").estimate_homography(
        x0.astype(np.float64), x1.astype(np.float64), ransac_options(like, seed, "max_reproj_error"), {}
    )
    return H, int(info["num_inliers"])


def _degensac(est: HomographyEstimator, x0: Any, x1: Any, seed: int) -> tuple[Any, int]:
    H, mask = import_library("pydegensac").findHomography(
        x0, x1, est.threshold_px, est.confidence, est.max_iterations
    )
    return H, int(np.sum(mask))


_KINDS = {"opencv": _opencv, "poselib": _poselib, "degensac": _degensac}
