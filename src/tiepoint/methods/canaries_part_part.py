# SPDX-License-Identifier: BSD-3-Clause
"""Methods on pairs with a known score: `constant` and `random` see nothing, `oracle` knows the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.hashing import hash_array, hash_json
from ..core.units import Item
from ..geometry.covisibility import centre

Image = NDArray[Any]
Points = NDArray[np.float64]
COUNT = 500
"""Matches that a canary gives."""


def _generator(*names: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int(hash_json(["pairs", *names])[:32], 16)))


def _size(image: Image) -> tuple[int, int]:
    return image.shape[1], image.shape[0]


class ConstantMatches:
    """Everything goes to the centre of image 2, whatever the images show.

    >>> ConstantMatches().match_points(np.zeros((3, 5)), np.zeros((3, 5)), np.zeros((1, 2))).tolist()
    [[2.0, 1.0]]
    """

    name = "constant"

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points]:
        """Points all over image 1, and the centre of image 2 for each."""
        (width, height), steps = _size(image1), round(COUNT**0.5)
        y, x = np.mgrid[0 : height - 1 : steps * 1j, 0 : width - 1 : steps * 1j]
        points = np.column_stack([x.ravel(), y.ravel()])
        return points, self.match_points(image1, image2, points)

    def match_points(self, image1: Image, image2: Image, points: Points) -> Points:
        """The centre, for every point."""
        return np.tile(np.array(centre(_size(image2))), (len(points), 1))


class RandomMatches:
    """Points anywhere in both images, seeded by the pixels of both."""

    name = "random"

    def match(self, image1: Image, image2: Image) -> tuple[Points, Points, Points]:
        """500 matches with a random confidence."""
        draw = _generator("random", *_hashes(image1, image2))
        first, second = (draw.random((COUNT, 2)) * (np.array(_size(i)) - 1) for i in (image1, image2))
        return first, second, draw.random(COUNT)

    def match_points(self, image1: Image, image2: Image, points: Points) -> Points:
        """A random place for every point."""
        draw = _generator("random points", *_hashes(image1, image2))
        return draw.random((len(points), 2)) * (np.array(_size(image2)) - 1)


def _hashes(*images: Image) -> list[str]:
    return [hash_array(np.ascontiguousarray(i)) for i in images]


class OracleMatches:
    """Is told true correspondences by the task, and adds noise of `noise_px` to where they lie in image 2.

    For poses the points are made up: pixels of image 1 at drawn depths, seen from camera 2.
    """

    name = "oracle"

    def __init__(self, noise_px: float = 0.0) -> None:
        self.noise_px = float(noise_px)
        self.config = {"noise_px": self.noise_px}

    def item_key(self, item: Item) -> str:
        """What the truth is."""
        return hash_json([item.key, item.truth])

    def match_truth(self, item: Item, truth: Any, queries: Any = None) -> dict[str, Points]:
        """The true correspondences (n, 4), and those of the queries where there are some."""
        if truth is None:
            raise InputError(f"oracle: {item.key} has no truth that can be told as points")
        table = np.asarray(truth, np.float64)
        noise = _generator("oracle", item.key).standard_normal((len(table), 2)) * self.noise_px
        found = {"points0": table[:, :2], "points1": table[:, 2:] + noise}
        if queries is not None and len(queries) == len(table) and np.array_equal(queries, table[:, :2]):
            found["answers"] = found["points1"]
        return found
