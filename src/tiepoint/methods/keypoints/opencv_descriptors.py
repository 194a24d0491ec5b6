# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's descriptors at given keypoints, row by row.

OpenCV may drop keypoints near the border and may change their order. Each keypoint therefore carries its row
number (`class_id`) into OpenCV and back, and rows that did not come back are failures, never shifts. A
keypoint without orientation is described upright (angle 0; OpenCV's unset angle, -1, would mean -1 degree).
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

Image = NDArray[np.uint8]
Described = tuple[NDArray[Any], NDArray[np.bool_]]


def cv_keypoints(keypoints: Keypoints, octave: NDArray[np.int64] | int = 0) -> list[Any]:
    """OpenCV keypoints with their row number as class_id, upright where they have no angle."""
    angles = np.nan_to_num(keypoints.angle_deg, nan=0.0)
    octaves = np.broadcast_to(octave, len(keypoints))
    return [
        cv2.KeyPoint(float(x), float(y), float(s), float(a), 0.0, int(o), i)
        for i, ((x, y), s, a, o) in enumerate(
            zip(keypoints.xy, keypoints.size_px, angles, octaves, strict=True)
        )
    ]


def compute_descriptors(extractor: Any, grey: Image, points: list[Any], width: int, dtype: Any) -> Described:
    """Descriptors by row, (n, width), and which rows OpenCV described; a zero row of reals failed."""
    values = np.zeros((len(points), width), dtype)
    valid = np.zeros(len(points), bool)
    kept, found = extractor.compute(grey, points)
    if found is not None and len(found):
        rows = np.array([k.class_id for k in kept], np.int64)
        values[rows], valid[rows] = found, True
    if np.issubdtype(dtype, np.floating):
        valid &= np.isfinite(values).all(axis=1) & values.any(axis=1)
        values[~valid] = 0
    return values, valid


class OpenCVDescriptor:
    """Describes keypoints of the grey image; subclasses make OpenCV's object and say what it gives."""

    distance = "hamming"
    dimension = 32
    dtype: Any = np.uint8
    libraries = ("cv2", "numpy")

    def extractor(self) -> Any:
        """OpenCV's object."""
        raise NotImplementedError

    def points(self, keypoints: Keypoints) -> list[Any]:
        """Keypoints as this descriptor needs them."""
        return cv_keypoints(keypoints)

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """(n, dimension) and which rows OpenCV described."""
        return compute_descriptors(
            self.extractor(), to_grey(image), self.points(keypoints), self.dimension, self.dtype
        )


@dataclass(eq=False)
class OrbDescriptor(OpenCVDescriptor):
    """Rotated BRIEF, 256 bits, at the pyramid level whose 31-px patch is nearest to the keypoint's size."""

    scale_factor: float = 1.2
    n_levels: int = 8
    edge_threshold: int = 31

    def extractor(self) -> Any:
        """ORB; keypoints nearer to the edge than the threshold fail."""
        return opencv("ORB_create")(500, self.scale_factor, self.n_levels, self.edge_threshold)

    def points(self, keypoints: Keypoints) -> list[Any]:
        """Octave from the size."""
        level = np.rint(np.log(keypoints.size_px / 31) / np.log(self.scale_factor))
        return cv_keypoints(keypoints, np.clip(level, 0, self.n_levels - 1).astype(np.int64))


@dataclass(eq=False)
class BriefDescriptor(OpenCVDescriptor):
    """256 intensity comparisons in 48 px at one scale, rotated with the keypoint if `rotate`."""

    rotate: bool = False

    def extractor(self) -> Any:
        """BRIEF-32; the size of a keypoint has no effect."""
        return opencv("BriefDescriptorExtractor_create")(32, self.rotate)


class BriskDescriptor(OpenCVDescriptor):
    """512 comparisons on rings, at the keypoint's size; the orientation is its own."""

    dimension = 64

    def extractor(self) -> Any:
        """BRISK."""
        return opencv("BRISK_create")()


@dataclass(eq=False)
class FreakDescriptor(OpenCVDescriptor):
    """512 comparisons on a retina; `pattern_scale` 22 px at the smallest scale, its own orientation."""

    dimension = 64
    orientation: bool = True
    pattern_scale: float = 22.0
    n_octaves: int = 4

    def extractor(self) -> Any:
        """FREAK."""
        return opencv("FREAK_create")(self.orientation, True, self.pattern_scale, self.n_octaves)


@dataclass(eq=False)
class LatchDescriptor(OpenCVDescriptor):
    """256 comparisons of patch triplets in 48 px at one scale, rotated with the keypoint if `rotate`."""

    rotate: bool = True
    half_window_px: int = 3
    sigma: float = 2.0

    def extractor(self) -> Any:
        """LATCH-32."""
        return opencv("LATCH_create")(32, self.rotate, self.half_window_px, self.sigma)


@dataclass(eq=False)
class DaisyDescriptor(OpenCVDescriptor):
    """25 histograms of 8 directions on three rings within `radius_px`, each normalised, at one scale."""

    distance, dimension, dtype = "l2", 200, np.float32
    radius_px: float = 15.0
    rotate: bool = True

    def extractor(self) -> Any:
        """DAISY, interpolated, rotated with the keypoint."""
        how = opencv("DAISY_NRM_PARTIAL")
        return opencv("DAISY_create")(
            self.radius_px, 3, 8, 8, how, interpolation=True, use_orientation=self.rotate
        )


@dataclass(eq=False)
class MagnifiedDescriptor(OpenCVDescriptor):
    """What describes `magnification` times the keypoint's size."""

    magnification: float = 6.25

    def __post_init__(self) -> None:
        self.magnification = float(self.magnification)


class VggDescriptor(MagnifiedDescriptor):
    """Learned pooling and projection, 120 numbers."""

    distance, dimension, dtype = "l2", 120, np.float32

    def extractor(self) -> Any:
        """VGG trained on Liberty."""
        return opencv("VGG_create")(scale_factor=self.magnification)


class BoostDescDescriptor(MagnifiedDescriptor):
    """BinBoost, 256 bits."""

    def extractor(self) -> Any:
        """BinBoost-256."""
        return opencv("BoostDesc_create")(scale_factor=self.magnification)


@dataclass(eq=False)
class BeblidDescriptor(MagnifiedDescriptor):
    """512 boosted box comparisons; `magnification` 6.75 suits SIFT, 6.25 SURF and KAZE, 5 FAST, 1 ORB."""

    dimension = 64
    magnification: float = 6.75

    def extractor(self) -> Any:
        """BEBLID-512."""
        return opencv("BEBLID_create")(self.magnification, opencv("BEBLID_SIZE_512_BITS"))


class TeblidDescriptor(BeblidDescriptor):
    """256 triplet-trained box comparisons; magnification as for `beblid`."""

    dimension = 32

    def extractor(self) -> Any:
        """TEBLID-256."""
        return opencv("TEBLID_create")(self.magnification, opencv("TEBLID_SIZE_256_BITS"))
