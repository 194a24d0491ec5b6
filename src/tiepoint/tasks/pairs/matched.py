# SPDX-License-Identifier: BSD-3-Clause
"""How far the matches of a pair are from its truth: epipolar lines of its cameras, or its homography."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...datasets.image_pairs.pair import ImagePair
from ...formats.image.reader import read_image
from ...geometry.homography import project
from ...geometry.two_view.eight_point import MIN_POINTS_EIGHT_POINT, eight_point
from ...geometry.two_view.epipolar import fundamental
from ...geometry.two_view.epipolar_part import line_distances
from ...geometry.two_view.pose_errors import has_baseline
from ..matched import MatchedPair

Floats = NDArray[np.float64]
LINES = "mean distance to the true epipolar lines of both images"
PLACES = "distance to the true place in image 1"


def match_errors(
    pair: ImagePair, points0: Floats, points1: Floats, confidence: Floats | None = None
) -> MatchedPair:
    """The matches of a pair with their errors.

    By K and T the mean of both distances to the epipolar lines, in pixels of each image, or where the cameras
    share their centre the distance to the place that the rotation gives; by clicked correspondences the same
    distance under the F that fits these best (at least eight are needed); by H the distance |H x0 - x1|.
    """
    F, H, measure = _truth(pair)
    errors: Floats | None = None
    if F is not None:
        errors = np.asarray(line_distances(points0, points1, F), np.float64)
    elif H is not None:
        width, height = pair.sizes()[0]
        there = project(H, points0, reference=((width - 1) / 2, (height - 1) / 2))
        errors = np.nan_to_num(np.linalg.norm(there - points1, axis=1), nan=np.inf)
    sizes = pair.sizes()
    return MatchedPair(
        pair.name, _image_paths(pair), sizes, points0, points1, errors, measure, F, H, confidence
    )


def transfer_errors(pair: ImagePair, asked: Floats, answers: Floats, true: Floats) -> MatchedPair:
    """Points (q, 2) of image 0 and their answers, with the distance to where they belong.

    Points without a finite answer are left out, which the words about the error say.
    """
    known = np.asarray(np.isfinite(answers).all(axis=1), bool)
    missing = int((~known).sum())
    some = f"; {missing} of {len(known)} points have no answer" if missing else ""
    errors = np.linalg.norm(answers[known] - true[known], axis=1)
    images, sizes = _image_paths(pair), pair.sizes()
    return MatchedPair(pair.name, images, sizes, asked[known], answers[known], errors, f"{PLACES}{some}")


def _truth(pair: ImagePair) -> tuple[Floats | None, Floats | None, str]:
    """F and H for points whose first centre is (0, 0), at most one of them, and what an error is."""
    if pair.K0 is not None and pair.K1 is not None and pair.T_0to1 is not None:
        T = np.asarray(pair.T_0to1, np.float64)
        shift = np.array([[1, 0, pair.centre], [0, 1, pair.centre], [0, 0, 1]])
        if has_baseline(T[:3, 3]):
            return shift.T @ fundamental(pair.K0, pair.K1, T) @ shift, None, LINES
        H = np.linalg.inv(shift) @ pair.K1 @ T[:3, :3] @ np.linalg.inv(pair.K0) @ shift
        return None, np.asarray(H / H[2, 2], np.float64), f"{PLACES}, as the cameras share their centre"
    if "H" in pair.truth:
        return None, np.asarray(pair.truth["H"], np.float64), PLACES
    clicked = np.asarray(pair.truth.get("corrs", np.empty((0, 4))), np.float64)
    if len(clicked) < MIN_POINTS_EIGHT_POINT:
        return None, None, ""
    fitted = f"{LINES}, of an F fitted to {len(clicked)} clicked correspondences"
    return eight_point(clicked[:, :2], clicked[:, 2:]), None, fitted


def _image_paths(pair: ImagePair) -> tuple[NDArray[np.uint8] | None, NDArray[np.uint8] | None]:
    found = [
        np.ascontiguousarray(np.rot90(read_image(path), turns))
        if path is not None and path.is_file()
        else None
        for path, turns in zip((pair.image0, pair.image1), pair.turns, strict=True)
    ]
    return found[0], found[1]
