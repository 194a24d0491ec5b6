# SPDX-License-Identifier: BSD-3-Clause
"""Compare the matches between an image and its changed version with the true homography."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays
from ...geometry.correspondence import centre, in_view
from ...geometry.homography import corner_error, inverse, project
from ...geometry.image_changes import Size
from ...geometry.two_view.estimator import canonical_order
from ..keypoints.geometry.compare import estimate_exact_homography
from ..pairs.data import PairMatches, matches_of

Floats = NDArray[np.float64]
MATCH_PX = 3.0
"""Largest error of a correct match, in pixels of the changed image."""
CORNER_PX = 5.0
"""Mean corner error in pixels at which the score `corner` reaches 0."""


def compare_pair(
    arrays: Arrays, name: str, H: Floats, size: Size, options: Any
) -> dict[str, int | float | bool]:
    """Return the counts and scores of one pair. Scores that do not apply to a method are NaN."""
    returned = "points0" in arrays or "flow" in arrays or "H" not in arrays
    empty = np.empty((0, 2))
    matches = matches_of(arrays, name) if returned else PairMatches(empty, empty)
    right = correct_matches(matches, H, size)
    if "H" in arrays:
        estimate: Floats | None = np.asarray(arrays["H"], np.float64)
        inliers = 0
    else:
        order = canonical_order(matches.points0, matches.points1)
        estimate, inliers = estimate_exact_homography(
            matches.points0[order],
            matches.points1[order],
            estimator=options.estimator,
            threshold_px=options.ransac_px,
            max_iterations=options.max_iterations,
        )
    error = float("inf") if estimate is None else corner_error(estimate, H, size)
    keypoints = -1 if matches.keypoints is None else matches.keypoints[0]
    share = float("nan") if keypoints < 0 else right / keypoints if keypoints else 0.0
    return {
        "matches": len(matches),
        "right": right,
        "keypoints": keypoints,
        "inliers": inliers,
        "corner_px": error,
        "corner": max(0.0, 1 - error / CORNER_PX),
        "mma": (right / len(matches) if len(matches) else 0.0) if returned else float("nan"),
        "matching_score": share,
    }


def correct_matches(matches: PairMatches, H: Floats, size: Size) -> int:
    """Count the matches within `MATCH_PX` of the true position.

    Points of the changed image that show fill or border, outside the original image, are never correct.
    """
    error = transfer_error(matches.points0, matches.points1, H, size)
    origin = project(inverse(H), matches.points1, reference=tuple(project(H, [centre(size)])[0]))
    return int(((error <= MATCH_PX) & in_view(np.nan_to_num(origin, nan=np.inf), size)).sum())


def transfer_error(points0: Floats, points1: Floats, H: Floats, size: Size) -> Floats:
    """Return the distances |H x0 - x1| (n,) in pixels of the changed image."""
    there = project(H, points0, reference=centre(size))
    return np.nan_to_num(np.linalg.norm(there - points1, axis=1), nan=np.inf)
