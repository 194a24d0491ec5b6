# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's detectors with their own thresholds, and the order and limit of `CappedDetector`.

Every class finds all keypoints above its thresholds, then keeps the `max_features` strongest inside the
border. Only ORB receives the number beforehand, because it divides it between the levels of its pyramid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..patches.opencv import opencv
from .detectors import CappedDetector

Image = NDArray[np.uint8]
_ALL = 1_000_000


class OpenCVDetector(CappedDetector):
    """Base of OpenCV's detectors on the grey image."""

    libraries = ("cv2", "numpy")
    oriented = True
    """Whether angles are meaningful; otherwise they become NaN."""

    def detector(self) -> Any:
        """Return OpenCV's object."""
        raise NotImplementedError

    def detect(self, image: Image) -> Keypoints:
        """Return the keypoints of an image, strongest first."""
        found = Keypoints.from_cv(self.detector().detect(to_grey(image)))
        if not self.oriented:
            found = Keypoints.at(
                found.xy, size_px=found.size_px, response=found.response, octave=found.octave,
                class_id=found.class_id,
            )  # fmt: skip
        return self.select(found, image)


@dataclass(eq=False)
class SiftDetector(OpenCVDetector):
    """Extrema of differences of Gaussians; one keypoint for every strong orientation."""

    contrast_threshold: float = 0.04
    edge_threshold: float = 10.0
    sigma: float = 1.6
    n_octave_layers: int = 3

    def detector(self) -> Any:
        """Return SIFT without its own limit."""
        return opencv("SIFT_create")(
            0, self.n_octave_layers, self.contrast_threshold, self.edge_threshold, self.sigma
        )


@dataclass(eq=False)
class OrbDetector(OpenCVDetector):
    """FAST corners in a pyramid, ranked by Harris, with the direction of the intensity centroid."""

    scale_factor: float = 1.2
    n_levels: int = 8
    edge_threshold: int = 31
    fast_threshold: int = 20

    def detector(self) -> Any:
        """Return ORB with the limit."""
        shape = (self.scale_factor, self.n_levels, self.edge_threshold)
        return opencv("ORB_create")(self.max_features or _ALL, *shape, fastThreshold=self.fast_threshold)


@dataclass(eq=False)
class AkazeDetector(OpenCVDetector):
    """Hessian extrema in a nonlinear scale space, fast."""

    threshold: float = 0.001
    n_octaves: int = 4
    n_octave_layers: int = 4

    def detector(self) -> Any:
        """Return AKAZE with M-LDB, which estimates orientations while detecting."""
        return opencv("AKAZE_create")(
            threshold=self.threshold, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers
        )


class KazeDetector(AkazeDetector):
    """Hessian extrema in a nonlinear scale space, by additive operator splitting.

    Keypoints have no orientation: the descriptor estimates it.
    """

    oriented = False

    def detector(self) -> Any:
        """Return KAZE, rotation invariant."""
        return opencv("KAZE_create")(
            threshold=self.threshold, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers
        )


@dataclass(eq=False)
class BriskDetector(OpenCVDetector):
    """AGAST corners in a scale space, without orientation: the descriptor estimates it."""

    oriented = False
    threshold: int = 30
    octaves: int = 3

    def detector(self) -> Any:
        """Return BRISK."""
        return opencv("BRISK_create")(self.threshold, self.octaves)


@dataclass(eq=False)
class Fast(OpenCVDetector):
    """Segment-test corners at one scale; size is 7 px, the diameter of the tested circle."""

    oriented = False
    threshold: int = 10
    suppress: bool = True

    def detector(self) -> Any:
        """Return FAST 9-16."""
        return opencv("FastFeatureDetector_create")(self.threshold, self.suppress)


class Agast(Fast):
    """Segment-test corners by the adaptive decision tree."""

    def detector(self) -> Any:
        """Return AGAST 9-16."""
        return opencv("AgastFeatureDetector_create")(self.threshold, self.suppress)


@dataclass(eq=False)
class Mser(OpenCVDetector):
    """Centres of maximally stable regions; size is the diameter of the circle around the region.

    OpenCV returns no strength; the size replaces it, so that the limit keeps large regions.
    """

    oriented = False
    delta: int = 5
    min_area: int = 60
    max_area: int = 14400
    max_variation: float = 0.25

    def detector(self) -> Any:
        """Return MSER on grey values."""
        return opencv("MSER_create")(self.delta, self.min_area, self.max_area, self.max_variation)

    def detect(self, image: Image) -> Keypoints:
        """Return keypoints with the size as response."""
        found = Keypoints.from_cv(self.detector().detect(to_grey(image)))
        ranked = Keypoints.at(found.xy, size_px=found.size_px, response=found.size_px)
        return self.select(ranked, image)


@dataclass(eq=False)
class Gftt(OpenCVDetector):
    """Good features to track: maxima of the smaller eigenvalue of the structure tensor.

    One scale: `block_px` is the window and becomes the size. The response is the eigenvalue, which OpenCV's
    detector does not return.
    """

    oriented = False
    quality: float = 0.01
    min_distance_px: float = 1.0
    block_px: int = 3

    def detect(self, image: Image) -> Keypoints:
        """Return corners above `quality` times the best response."""
        grey = to_grey(image)
        corners = cv2.goodFeaturesToTrack(
            grey, 0, self.quality, self.min_distance_px, blockSize=self.block_px
        )
        xy = np.empty((0, 2)) if corners is None else corners.reshape(-1, 2).astype(np.float64)
        strength = cv2.cornerMinEigenVal(grey, self.block_px)
        at = np.rint(xy).astype(np.int64)
        found = Keypoints.at(xy, size_px=float(self.block_px), response=strength[at[:, 1], at[:, 0]])
        return self.select(found, image)
