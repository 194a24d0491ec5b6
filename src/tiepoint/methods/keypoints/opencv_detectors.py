# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's detectors, with keypoints selected by `CappedDetector`.

OpenCV detects all keypoints above its thresholds. The class then selects the `max_features` strongest
keypoints inside the border. Only ORB passes `max_features` to OpenCV, which divides it between pyramid
levels.
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
    """Whether keypoint angles are meaningful. If False, angles become NaN."""

    def detector(self) -> Any:
        """Create OpenCV's detector."""
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
    """SIFT detector: extrema of differences of Gaussians, one keypoint for every strong orientation.

    With `precise_upscale` False, OpenCV's default, x and y are 0.25 px too large.
    """

    contrast_threshold: float = 0.04
    edge_threshold: float = 10.0
    sigma: float = 1.6
    n_octave_layers: int = 3
    precise_upscale: bool = True

    def detector(self) -> Any:
        """Create SIFT without a maximum number of keypoints."""
        return opencv("SIFT_create")(
            0, self.n_octave_layers, self.contrast_threshold, self.edge_threshold, self.sigma,
            enable_precise_upscale=self.precise_upscale,
        )  # fmt: skip


@dataclass(eq=False)
class OrbDetector(OpenCVDetector):
    """ORB detector: FAST corners in a pyramid, ranked by Harris response, oriented by intensity centroid."""

    scale_factor: float = 1.2
    n_levels: int = 8
    edge_threshold: int = 31
    fast_threshold: int = 20

    def detector(self) -> Any:
        """Create ORB with `max_features` as its number of keypoints."""
        shape = (self.scale_factor, self.n_levels, self.edge_threshold)
        return opencv("ORB_create")(self.max_features or _ALL, *shape, fastThreshold=self.fast_threshold)


@dataclass(eq=False)
class AkazeDetector(OpenCVDetector):
    """AKAZE detector: Hessian extrema in a nonlinear scale space that is faster to compute than KAZE's."""

    threshold: float = 0.001
    n_octaves: int = 4
    n_octave_layers: int = 4

    def detector(self) -> Any:
        """Create AKAZE with M-LDB descriptors, for which OpenCV estimates orientations."""
        return opencv("AKAZE_create")(
            threshold=self.threshold, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers
        )


class KazeDetector(AkazeDetector):
    """KAZE detector: Hessian extrema in a nonlinear scale space, by additive operator splitting.

    Keypoints have no orientation, because the KAZE descriptor estimates it.
    """

    oriented = False

    def detector(self) -> Any:
        """Create KAZE with rotation invariance."""
        return opencv("KAZE_create")(
            threshold=self.threshold, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers
        )


@dataclass(eq=False)
class BriskDetector(OpenCVDetector):
    """BRISK detector: AGAST corners in a scale space. Orientations are left to the BRISK descriptor."""

    oriented = False
    threshold: int = 30
    octaves: int = 3

    def detector(self) -> Any:
        """Create BRISK."""
        return opencv("BRISK_create")(self.threshold, self.octaves)


@dataclass(eq=False)
class Fast(OpenCVDetector):
    """FAST detector: segment-test corners at one scale. The size is 7 px, the tested circle's diameter."""

    oriented = False
    threshold: int = 10
    suppress: bool = True

    def detector(self) -> Any:
        """Create FAST 9-16."""
        return opencv("FastFeatureDetector_create")(self.threshold, self.suppress)


class Agast(Fast):
    """AGAST detector: segment-test corners found by an adaptive decision tree."""

    def detector(self) -> Any:
        """Create AGAST 9-16."""
        return opencv("AgastFeatureDetector_create")(self.threshold, self.suppress)


@dataclass(eq=False)
class Mser(OpenCVDetector):
    """MSER detector: centres of maximally stable regions. The keypoint's size is that of the region.

    OpenCV returns no response for a region. The size is used as the response, so that large regions are
    selected first.
    """

    oriented = False
    delta: int = 5
    min_area: int = 60
    max_area: int = 14400
    max_variation: float = 0.25

    def detector(self) -> Any:
        """Create MSER for grey values."""
        return opencv("MSER_create")(self.delta, self.min_area, self.max_area, self.max_variation)

    def detect(self, image: Image) -> Keypoints:
        """Return keypoints with the size as response."""
        found = Keypoints.from_cv(self.detector().detect(to_grey(image)))
        ranked = Keypoints.at(found.xy, size_px=found.size_px, response=found.size_px)
        return self.select(ranked, image)


@dataclass(eq=False)
class Gftt(OpenCVDetector):
    """Good features to track: maxima of the smaller eigenvalue of the structure tensor.

    Corners are detected at one scale. `block_px` is the side of the window and the size of all keypoints. The
    response is the eigenvalue; OpenCV's own detector does not return it.
    """

    oriented = False
    quality: float = 0.01
    min_distance_px: float = 1.0
    block_px: int = 3

    def detect(self, image: Image) -> Keypoints:
        """Return corners with a response above `quality` times the largest response."""
        grey = to_grey(image)
        corners = cv2.goodFeaturesToTrack(
            grey, 0, self.quality, self.min_distance_px, blockSize=self.block_px
        )
        xy = np.empty((0, 2)) if corners is None else corners.reshape(-1, 2).astype(np.float64)
        strength = cv2.cornerMinEigenVal(grey, self.block_px)
        at = np.rint(xy).astype(np.int64)
        found = Keypoints.at(xy, size_px=float(self.block_px), response=strength[at[:, 1], at[:, 0]])
        return self.select(found, image)
