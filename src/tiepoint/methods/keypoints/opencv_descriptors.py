# SPDX-License-Identifier: BSD-3-Clause
"""OpenCV's descriptors at given keypoints, one row per keypoint.

OpenCV may drop keypoints near the border and change their order. Each keypoint therefore stores its row
number in `class_id`. A dropped keypoint counts as a failure. A keypoint without orientation is described
upright, with angle 0. OpenCV would interpret its unset angle (-1) as -1 degree.
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
from ..transforms import rootsift

Image = NDArray[np.uint8]
Described = tuple[NDArray[Any], NDArray[np.bool_]]


def cv_keypoints(keypoints: Keypoints, octave: NDArray[np.int64] | int = 0) -> list[Any]:
    """Return OpenCV keypoints with their row number as class_id, upright if they have no angle."""
    angles = np.nan_to_num(keypoints.angle_deg, nan=0.0)
    octaves = np.broadcast_to(octave, len(keypoints))
    return [
        cv2.KeyPoint(float(x), float(y), float(s), float(a), 0.0, int(o), i)
        for i, ((x, y), s, a, o) in enumerate(
            zip(keypoints.xy, keypoints.size_px, angles, octaves, strict=True)
        )
    ]


def compute_descriptors(extractor: Any, grey: Image, points: list[Any], width: int, dtype: Any) -> Described:
    """Return descriptors (n, width) and a mask (n,) of described rows. Real-valued zero rows are failures."""
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
    """Base of OpenCV's descriptors, computed at keypoints of the grey image."""

    distance = "hamming"
    dimension = 32
    dtype: Any = np.uint8
    libraries = ("cv2", "numpy")

    def extractor(self) -> Any:
        """Create OpenCV's extractor."""
        raise NotImplementedError

    def points(self, keypoints: Keypoints) -> list[Any]:
        """Return OpenCV keypoints with the octave, size and angle that this descriptor requires."""
        return cv_keypoints(keypoints)

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, dimension) and a mask (n,) of rows that OpenCV described."""
        return compute_descriptors(
            self.extractor(), to_grey(image), self.points(keypoints), self.dimension, self.dtype
        )


@dataclass(eq=False)
class OrbDescriptor(OpenCVDescriptor):
    """ORB, 256 bits, at the pyramid level whose 31-px patch is closest to the keypoint's size."""

    scale_factor: float = 1.2
    n_levels: int = 8
    edge_threshold: int = 31

    def extractor(self) -> Any:
        """Create ORB. Keypoints closer to the image edge than its edge threshold fail."""
        return opencv("ORB_create")(500, self.scale_factor, self.n_levels, self.edge_threshold)

    def points(self, keypoints: Keypoints) -> list[Any]:
        """Return OpenCV keypoints with the octave that corresponds to their size."""
        level = np.rint(np.log(keypoints.size_px / 31) / np.log(self.scale_factor))
        return cv_keypoints(keypoints, np.clip(level, 0, self.n_levels - 1).astype(np.int64))


@dataclass(eq=False)
class BriefDescriptor(OpenCVDescriptor):
    """BRIEF, 256 intensity comparisons within 48 px at one scale, rotated with the keypoint if `rotate`."""

    rotate: bool = False

    def extractor(self) -> Any:
        """Create BRIEF with 32 bytes. The size of a keypoint has no effect."""
        return opencv("BriefDescriptorExtractor_create")(32, self.rotate)


class BriskDescriptor(OpenCVDescriptor):
    """BRISK, 512 comparisons on rings at the keypoint's size. BRISK estimates the orientation."""

    dimension = 64

    def extractor(self) -> Any:
        """Create BRISK."""
        return opencv("BRISK_create")()


@dataclass(eq=False)
class FreakDescriptor(OpenCVDescriptor):
    """FREAK, 512 comparisons on a retina pattern of size `pattern_scale`. FREAK estimates the orientation."""

    dimension = 64
    orientation: bool = True
    pattern_scale: float = 22.0
    n_octaves: int = 4

    def extractor(self) -> Any:
        """Create FREAK."""
        return opencv("FREAK_create")(self.orientation, True, self.pattern_scale, self.n_octaves)


@dataclass(eq=False)
class LatchDescriptor(OpenCVDescriptor):
    """LATCH, 256 triplet comparisons within 48 px at one scale, rotated with the keypoint if `rotate`."""

    rotate: bool = True
    half_window_px: int = 3
    sigma: float = 2.0

    def extractor(self) -> Any:
        """Create LATCH with 32 bytes."""
        return opencv("LATCH_create")(32, self.rotate, self.half_window_px, self.sigma)


@dataclass(eq=False)
class DaisyDescriptor(OpenCVDescriptor):
    """DAISY, 25 normalised histograms of 8 directions on three rings within `radius_px`, at one scale."""

    distance, dimension, dtype = "l2", 200, np.float32
    radius_px: float = 15.0
    rotate: bool = True

    def extractor(self) -> Any:
        """Create DAISY with interpolation, rotated with the keypoint."""
        how = opencv("DAISY_NRM_PARTIAL")
        return opencv("DAISY_create")(
            self.radius_px, 3, 8, 8, how, interpolation=True, use_orientation=self.rotate
        )


@dataclass(eq=False)
class MagnifiedDescriptor(OpenCVDescriptor):
    """Base of descriptors that cover `magnification` times the keypoint's size."""

    magnification: float = 6.25

    def __post_init__(self) -> None:
        self.magnification = float(self.magnification)


