# SPDX-License-Identifier: BSD-3-Clause
"""PoseLib's options and cameras. Series 2.0 knows all of these names; it ignores unknown ones in silence."""

from __future__ import annotations

from typing import Any

from .estimator import Estimator, Floats


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
