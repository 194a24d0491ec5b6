# SPDX-License-Identifier: BSD-3-Clause
"""Reference methods with a known score: `constant` and `random` score at chance level, `oracle` scores 1."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.hashing import hash_array, hash_bytes, hash_json
from ..core.keypoints import Keypoints
from ..core.records import Item
from ..geometry.correspondence import centre

PATCH_DIMENSION = 128


class ConstantPatches:
    """Reference method that returns ones for every patch, which gives a score at chance level.

    >>> ConstantPatches().describe(np.zeros((2, 65, 65), np.uint8)).shape
    (2, 128)
    """

    name = "constant"
    distance = "l2"

    def describe(self, patches: NDArray[Any]) -> NDArray[np.float32]:
        """Return ones, (n, 128). SIFT has the same dimension, so timings are comparable."""
        return np.ones((len(patches), PATCH_DIMENSION), np.float32)


class RandomPatches:
    """Reference method that returns Gaussian noise, seeded by the name and content of the patch image.

    Seeding each patch by its own pixels would give identical patches identical noise, which would then match.
    A chance-level score requires independent noise in each image.
    """

    name = "random"
    distance = "l2"

    def lookup_item(self, item: Item, rows: int) -> NDArray[np.float32]:
        """Return noise for the patches of an item, (rows, 128)."""
        seed = int(hash_bytes(f"random:{item.key}:{item.content}".encode())[:32], 16)
        noise = np.random.Generator(np.random.PCG64(seed)).standard_normal((rows, PATCH_DIMENSION))
        return noise.astype(np.float32)


class OraclePatches:
    """Reference method that returns the same descriptor for corresponding patches of a sequence.

    The first half of the 128 values is a hash of the sequence name, with a magnitude of 16. The second half
    is a hash of (sequence, index), with a magnitude of 1. Corresponding patches have distance 0. Other
    patches of the same sequence have a distance of at most 16, and patches of other sequences at least 32.
    """

    name = "oracle"
    distance = "l2"

    def lookup_item(self, item: Item, rows: int) -> NDArray[np.float32]:
        """Return the descriptors (rows, 128) of the patches of ``SEQ/IM``."""
        sequence = item.key.partition("/")[0]
        place = np.broadcast_to(_signs(f"{sequence}"), (rows, PATCH_DIMENSION // 2)) * np.float32(16)
        patch = [_signs(f"{sequence}\0{i}") for i in range(rows)]
        return np.concatenate([place, np.reshape(patch, (rows, PATCH_DIMENSION // 2))], axis=1).astype(
            np.float32
        )


def _signs(text: str) -> NDArray[np.float32]:
    """Hash a text to 64 values of +1 or -1."""
    digest = hashlib.blake2b(text.encode(), digest_size=PATCH_DIMENSION // 16).digest()
    return np.unpackbits(np.frombuffer(digest, np.uint8)).astype(np.float32) * 2 - 1


KEYPOINT_DIMENSION = 128
Image = NDArray[Any]
Rows = NDArray[np.float32]


def _noise(seed: str, rows: int) -> Rows:
    draw = np.random.Generator(np.random.PCG64(int(seed[:32], 16)))
    return draw.standard_normal((rows, KEYPOINT_DIMENSION)).astype(np.float32)


class ConstantDescriptors:
    """Reference method that returns ones at every keypoint, so that all distances are tied."""

    name, distance = "constant", "l2"

    def describe(self, image: Image, keypoints: Keypoints) -> Rows:
        """Return ones, (n, 128)."""
        return np.ones((len(keypoints), KEYPOINT_DIMENSION), np.float32)


class RandomDescriptors:
    """Reference method that returns Gaussian noise, seeded by the name and the pixels of the image."""

    name, distance = "random", "l2"

    def describe_item(self, item: Item, image: Image, keypoints: Keypoints) -> Rows:
        """Return noise, (n, 128)."""
        return _noise(
            hash_json(["random", item.key, hash_array(np.ascontiguousarray(image))]), len(keypoints)
        )


class OracleDescriptors:
    """Reference method that returns the same descriptor for keypoint i of every image of a scene.

    This is correct only for projected keypoint sets (``oracle@set:NAME``), where row i is the same point in
    all images.
    """

    name, distance = "oracle", "l2"

    def describe_item(self, item: Item, image: Image, keypoints: Keypoints) -> Rows:
        """Return descriptors (n, 128). Row i depends only on the scene and on i."""
        return _noise(hash_json(["oracle", item.key.rpartition("/")[0]]), len(keypoints))


Points = NDArray[np.float64]
COUNT = 500
"""Number of matches that a reference method returns."""


def _generator(*names: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int(hash_json(["pairs", *names])[:32], 16)))


def _size(image: Image) -> tuple[int, int]:
    return image.shape[1], image.shape[0]


class ConstantMatches:
    """Reference method that matches every point to the centre of image 2.

    >>> ConstantMatches().match_points(np.zeros((3, 5)), np.zeros((3, 5)), np.zeros((1, 2))).tolist()
    [[2.0, 1.0]]
    """

    name = "constant"

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points]:
        """Return a grid of points in image 1, each with the centre of image 2."""
        (width, height), steps = _size(image1), round(COUNT**0.5)
        y, x = np.mgrid[0 : height - 1 : steps * 1j, 0 : width - 1 : steps * 1j]
        points = np.column_stack([x.ravel(), y.ravel()])
        return points, self.match_points(image1, image2, points)

    def match_points(self, image1: Image, image2: Image, points: Points) -> Points:
        """Return the centre of image 2 for every point."""
        return np.tile(np.array(centre(_size(image2))), (len(points), 1))


class RandomMatches:
    """Reference method that returns random points in both images, seeded by the pixels of both."""

    name = "random"

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points, Points]:
        """Return 500 matches with random confidence."""
        draw = _generator("random", *_hashes(image1, image2))
        first, second = (draw.random((COUNT, 2)) * (np.array(_size(i)) - 1) for i in (image1, image2))
        return first, second, draw.random(COUNT)

    def match_points(self, image1: Image, image2: Image, points: Points) -> Points:
        """Return a random position in image 2 for every point."""
        draw = _generator("random points", *_hashes(image1, image2))
        return draw.random((len(points), 2)) * (np.array(_size(image2)) - 1)


def _hashes(*images: Image) -> list[str]:
    return [hash_array(np.ascontiguousarray(i)) for i in images]


class OracleMatches:
    """Reference method: the true correspondences with Gaussian noise of `noise_px` pixels.

    This class provides only the name and the cache key. It never receives ground truth: the task computes the
    features (`tasks.capabilities.MakesOracle`).
    """

    name = "oracle"

    def __init__(self, noise_px: float = 0.0) -> None:
        self.noise_px = float(noise_px)
        self.config = {"noise_px": self.noise_px}

    def item_key(self, item: Item) -> str:
        """Return a hash of an item's key and ground truth."""
        return hash_json([item.key, item.truth_hash])

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points]:
        """Raise an error, because only a task can compute the matches of an oracle."""
        raise InputError("oracle: this task provides no true correspondences; choose another method")