class VggDescriptor(MagnifiedDescriptor):
    """VGG, a learned pooling and projection, 120 values."""

    distance, dimension, dtype = "l2", 120, np.float32

    def extractor(self) -> Any:
        """Create VGG with the model trained on Liberty."""
        return opencv("VGG_create")(scale_factor=self.magnification)


class BoostDescDescriptor(MagnifiedDescriptor):
    """BinBoost, 256 bits."""

    def extractor(self) -> Any:
        """Create BinBoost with 256 bits."""
        return opencv("BoostDesc_create")(scale_factor=self.magnification)


@dataclass(eq=False)
class BeblidDescriptor(MagnifiedDescriptor):
    """BEBLID, 512 bits. Use `magnification` 6.75 for SIFT, 6.25 for SURF and KAZE, 5 for FAST, 1 for ORB."""

    dimension = 64
    magnification: float = 6.75

    def extractor(self) -> Any:
        """Create BEBLID with 512 bits."""
        return opencv("BEBLID_create")(self.magnification, opencv("BEBLID_SIZE_512_BITS"))


class TeblidDescriptor(BeblidDescriptor):
    """TEBLID, 256 bits. See `BeblidDescriptor` for `magnification`."""

    dimension = 32

    def extractor(self) -> Any:
        """Create TEBLID with 256 bits."""
        return opencv("TEBLID_create")(self.magnification, opencv("TEBLID_SIZE_256_BITS"))


DIMENSION = 128


def packed_octaves(
    size_px: NDArray[np.float64], sigma: float, layers: int, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return OpenCV's packed octave (octave & 255 | layer << 8) of SIFT keypoints, computed from their sizes.

    A SIFT keypoint of octave o and layer l has size 2 sigma 2^(o + l/layers). Octaves begin at -1, the
    doubled image, and layers at 1. The keypoints' own `octave` is ignored, because other detectors use it
    differently. `shape` (h, w) limits the octave.

    >>> packed_octaves(np.array([2 * 1.6 * 2 ** (1 / 3)]), 1.6, 3, (100, 100)).tolist()
    [256]
    """
    step = np.rint(np.log2(np.maximum(size_px, 1e-3) / (2 * sigma)) * layers)
    octave = np.floor((step - 1) / layers)
    deepest = max(-1, int(np.floor(np.log2(min(shape[:2])))) - 3)
    octave = np.clip(octave, -1, deepest)
    layer = np.clip(step - octave * layers, 1, layers)
    return (octave.astype(np.int64) & 255) | (layer.astype(np.int64) << 8)


class SiftDescriptor:
    """SIFT of OpenCV, 128 values from 0 to 255. The 4 x 4 grid spans 6 times the keypoint's size.

    At SIFT keypoints of the same `precise_upscale` the result equals OpenCV's own descriptors. With False,
    OpenCV's default, the grid is centred 0.25 px left of and above the keypoint. OpenCV omits the doubled
    image from its pyramid if no keypoint needs it. This class always includes it, so that a descriptor does
    not depend on the other keypoints.
    """

    name, distance, libraries = "sift", "l2", ("cv2", "numpy")

    def __init__(self, sigma: float = 1.6, n_octave_layers: int = 3, precise_upscale: bool = True) -> None:
        self.sigma, self.n_octave_layers, self.precise_upscale = sigma, n_octave_layers, precise_upscale

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, 128), integers in float32, and a mask (n,) of nonzero rows."""
        return self._on(to_grey(image), keypoints)

    def _on(self, channel: Image, keypoints: Keypoints) -> Described:
        octaves = packed_octaves(keypoints.size_px, self.sigma, self.n_octave_layers, channel.shape)
        points = cv_keypoints(keypoints, octaves)
        doubled = cv2.KeyPoint(0.0, 0.0, 1.0, 0.0, 0.0, 255 | 1 << 8, len(points))
        extractor: Any = opencv("SIFT_create")(
            0, self.n_octave_layers, 0.04, 10.0, self.sigma, enable_precise_upscale=self.precise_upscale
        )
        values, valid = compute_descriptors(extractor, channel, [*points, doubled], DIMENSION, np.float32)
        return values[:-1], valid[:-1]


class RootSiftDescriptor(SiftDescriptor):
    """RootSIFT: square root of the l1-normalised `sift`. Its l2 distance is the Hellinger distance."""

    name, rooted = "rootsift", True

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, 128) of length 1, and a mask (n,) of nonzero rows."""
        values, valid = super().describe(image, keypoints)
        return rootsift(values), valid


class RgbSift(SiftDescriptor):
    """SIFT of the red, green and blue channel, concatenated, 384 values.

    Each channel is normalised as in SIFT, so channels have equal weight. A channel without gradient
    contributes zeros. The keypoint fails if all three channels are zero.
    """

    name = "rgbsift"

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, 384), and a mask (n,) of nonzero rows."""
        parts = [self._on(np.ascontiguousarray(channel), keypoints) for channel in _channels(image)]
        valid = np.logical_or.reduce([v for _, v in parts])
        return np.concatenate([v for v, _ in parts], axis=1), valid


class RgbSiftChannelAverage(RgbSift):
    """Mean of the three channels of `rgbsift`, 128 values."""

    name = "rgbsift_channel_avg"

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, 128), and a mask (n,) of nonzero rows."""
        values, valid = super().describe(image, keypoints)
        return values.reshape(len(values), 3, DIMENSION).mean(axis=1), valid


def _channels(image: Image) -> list[Image]:
    return [image] * 3 if image.ndim == 2 else [image[:, :, c] for c in range(3)]
