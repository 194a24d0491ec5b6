# SPDX-License-Identifier: BSD-3-Clause
"""Relative pose from matches: one function for the estimators of all protocols, and orders to repeat it in.

Matches and intrinsics must be in the same frame of pixels, the one in which `threshold_px` is meant
(`scaling.in_frame`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError
from .epipolar import intrinsics
from .essential_pose import opencv_e, usac_e
from .estimator import LIBRARIES, SEEDED, Estimate, Estimator, Floats, as_matches, none, pose, round_arrays
from .fundamentals import pose_by_fundamental
from .libraries import estimator_library_versions, import_library
from .poselib_options import camera, ransac_options

__all__ = [
    "Estimate",
    "Estimator",
    "estimate",
    "estimator_versions",
    "shuffles",
]


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

    `inliers` of `opencv-e` and `usac-e` are those in front of both cameras; of others those of the model.
    """
    if seed is not None and est.kind not in SEEDED:
        raise InputError(f"estimator {est.kind} has no seed; permute the matches instead")
    a, b = as_matches(x0, x1)
    if len(a) < est.fewest:
        return none(f"{len(a)} matches, {est.fewest} are needed")
    return _KINDS[est.kind](est, a, b, intrinsics(K0), intrinsics(K1), seed or 0)


def shuffles(n: int, repeats: int, seed: int | np.random.RandomState = 0) -> Iterator[NDArray[np.int64]]:
    """Orders of n matches that are permuted again and again in place: the k-th is a product of k draws.

    Draws are ``RandomState(seed).permutation(n)``; a RandomState goes on where it stands.

    >>> [order.tolist() for order in shuffles(3, 2)]
    [[2, 1, 0], [0, 2, 1]]
    """
    random = seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)
    order = np.arange(n)
    for _ in range(repeats):
        order = order[random.permutation(n)]
        yield order


def estimator_versions(est: Estimator) -> dict[str, str]:
    """Versions of the libraries an estimator uses; they belong to the key of its results."""
    return estimator_library_versions(*LIBRARIES[est.kind])


def _poselib_e(est: Estimator, x0: Floats, x1: Floats, K0: Floats, K1: Floats, seed: int) -> Estimate:
    points, cameras = round_arrays(est, x0, x1), [camera(K) for K in round_arrays(est, K0, K1)]
    found, info = import_library("poselib").estimate_relative_pose(
        *points, *cameras, ransac_options(est, seed), {}
    )
    return pose(found.R, found.t, info["num_inliers"])


_KINDS = {
    "opencv-e": opencv_e,
    "usac-e": usac_e,
    "opencv-f": pose_by_fundamental,
    "poselib-e": _poselib_e,
    "poselib-f": pose_by_fundamental,
    "degensac-f": pose_by_fundamental,
}
