# SPDX-License-Identifier: BSD-3-Clause
"""Corner tracking (`klt`), a matcher that receives both images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...formats.image.reader import to_grey

Image = NDArray[np.uint8]
Points = NDArray[np.float64]


@dataclass(eq=False)
class Klt:
    """KLT tracker: corners of image 1 are tracked to image 2 and back by pyramidal Lucas-Kanade.

    The initial displacement is a global image shift, estimated by phase correlation. A track is returned if
    the point tracked back is within `back_px` of its start. Its confidence is 1 - distance / `back_px`. The
    tracker works for small motions and fails if the camera rotates about its optical axis.
    """

    name = "klt"
    libraries = ("cv2", "numpy")
    max_features: int = 2000
    window_px: int = 21
    levels: int = 4
    back_px: float = 1.0

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points, Points]:
        """Return the positions of tracked corners in both images and their confidence."""
        (h1, w1), (h2, w2) = image1.shape[:2], image2.shape[:2]
        first, second = (_padded(to_grey(i), max(h1, h2), max(w1, w2)) for i in (image1, image2))
        start: Any = cv2.goodFeaturesToTrack(first[:h1, :w1], self.max_features, 0.01, 3)
        if start is None:
            return np.empty((0, 2)), np.empty((0, 2)), np.empty(0)
        shift = _shift(first, second)
        settings: dict[str, Any] = {
            "winSize": (self.window_px, self.window_px),
            "maxLevel": self.levels,
            "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
        }
        end, there, _ = cv2.calcOpticalFlowPyrLK(first, second, start, start + shift, **settings)
        again, back, _ = cv2.calcOpticalFlowPyrLK(second, first, end, end - shift, **settings)
        away = np.linalg.norm((again - start).reshape(-1, 2).astype(np.float64), axis=1)
        points0, points1 = (p.reshape(-1, 2).astype(np.float64) for p in (start, end))
        inside = ((points1 >= 0) & (points1 <= [w2 - 1, h2 - 1])).all(axis=1)
        kept = (there.ravel() == 1) & (back.ravel() == 1) & (away < self.back_px) & inside
        return points0[kept], points1[kept], 1 - away[kept] / self.back_px


def _padded(grey: Image, height: int, width: int) -> Image:
    """Pad an image at the bottom and right with its mean value."""
    more = ((0, height - grey.shape[0]), (0, width - grey.shape[1]))
    return np.ascontiguousarray(np.pad(grey, more, constant_values=round(float(grey.mean()))))


def _shift(first: Image, second: Image) -> NDArray[np.float32]:
    """Return the translation (2,) from the first image to the second, in pixels."""
    one, two = (np.asarray(i, np.float32) for i in (first, second))
    moved, _ = cv2.phaseCorrelate(one - one.mean(), two - two.mean())
    return np.asarray(moved, np.float32)
