# SPDX-License-Identifier: BSD-3-Clause
"""Homography estimation from matches, and the eight-point algorithm for F."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...core.errors import InputError
from .estimator import (
    METHODS,
    Estimator,
    as_matches,
    check_choice,
    estimator_library_versions,
    import_library,
    ransac_options,
)


def dlt(x0: ArrayLike, x1: ArrayLike, weights: ArrayLike | None = None, dtype: DTypeLike = np.float64) -> Any:
    """Estimate H by the weighted direct linear transform of all matches, scaled to H33 = 1.

    Points are normalised to weighted mean 0 and weighted mean radius sqrt 2. With the 2n x 9 equations A and
    weights W the function solves (A^T W A) h = (1, …, 1). This is one step of inverse iteration, so on noisy
    matches h differs from the smallest eigenvector. For four matches, and for singular systems, h is the null
    vector of A.
    """
    w = np.ones(len(np.asarray(x0))) if weights is None else np.asarray(weights)
    w = np.maximum(w.astype(dtype), 0)
    a, from_a = centre_points(np.asarray(x0, dtype), w)
    b, from_b = centre_points(np.asarray(x1, dtype), w)
    ones, zeros = np.ones((len(a), 1), dtype), np.zeros((len(a), 3), dtype)
    p = np.hstack([a, ones])
    rows = np.stack([np.hstack([zeros, -p, b[:, 1:] * p]), np.hstack([p, zeros, -b[:, :1] * p])], axis=1)
    A = rows.reshape(-1, 9)
    twice = np.repeat(w, 2)
    try:
        h = _null(A, twice) if len(a) == 4 else np.linalg.solve((A.T * twice) @ A, np.ones(9, dtype))
    except np.linalg.LinAlgError:
        h = _null(A, twice)
    H = np.linalg.inv(from_b) @ (h.reshape(3, 3) @ from_a)
    with np.errstate(all="ignore"):
        return np.asarray(H / H[2, 2], np.float64)


def _null(A: Any, w: Any) -> Any:
    return np.linalg.svd(A * np.sqrt(w)[:, None])[2][-1]


def centre_points(x: Any, w: Any) -> tuple[Any, Any]:
    """Normalise points to weighted mean 0 and mean radius sqrt 2. Return them and the 3 x 3 transform."""
    w = w if w.sum() > 0 else np.ones_like(w)
    middle = (x * w[:, None]).sum(axis=0) / w.sum()
    radius = (np.linalg.norm(x - middle, axis=1) * w).sum() / w.sum()
    s = x.dtype.type(np.sqrt(2)) / (radius + x.dtype.type(1e-8))
    return (x - middle) * s, np.array([[s, 0, -s * middle[0]], [0, s, -s * middle[1]], [0, 0, 1]], x.dtype)


Floats = NDArray[np.float64]

MIN_MATCHES_HOMOGRAPHY = 4
_LIBRARIES = {"opencv": ("cv2",), "poselib": ("poselib",), "degensac": ("pydegensac",), "dlt": ()}


@dataclass(frozen=True)
class HomographyEstimator:
    """Settings of a homography estimator.

    Args:
        kind: `opencv` (unseeded; depends on the order of the matches), `poselib` (seeded), `degensac`
            (pydegensac, not repeatable) or `dlt` (all matches, weighted; see the function `dlt`).
        threshold_px: reprojection error of an inlier, in pixels of the matches; not used by `dlt`.
        confidence, max_iterations, min_iterations: stopping criteria; only PoseLib uses `min_iterations`. The
            defaults are those of OpenCV. PoseLib's own defaults are 0.9999 and 100000.
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
        check_choice("kind", self.kind, tuple(_LIBRARIES))
        check_choice("method", self.method, METHODS)
        check_choice("dtype", self.dtype, ("float64", "float32"))


@dataclass(frozen=True)
class HomographyEstimate:
    """Homography H with x1 ~ H x0, and its number of inliers. H is NaN if `ok` is false."""

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
    """Estimate the homography from matches (n, 2), (n, 2); at least 4 are required.

    Only `dlt` uses `weights` (n,). Only `poselib` accepts a `seed` (default 0); other kinds raise an error.

    >>> corners = np.array([[0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 9.0]])
    >>> estimate_homography(HomographyEstimator("dlt"), corners, 2 * corners + 1).H.round(6)[:, 2].tolist()
    [1.0, 1.0, 1.0]
    """
    if seed is not None and est.kind != "poselib":
        raise InputError(f"estimator {est.kind} takes no seed; permute the matches instead")
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
    """Return the versions of the libraries that an estimator uses, for the cache key of its results."""
    return estimator_library_versions(*_LIBRARIES[est.kind])


def _nothing(reason: str) -> HomographyEstimate:
    return HomographyEstimate(np.full((3, 3), np.nan), 0, False, reason)


def _opencv(est: HomographyEstimator, x0: Any, x1: Any, seed: int) -> tuple[Any, int]:
    cv2 = import_library("cv2")
    limits = {"maxIters": est.max_iterations, "confidence": est.confidence}
    H, mask = cv2.findHomography(x0, x1, getattr(cv2, est.method), est.threshold_px, **limits)
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


MIN_POINTS_EIGHT_POINT = 8


def eight_point(x0: ArrayLike, x1: ArrayLike) -> Floats:
    """Estimate F of norm 1 and rank 2 with the smallest sum of (x1^T F x0)^2 over (n, 2) points, n >= 8.

    Points are first normalised to mean 0 and mean radius sqrt 2. The smallest singular value of F is set to
    0. The returned F applies to the original points.

    >>> a = np.random.default_rng(0).random((9, 3)) + [0, 0, 2]
    >>> b = a - [1, 0, 0]
    >>> float(np.abs(eight_point(a[:, :2] / a[:, 2:], b[:, :2] / b[:, 2:])[0]).max().round(6))
    0.0
    """
    a, b = np.asarray(x0, np.float64), np.asarray(x1, np.float64)
    if len(a) < MIN_POINTS_EIGHT_POINT or len(a) != len(b):
        raise InputError(
            f"matches: found {len(a)} and {len(b)} points in images 0 and 1; F needs "
            f"{MIN_POINTS_EIGHT_POINT} or more pairs of points"
        )
    ones = np.ones(len(a))
    (a, from_a), (b, from_b) = centre_points(a, ones), centre_points(b, ones)
    p, q = np.column_stack([a, ones]), np.column_stack([b, ones])
    rows = (q[:, :, None] * p[:, None, :]).reshape(-1, 9)
    U, s, V = np.linalg.svd(np.linalg.svd(rows)[2][-1].reshape(3, 3))
    F = from_b.T @ (U * [s[0], s[1], 0.0]) @ V @ from_a
    return np.asarray(F / np.linalg.norm(F), np.float64)
