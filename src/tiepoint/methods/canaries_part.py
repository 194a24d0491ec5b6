# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors at keypoints with a known score: `constant` and `random` score chance, `oracle` scores 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.hashing import hash_array, hash_json
from ..core.keypoints import Keypoints
from ..core.units import Item

KEYPOINT_DIMENSION = 128
Image = NDArray[Any]
Rows = NDArray[np.float32]


def _noise(seed: str, rows: int) -> Rows:
    draw = np.random.Generator(np.random.PCG64(int(seed[:32], 16)))
    return draw.standard_normal((rows, KEYPOINT_DIMENSION)).astype(np.float32)


class ConstantDescriptors:
    """The same vector everywhere: all distances are ties."""

    name, distance = "constant", "l2"

    def describe(self, image: Image, keypoints: Keypoints) -> Rows:
        """Ones, (n, 128)."""
        return np.ones((len(keypoints), KEYPOINT_DIMENSION), np.float32)


class RandomDescriptors:
    """Gaussian noise seeded by the name and the pixels of the image, so that images are independent."""

    name, distance = "random", "l2"

    def describe_item(self, item: Item, image: Image, keypoints: Keypoints) -> Rows:
        """Noise, (n, 128)."""
        return _noise(
            hash_json(["random", item.key, hash_array(np.ascontiguousarray(image))]), len(keypoints)
        )


class OracleDescriptors:
    """Knows which point a row is: the same code for row i of every image of a scene.

    That is the truth for projected keypoint sets (``oracle@set:NAME``), where row i is the same point in all
    images, and for no others.
    """

    name, distance = "oracle", "l2"

    def describe_item(self, item: Item, image: Image, keypoints: Keypoints) -> Rows:
        """Codes of the rows of a scene, (n, 128)."""
        return _noise(hash_json(["oracle", item.key.rpartition("/")[0]]), len(keypoints))
