# SPDX-License-Identifier: BSD-3-Clause
"""Places that no detector chose: a regular grid, and random points seeded by the image's content."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_array, hash_json
from ...core.keypoints import Keypoints
from .detectors import MAX_FEATURES, CappedDetector

Image = NDArray[np.uint8]


@dataclass(eq=False)
class GridKeypoints(CappedDetector):
    """Points `step_px` apart, centred on the image, all of `size_px` and without orientation."""

    name = "grid"
    max_features: int | None = None
    step_px: float = 16.0
    size_px: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.step_px > 0 and self.size_px > 0):
            raise InputError(
                f"step_px and size_px must be positive, but are {self.step_px:g} and {self.size_px:g}"
            )
        self.step_px, self.size_px = float(self.step_px), float(self.size_px)

    def detect(self, image: Image) -> Keypoints:
        """Rows from the top, left to right."""
        ys, xs = (_line(length, self.step_px, self.border_px) for length in image.shape[:2])
        y, x = np.meshgrid(ys, xs, indexing="ij")
        found = Keypoints.at(np.column_stack([x.ravel(), y.ravel()]), size_px=self.size_px)
        return self.select(found, image)


def _line(length: int, step: float, border: float) -> NDArray[np.float64]:
    room = length - 1 - 2 * border
    if room < 0:
        return np.empty(0)
    count = int(room // step) + 1
    first = border + (room - (count - 1) * step) / 2
    return first + step * np.arange(count, dtype=np.float64)


@dataclass(eq=False)
class RandomKeypoints(CappedDetector):
    """Uniform points with sizes spread evenly on the log axis; the same image gives the same points.

    The seed is the hash of the pixels and `seed`, so images of a scene get unrelated points.
    """

    name = "random"
    max_features: int = MAX_FEATURES
    min_size_px: float = 4.0
    max_size_px: float = 32.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.min_size_px, self.max_size_px = float(self.min_size_px), float(self.max_size_px)
        if not 0 < low <= high:
            raise InputError(
                f"min_size_px must be positive and at most max_size_px, but they are {low:g} and {high:g}"
            )
        if self.max_features is None or self.max_features < 1:
            raise InputError(
                f"random needs a positive number of points as max_features, not {self.max_features}"
            )

    def detect(self, image: Image) -> Keypoints:
        """`max_features` points, fewer only where the border leaves no room."""
        name = hash_json(["random keypoints", self.seed, hash_array(np.ascontiguousarray(image))])
        draw = np.random.Generator(np.random.PCG64(int(name[:32], 16)))
        h, w = image.shape[:2]
        room = np.array([w, h]) - 1 - 2 * self.border_px
        if (room < 0).any():
            return Keypoints.at(np.empty((0, 2)))
        xy = self.border_px + draw.random((self.max_features, 2)) * room
        low, high = np.log(self.min_size_px), np.log(self.max_size_px)
        size = np.exp(draw.uniform(low, high, self.max_features))
        angle, response = draw.uniform(0, 360, self.max_features), draw.random(self.max_features)
        found = Keypoints.at(xy, size_px=size, angle_deg=angle, response=response)
        return self.select(found, image)
