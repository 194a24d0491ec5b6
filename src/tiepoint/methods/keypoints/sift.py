# SPDX-License-Identifier: BSD-3-Clause
"""SIFT at given keypoints, in grey, in colour and rooted; the pyramid level follows from the size."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..patches.opencv import opencv
from ..transforms import rootsift
from .opencv_descriptors import Described, Image, compute_descriptors, cv_keypoints

DIMENSION = 128


def packed_octaves(
    size_px: NDArray[np.float64], sigma: float, layers: int, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """OpenCV's packed octave (octave & 255 | layer << 8) of keypoints by their size.

    A SIFT keypoint of octave o and layer l has size 2 sigma 2^(o + l/layers); octaves begin at -1, the
    doubled image, and layers run from 1. A keypoint's own `octave` is not used: other detectors write
    other things there, and OpenCV would read a level that has nothing to do with the size.

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
    """SIFT of OpenCV, 128 numbers from 0 to 255; the 4 x 4 grid spans 6 times the keypoint's size.

    Equal to what OpenCV's SIFT computes at its own keypoints, and independent of which other keypoints are
    described: OpenCV leaves out the doubled octave when no keypoint needs it, so one that does is added.
    """

    name, distance, libraries = "sift", "l2", ("cv2", "numpy")

    def __init__(self, sigma: float = 1.6, n_octave_layers: int = 3) -> None:
        self.sigma, self.n_octave_layers = sigma, n_octave_layers

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """(n, 128) whole numbers in float32, and which rows are not blank."""
        return self._on(to_grey(image), keypoints)

    def _on(self, channel: Image, keypoints: Keypoints) -> Described:
        octaves = packed_octaves(keypoints.size_px, self.sigma, self.n_octave_layers, channel.shape)
        points = cv_keypoints(keypoints, octaves)
        doubled = cv2.KeyPoint(0.0, 0.0, 1.0, 0.0, 0.0, 255 | 1 << 8, len(points))
        extractor: Any = opencv("SIFT_create")(0, self.n_octave_layers, 0.04, 10.0, self.sigma)
        values, valid = compute_descriptors(extractor, channel, [*points, doubled], DIMENSION, np.float32)
        return values[:-1], valid[:-1]


class RootSiftDescriptor(SiftDescriptor):
    """`sift` over the sum of its entries, then the square root: l2 becomes the Hellinger distance."""

    name, rooted = "rootsift", True

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """(n, 128), rows of length 1."""
        values, valid = super().describe(image, keypoints)
        return rootsift(values), valid


class RgbSift(SiftDescriptor):
    """SIFT of the red, green and blue channel side by side, 384 numbers.

    Each channel is normalised as SIFT normalises it, so a channel counts the same however much it varies;
    a channel without any gradient contributes zeros. The keypoint fails if all three are blank.
    """

    name = "rgbsift"

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """(n, 384)."""
        parts = [self._on(np.ascontiguousarray(channel), keypoints) for channel in _channels(image)]
        valid = np.logical_or.reduce([v for _, v in parts])
        return np.concatenate([v for v, _ in parts], axis=1), valid


class RgbSiftChannelAverage(RgbSift):
    """Mean of the three channels of `rgbsift`, 128 numbers."""

    name = "rgbsift_channel_avg"

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """(n, 128)."""
        values, valid = super().describe(image, keypoints)
        return values.reshape(len(values), 3, DIMENSION).mean(axis=1), valid


def _channels(image: Image) -> list[Image]:
    return [image] * 3 if image.ndim == 2 else [image[:, :, c] for c in range(3)]
