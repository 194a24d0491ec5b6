# SPDX-License-Identifier: BSD-3-Clause
"""Settings and results of two-view estimators, and the libraries they use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError


def canonical_order(x0: ArrayLike, x1: ArrayLike) -> NDArray[np.intp]:
    """Return indices that sort matches by (x0, y0, x1, y1) and skip exact duplicates.

    Robust estimators sample matches by index, so the pose depends on the order of the matches. Sorting makes
    the result bit-identical for any input order. The first of several equal matches is retained. Non-finite
    points (n, 2) raise `InputError`.

    >>> canonical_order([[5, 1], [2, 9], [5, 1]], [[0, 0], [0, 0], [0, 0]]).tolist()
    [1, 0]
    """
    rows = np.hstack(as_matches(x0, x1))
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise InputError(
            f"match {int(bad.argmax())} is NaN or infinite: {rows[bad.argmax()].tolist()}; remove it"
        )
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.asarray(order[new])


POSELIB_SERIES = "2.0."
_MISSING = {
    "cv2": "this estimator needs OpenCV: pip install 'tiepoint[opencv]'",
    "poselib": "this estimator needs PoseLib 2.0: pip install 'tiepoint[pose]'",
    "pydegensac": "this estimator needs pydegensac (not repeatable): pip install pydegensac",
}


@cache
def import_library(name: str) -> Any:
    """Import `cv2`, `poselib` or `pydegensac`; raise `InputError` with instructions if it is missing.

    PoseLib must be a 2.0 release. Later releases renamed options, and PoseLib ignores unknown option names.
    """
    try:
        module = import_module(name)
    except ImportError as e:
        raise InputError(_MISSING[name]) from e
    if name == "poselib":
        check_poselib(module.__version__)
    return module


def check_poselib(installed: str) -> None:
    """Raise `InputError` unless the installed PoseLib is a 2.0 release.

    >>> check_poselib("2.0.5")
    """
    if not installed.startswith(POSELIB_SERIES):
        raise InputError(
            f"PoseLib {installed} has other option names and would ignore the settings of tiepoint; "
            "install a 2.0 release: pip install 'tiepoint[pose]'"
        )


def estimator_library_versions(*names: str) -> dict[str, str]:
    """Return the installed versions of libraries by name, in the given order."""
    return {name: str(getattr(import_library(name), "__version__", None) or version(name)) for name in names}


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
    """Settings of a pose estimator.

    Args:
        kind: `opencv-e`: OpenCV's `findEssentialMat` with the flag `method`. Its seed is fixed, so only the
            order of the matches changes the result. `usac-e`: OpenCV's MAGSAC score with uniform sampling and
            a seed. `poselib-e`: essential matrix by PoseLib, seeded. `poselib-f`: F by PoseLib, then the pose
            of E = K1^T F K0 from all matches. `opencv-f`, `degensac-f`: F by OpenCV or pydegensac, then the
            pose from the inliers of F. pydegensac is not repeatable.
        threshold_px: inlier threshold in pixels of the images to which the matches refer. OpenCV estimators
            divide it by `focal`. PoseLib divides it by the harmonic mean of the mean focal lengths of the two
            views.
        confidence, max_iterations, min_iterations: stopping criteria; only PoseLib uses `min_iterations`.
        method: flag of `opencv-e`: RANSAC, USAC_MAGSAC, USAC_ACCURATE or USAC_DEFAULT.
        focal: `mean4`, the mean of the four focal lengths. `slip`, the mean of fx of view 0 and fy of view 1,
            which a widely copied script computes. `blocks`, the sum of the mean magnitudes of the upper left
            2 x 2 blocks of K0 and K1: `mean4` plus a quarter of the skews.
        dtype: precision to which points and intrinsics are rounded first.
        camera_dtype: precision of the intrinsics for PoseLib, if it differs from `dtype`.
        skew: whether K[0, 1] is used when points are normalised.
        distance: largest depth, in baselines, of a point that votes for one of the four poses of E. Trap:
            ``recoverPose(E, u0, u1, K, 1e9, mask=…)`` does not set this limit. OpenCV reads the 1e9 as the
            output array R, and the default of 50 applies.
        fewest: smallest number of matches to run the estimator on. With 0 the library decides (PoseLib
            returns R = I, t = 0).
    """

    kind: str
    threshold_px: float
    confidence: float
    max_iterations: int
    min_iterations: int = 1000
    method: str = "RANSAC"
    focal: str = "mean4"
    dtype: str = "float64"
    camera_dtype: str = ""
    skew: bool = False
    distance: float = 50.0
    fewest: int = 5

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, tuple(LIBRARIES))
        check_choice("method", self.method, METHODS)
        check_choice("focal", self.focal, ("mean4", "slip", "blocks"))
        check_choice("dtype", self.dtype, ("float64", "float32"))
        check_choice("camera_dtype", self.camera_dtype, ("", "float64", "float32"))
        if not self.threshold_px > 0:
            raise InputError(
                f"`threshold_px` of an estimator must be positive, found {self.threshold_px}; pass the "
                "threshold in pixels"
            )


@dataclass(frozen=True)
class Estimate:
    """Estimated relative pose x1 = R x0 + t, |t| = 1, and its number of inliers.

    If `ok` is false the estimation failed and `reason` explains why. R and t are then the values that the
    library returned (PoseLib: R = I, t = 0) or NaN.
    """

    R: Floats
    t: Floats
    inliers: int
    ok: bool
    reason: str = ""


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise `InputError` unless `value` is one of `known`."""
    if value not in known:
        raise InputError(
            f"`{name}` of an estimator: unknown value {value!r}; choose one of {', '.join(known)}"
        )


