# SPDX-License-Identifier: BSD-3-Clause
"""AKAZE and KAZE at given keypoints: OpenCV reads the level of its scale space from `class_id`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.errors import UnitError
from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ..patches.opencv import opencv
from .detectors import MAX_FEATURES, select_keypoints
from .opencv_descriptors import Described, Image
from .opencv_detectors import KazeDetector

_MIN_SIZE = (80, 40)
"""Minimum (width, height) of an AKAZE octave, in pixels."""


@dataclass(eq=False)
class AkazeDescriptor:
    """AKAZE descriptor (M-LDB, 486 bits), computed at the pyramid level that fits the keypoint's size best.

    Level l fits keypoints of size 4.8 · 2^(l/4). At AKAZE keypoints the result equals AKAZE's own
    descriptors.
    """

    name, distance, dimension, libraries = "akaze", "hamming", 61, ("cv2", "numpy")
    n_octaves: int = 4
    n_octave_layers: int = 4
    upright: bool = False

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return packed bits (n, 61). All keypoints are described."""
        grey = to_grey(image)
        octaves = _octaves_of(grey.shape, self.n_octaves)
        levels = np.rint(np.log2(keypoints.size_px / 4.8) * self.n_octave_layers)
        levels = np.clip(levels, 0, octaves * self.n_octave_layers - 1).astype(np.int64)
        kind = opencv("AKAZE_DESCRIPTOR_MLDB_UPRIGHT" if self.upright else "AKAZE_DESCRIPTOR_MLDB")
        made = opencv("AKAZE_create")(kind, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers)
        values = _computed(made, grey, keypoints, levels, self.n_octave_layers)
        return values, np.ones(len(values), bool)


class KazeFeatures:
    """KAZE keypoints and descriptors, computed by one call of OpenCV, strongest first.

    The method `kaze` without a detector is this class. Its descriptors differ from those of `KazeDescriptor`:
    if keypoints are given, OpenCV uses derivatives from a different step of the algorithm.
    """

    name, distance, libraries = "kaze", "l2", ("cv2", "numpy")
    identity = "keypoints/kaze-in-one-go"

    def __init__(
        self,
        max_features: int | None = MAX_FEATURES,
        border_px: float = 0.0,
        threshold: float = 0.001,
        n_octaves: int = 4,
        n_octave_layers: int = 4,
        extended: bool = False,
        upright: bool = False,
    ) -> None:
        self.detect_with = KazeDetector(max_features, border_px, threshold, n_octaves, n_octave_layers)
        self.extended, self.upright = extended, upright
        self.config = {**vars(self.detect_with), "extended": extended, "upright": upright}

    def extract(self, image: Image) -> tuple[Keypoints, NDArray[np.float32], NDArray[np.bool_]]:
        """Return keypoints, descriptors (n, 64 or 128), and a mask (n,) of nonzero rows."""
        d = self.detect_with
        made = opencv("KAZE_create")(self.extended, self.upright, d.threshold, d.n_octaves, d.n_octave_layers)
        points, values = made.detectAndCompute(to_grey(image), None)
        numbered = Keypoints.from_cv(points)
        numbered = Keypoints.at(
            numbered.xy, size_px=numbered.size_px, angle_deg=numbered.angle_deg,
            response=numbered.response, octave=numbered.octave, class_id=np.arange(len(numbered)),
        )  # fmt: skip
        kept = select_keypoints(numbered, image, max_features=d.max_features, border_px=d.border_px)
        rows = np.empty((0, 64), np.float32) if values is None else values[kept.class_id]
        return kept, rows, np.asarray(rows.any(axis=1))


@dataclass(eq=False)
class KazeDescriptor:
    """KAZE descriptor (M-SURF, 64 values), computed at the scale level that fits the keypoint's size best.

    Level l fits keypoints of size 3.2 · 2^(l/4). Level 0 has no derivatives and is not used. KAZE estimates
    the orientation and ignores that of the keypoint.
    """

    name, distance, libraries = "kaze", "l2", ("cv2", "numpy")
    native = KazeFeatures
    n_octaves: int = 4
    n_octave_layers: int = 4
    extended: bool = False
    upright: bool = False

    def describe(self, image: Image, keypoints: Keypoints) -> Described:
        """Return descriptors (n, 64), or (n, 128) if extended, and a mask (n,) of nonzero rows."""
        levels = np.rint(np.log2(keypoints.size_px / 3.2) * self.n_octave_layers)
        levels = np.clip(levels, 1, self.n_octaves * self.n_octave_layers - 1).astype(np.int64)
        made = opencv("KAZE_create")(
            self.extended, self.upright, nOctaves=self.n_octaves, nOctaveLayers=self.n_octave_layers
        )
        values = _computed(made, to_grey(image), keypoints, levels, self.n_octave_layers)
        valid = np.isfinite(values).all(axis=1) & values.any(axis=1)
        return np.where(valid[:, None], values, np.float32(0)), valid


def _octaves_of(shape: tuple[int, ...], wanted: int) -> int:
    """Return how many of the `wanted` octaves fit an image of shape (h, w)."""
    for octave in range(1, wanted):
        if (shape[1] >> octave) < _MIN_SIZE[0] or (shape[0] >> octave) < _MIN_SIZE[1]:
            return octave
    return wanted


def _computed(
    made: Any, grey: Image, keypoints: Keypoints, levels: NDArray[np.int64], layers: int
) -> NDArray[Any]:
    """Return the descriptors that OpenCV computed, in the order of the keypoints.

    Raise an error if OpenCV dropped or reordered keypoints.
    """
    angles = np.nan_to_num(keypoints.angle_deg, nan=0.0)
    points = [
        cv2.KeyPoint(float(x), float(y), float(s), float(a), 0.0, int(level) // layers, int(level))
        for (x, y), s, a, level in zip(keypoints.xy, keypoints.size_px, angles, levels, strict=True)
    ]
    kept, values = made.compute(grey, points)
    same = len(kept) == len(points) and all(a.pt == b.pt for a, b in zip(kept, points, strict=True))
    if values is None or not same:
        raise UnitError(
            "OpenCV dropped or reordered keypoints, so descriptors cannot be assigned; choose "
            "another descriptor"
        )
    return np.asarray(values)
