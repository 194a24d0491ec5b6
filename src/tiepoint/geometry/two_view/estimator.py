# SPDX-License-Identifier: BSD-3-Clause
"""What an estimator of two-view geometry is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .libraries import import_library

Floats = NDArray[np.float64]

LIBRARIES = {
    "opencv-e": ("cv2",),
    "usac-e": ("cv2",),
    "opencv-f": ("cv2",),
    "poselib-e": ("poselib",),
    "poselib-f": ("poselib", "cv2"),
    "degensac-f": ("pydegensac", "cv2"),
}
SEEDED = ("poselib-e", "poselib-f", "usac-e")
METHODS = ("RANSAC", "USAC_MAGSAC", "USAC_ACCURATE", "USAC_DEFAULT")


@dataclass(frozen=True)
class Estimator:
    """How a relative pose is estimated.

    Args:
        kind: `opencv-e`: `findEssentialMat` with a flag; its random numbers start from a constant, so only
            the order of the matches changes the result. `usac-e`: OpenCV's MAGSAC score with uniform samples
            and a seed. `poselib-e`: PoseLib, seeded. `poselib-f`: PoseLib's F, then the pose of E = K1^T F K0
            by all matches. `opencv-f`, `degensac-f`: F, then the pose by its inliers; pydegensac is not
            repeatable.
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
        check_choice("kind", self.kind, tuple(LIBRARIES))
        check_choice("method", self.method, METHODS)
        check_choice("focal", self.focal, ("mean4", "slip"))
        check_choice("dtype", self.dtype, ("float64", "float32"))
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


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """An `InputError` that lists what is known, unless `value` is among it."""
    if value not in known:
        raise InputError(f"`{name}` of an estimator must be one of {', '.join(known)}, found {value!r}")


def none(reason: str) -> Estimate:
    """No pose, and why."""
    return Estimate(np.full((3, 3), np.nan), np.full(3, np.nan), 0, False, reason)


def pose(R: ArrayLike, t: ArrayLike, inliers: int) -> Estimate:
    """A pose as the library gave it, checked: a finite one with t other than 0 is ok."""
    rotation, direction = np.array(R, np.float64), np.array(t, np.float64).ravel()
    reason = ""
    if not (np.isfinite(rotation).all() and np.isfinite(direction).all()):
        reason = "the pose is not finite"
    elif not direction.any():
        reason = "the library found no model and answered t = 0"
    return Estimate(rotation, direction, int(inliers), not reason, reason)


def as_matches(x0: ArrayLike, x1: ArrayLike) -> tuple[Floats, Floats]:
    """Matches as two contiguous float64 arrays (n, 2); different lengths are an `InputError`."""
    a, b = (np.ascontiguousarray(x, np.float64).reshape(-1, 2) for x in (x0, x1))
    if len(a) != len(b):
        raise InputError(f"matches are pairs of points, found {len(a)} and {len(b)}")
    return a, b


def round_arrays(est: Estimator, *arrays: Floats) -> list[Floats]:
    """Arrays rounded to the precision of the estimator, in float64."""
    return [np.ascontiguousarray(a.astype(est.dtype), np.float64) for a in arrays]


def recover(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any = None) -> Any:
    """OpenCV's `recoverPose`: votes, R, t, mask, points. A distance without its name would be taken for R."""
    return import_library("cv2").recoverPose(E, u0, u1, np.eye(3), distanceThresh=est.distance, mask=mask)
