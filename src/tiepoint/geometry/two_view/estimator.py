# SPDX-License-Identifier: BSD-3-Clause
"""What an estimator of two-view geometry is asked, and what it answers."""

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
    """Indices that sort matches by (x0, y0, x1, y1) and leave out exact duplicates.

    Robust estimators draw matches by their place, so a permuted file gives another pose; after this it
    gives the same bits. Of equal rows the first is kept. Non-finite numbers are an `InputError`.

    Args:
        x0: (n, 2) points of view 0.
        x1: (n, 2) points of view 1.

    >>> canonical_order([[5, 1], [2, 9], [5, 1]], [[0, 0], [0, 0], [0, 0]]).tolist()
    [1, 0]
    """
    a, b = (np.asarray(x, np.float64).reshape(-1, 2) for x in (x0, x1))
    if len(a) != len(b):
        raise InputError(f"matches are pairs of points, found {len(a)} and {len(b)}")
    rows = np.hstack([a, b])
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise InputError(f"match {int(bad.argmax())} is not finite: {rows[bad.argmax()].tolist()}")
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.asarray(order[new])


POSELIB_SERIES = "2.0."
_MISSING = {
    "cv2": "this estimator needs OpenCV: pip install 'tiepoint[opencv]'",
    "poselib": "this estimator needs PoseLib 2.0: pip install 'tiepoint[pose]'",
    "pydegensac": "this estimator needs pydegensac (it draws anew at every call): pip install pydegensac",
}


@cache
def import_library(name: str) -> Any:
    """The module `cv2`, `poselib` or `pydegensac`; an `InputError` says how to get a missing one.

    PoseLib must be of series 2.0: later ones renamed their options, and all ignore names they do not know.
    """
    try:
        module = import_module(name)
    except ImportError as e:
        raise InputError(_MISSING[name]) from e
    if name == "poselib":
        check_poselib(module.__version__)
    return module


def check_poselib(found: str) -> None:
    """Refuse a PoseLib that is not of series 2.0.

    >>> check_poselib("2.0.5")
    """
    if not found.startswith(POSELIB_SERIES):
        raise InputError(
            f"PoseLib {found} names its options differently and would ignore ours; "
            "install a 2.0 release: pip install 'tiepoint[pose]'"
        )


def estimator_library_versions(*names: str) -> dict[str, str]:
    """Versions of libraries by name, in the order given: part of what a result depends on."""
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


def ransac_options(est: Estimator, seed: int, threshold: str = "max_epipolar_error") -> dict[str, Any]:
    """Options of a robust estimation; `threshold` names the one that takes `threshold_px`.

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
    """The pinhole camera of K; its size is not used."""
    return {"model": "PINHOLE", "width": 1, "height": 1, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]}
