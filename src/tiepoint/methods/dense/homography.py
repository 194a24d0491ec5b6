# SPDX-License-Identifier: BSD-3-Clause
"""`homography`: one plane for the whole image, from SIFT matches and MAGSAC."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...formats.image.read import to_grey
from ...geometry.flow.rules import UNKNOWN
from ...geometry.flow.warp import homography_flow, lands_inside

Image = NDArray[np.uint8]
_FEWEST = 4


class Homography:
    """SIFT, mutual ratio matches, MAGSAC with a fixed seed; without a homography the flow is unknown.

    The mask of an image is where the homography lands inside the other image.
    """

    name, libraries = "homography", ("cv2", "numpy")

    def __init__(self, ratio: float = 0.85, threshold_px: float = 3.0, seed: int = 0) -> None:
        self.ratio, self.threshold_px, self.seed = ratio, threshold_px, seed

    def match_both(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Flows and masks of both images."""
        h = self.estimate(image1, image2)
        back = None if h is None or abs(np.linalg.det(h)) < 1e-12 else np.linalg.inv(h).astype(np.float64)
        size1, size2 = (
            (int(image1.shape[0]), int(image1.shape[1])),
            (int(image2.shape[0]), int(image2.shape[1])),
        )
        flow1, flow2 = _flow(h, size1), _flow(back, size2)
        masks = {"mask1": lands_inside(flow1, size2), "mask2": lands_inside(flow2, size1)}
        return {"flow1": flow1, "flow2": flow2, **masks}

    def estimate(self, image1: Image, image2: Image) -> NDArray[np.float64] | None:
        """Homography from image 1 to image 2, None where fewer than four matches agree."""
        points1, points2 = sift_matches(image1, image2, ratio=self.ratio)
        if len(points1) < _FEWEST:
            return None
        params = cv2.UsacParams()
        params.threshold = self.threshold_px
        params.maxIterations = 5000
        params.confidence = 0.999
        params.randomGeneratorState = self.seed
        params.score = cv2.SCORE_METHOD_MAGSAC
        params.sampler = cv2.SAMPLING_UNIFORM
        params.loMethod = cv2.LOCAL_OPTIM_SIGMA
        h, _ = cv2.findHomography(points1, points2, params)
        return None if h is None else np.asarray(h, np.float64)


def sift_matches(
    image1: Image, image2: Image, *, ratio: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions (n, 2) in both images of SIFT matches that are mutual and pass the ratio test."""
    sift = cv2.SIFT.create(nfeatures=4000)
    (k1, d1), (k2, d2) = (sift.detectAndCompute(to_grey(i), None) for i in (image1, image2))
    if d1 is None or d2 is None or len(k1) < 2 or len(k2) < 2:
        return np.empty((0, 2)), np.empty((0, 2))
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    forward = {
        m.queryIdx: m.trainIdx for m, n in matcher.knnMatch(d1, d2, k=2) if m.distance < ratio * n.distance
    }
    backward = {m.queryIdx: m.trainIdx for (m,) in matcher.knnMatch(d2, d1, k=1)}
    kept = [(i, j) for i, j in forward.items() if backward.get(j) == i]
    points1 = np.array([k1[i].pt for i, _ in kept], np.float64).reshape(-1, 2)
    points2 = np.array([k2[j].pt for _, j in kept], np.float64).reshape(-1, 2)
    return points1, points2


def _flow(h: NDArray[np.float64] | None, size: tuple[int, int]) -> NDArray[np.float64]:
    return np.full((*size, 2), UNKNOWN) if h is None else homography_flow(h, size)