def none(reason: str) -> Estimate:
    """Return a failed estimate: `ok` is False and R and t are NaN."""
    return Estimate(np.full((3, 3), np.nan), np.full(3, np.nan), 0, False, reason)


def pose(R: ArrayLike, t: ArrayLike, inliers: int) -> Estimate:
    """Build an estimate from a library's pose. It is `ok` if R and t are finite and t is not 0."""
    rotation, direction = np.array(R, np.float64), np.array(t, np.float64).ravel()
    reason = ""
    if not (np.isfinite(rotation).all() and np.isfinite(direction).all()):
        reason = "the pose is not finite"
    elif not direction.any():
        reason = "the library found no model and answered t = 0"
    return Estimate(rotation, direction, int(inliers), not reason, reason)


def as_matches(x0: ArrayLike, x1: ArrayLike) -> tuple[Floats, Floats]:
    """Convert matches to two contiguous float64 arrays (n, 2); raise `InputError` if their lengths differ."""
    a, b = (np.ascontiguousarray(x, np.float64).reshape(-1, 2) for x in (x0, x1))
    if len(a) != len(b):
        raise InputError(f"matches: found {len(a)} and {len(b)} points in images 0 and 1; pass equal numbers")
    return a, b


def round_arrays(dtype: str, *arrays: Floats) -> list[Floats]:
    """Round arrays to the precision `dtype` and return them in float64."""
    return [np.ascontiguousarray(a.astype(dtype), np.float64) for a in arrays]


def recover(est: Estimator, E: Any, u0: Any, u1: Any, mask: Any = None) -> Any:
    """Call OpenCV's `recoverPose` with the distance limit of `est`. Return votes, R, t, mask and points."""
    return import_library("cv2").recoverPose(E, u0, u1, np.eye(3), distanceThresh=est.distance, mask=mask)


def ransac_options(est: Estimator, seed: int, threshold: str = "max_epipolar_error") -> dict[str, Any]:
    """Return the RANSAC options of PoseLib for an estimator.

    `threshold` is the name of PoseLib's option that receives `threshold_px`.

    >>> ransac_options(Estimator("poselib-e", 1.0, 0.9999, 10000), 3)["max_epipolar_error"]
    1.0
    """
    return {
        threshold: est.threshold_px,
        "max_iterations": est.max_iterations,
        "min_iterations": est.min_iterations,
        "success_prob": est.confidence,
        "seed": seed,
    }


def camera(K: Floats) -> dict[str, Any]:
    """Return PoseLib's description of a pinhole camera with intrinsics K. The image size has no effect."""
    return {"model": "PINHOLE", "width": 1, "height": 1, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]}
