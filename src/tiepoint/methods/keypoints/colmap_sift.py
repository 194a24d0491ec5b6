# SPDX-License-Identifier: BSD-3-Clause
"""``colmap-sift``: the SIFT of COLMAP, through pycolmap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints

CENTRE = 0.5
"""Coordinate of the first pixel's centre in COLMAP. In tiepoint it is 0."""


class ColmapSift:
    """SIFT keypoints and descriptors of COLMAP (pycolmap).

    Descriptors are l1-normalised and square-rooted, as in RootSIFT. COLMAP stores them as bytes, so the
    values are integers from 0 to 255. The size of a keypoint is twice its scale, as in OpenCV.
    """

    name, libraries = "colmap-sift", ("numpy", "pycolmap")
    rooted = True

    def __init__(self, max_features: int = 8192) -> None:
        import pycolmap

        options = pycolmap.FeatureExtractionOptions()
        options.num_threads, options.use_gpu = 1, False
        options.sift.max_num_features = max_features
        pycolmap.logging.minloglevel = 2
        self._bitmap = pycolmap.Bitmap
        self._extractor = pycolmap.FeatureExtractor.create(options, device=pycolmap.Device.cpu)
        self.max_features = max_features
        self.config = {"max_features": max_features}

    def extract(self, image: NDArray[np.uint8]) -> tuple[Keypoints, NDArray[np.float32]]:
        """Return the keypoints and descriptors of an RGB image."""
        colour = np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
        grey = self._bitmap.from_array(np.ascontiguousarray(colour)).clone_as_grey()
        places, found = self._extractor.extract(grey)
        rows: Any = [(p.x, p.y, p.a11, p.a21) for p in places]
        table = np.array(rows, np.float64).reshape(-1, 4)
        keypoints = Keypoints.at(
            table[:, :2] - CENTRE,
            size_px=2 * np.hypot(table[:, 2], table[:, 3]),
            angle_deg=np.degrees(np.arctan2(table[:, 3], table[:, 2])),
        )
        return keypoints, np.asarray(found.data, np.float32).reshape(len(table), -1)
