# SPDX-License-Identifier: BSD-3-Clause
"""Ground truth of image pairs. Methods never receive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import UnknownNameError
from ...core.hashing import hash_array, hash_json, seeded_generator
from ...geometry.correspondence import in_view
from ...geometry.homography import project
from .pair import ImagePair, Matrix, Size, file_name

COUNT, TRIES = 500, 20_000


@dataclass(frozen=True, eq=False)
class PairTruth:
    """Ground truth of an image pair.

    `K0` and `K1` are in pixels of the rotated images, with the centre of the first pixel at (`centre`,
    `centre`). `T_0to1` = [R | t] means x1 = R x0 + t.

    `annotations` may have, all in pixels with integer pixel centres,

    * "corrs" and "landmarks" (n, 4): corresponding points x0, y0, x1, y1;
    * "H" (3, 3): homography from image 0 to image 1;
    * "points0" and "points1" (n, 2) with "ids" (n,): corresponding keypoints;
    * "visible0" and "visible1": ids of all keypoints of an image, including those that the other image lacks;
    * "box0" and "box1" (4,): object box x1, y1, x2, y2.
    """

    pair: ImagePair
    K0: Matrix | None = None
    K1: Matrix | None = None
    T_0to1: Matrix | None = None
    centre: float = 0.0
    annotations: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def queries(self) -> Matrix | None:
        """Return the points (q, 2) of image 0 whose position in image 1 is known. None if there are none."""
        if "points0" in self.annotations:
            return np.asarray(self.annotations["points0"], np.float64)
        if "corrs" in self.annotations:
            return np.ascontiguousarray(self.annotations["corrs"][:, :2], np.float64)
        return None

    def correspondences(self) -> Matrix | None:
        """Return true correspondences (n, 4), or None if there is no ground truth.

        They are the annotated correspondences, or else a grid mapped by H, or else points at random depths
        projected with K and T.
        """
        if "points0" in self.annotations:
            points = self.annotations["points0"], self.annotations["points1"]
            return np.column_stack(points).astype(np.float64)
        if "corrs" in self.annotations:
            return np.asarray(self.annotations["corrs"], np.float64)
        if "H" in self.annotations:
            return points_on_plane(self.annotations["H"], self.pair.sizes())
        if "landmarks" in self.annotations:
            return np.asarray(self.annotations["landmarks"], np.float64)
        if self.K0 is not None and self.K1 is not None and self.T_0to1 is not None:
            return points_at_random_depths(
                self.K0, self.K1, self.T_0to1, self.pair.sizes(), self.centre, self.pair.name
            )
        return None

    def definition(self) -> str:
        """Return a hash of K, T, centre, sizes, quarter turns, dataset and annotations."""
        arrays = {"K0": self.K0, "K1": self.K1, "T_0to1": self.T_0to1, **self.annotations}
        hashes = {name: hash_array(a) for name, a in arrays.items() if a is not None}
        pair = self.pair
        return hash_json([hashes, self.centre, pair.sizes(), list(pair.turns), pair.dataset])

    def swapped(self) -> PairTruth:
        """Return the ground truth from image 1 to image 0. T and H are inverted."""
        annotations: dict[str, NDArray[Any]] = {}
        for key, value in self.annotations.items():
            if key in ("corrs", "landmarks"):
                annotations[key] = np.ascontiguousarray(value[:, [2, 3, 0, 1]])
            elif key == "H":
                annotations[key] = np.linalg.inv(value)
            else:
                annotations[_other(key)] = value
        return replace(
            self,
            pair=self.pair.swapped(),
            K0=self.K1,
            K1=self.K0,
            T_0to1=None if self.T_0to1 is None else np.asarray(np.linalg.inv(self.T_0to1), np.float64),
            annotations=annotations,
        )


def _other(key: str) -> str:
    return key[:-1] + {"0": "1", "1": "0"}[key[-1]] if key[-1] in "01" else key


@dataclass(frozen=True)
class PairSet:
    """Image pairs of a dataset in file order, with a description and warnings."""

    truths: tuple[PairTruth, ...]
    what: str = "pairs"
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.truths)

    @property
    def pairs(self) -> tuple[ImagePair, ...]:
        """The image pairs without their ground truth."""
        return tuple(truth.pair for truth in self.truths)

    @cached_property
    def _by_name(self) -> dict[str, PairTruth]:
        return {truth.pair.name: truth for truth in self.truths}

    def truth(self, name: str) -> PairTruth:
        """Return the ground truth of a pair by name.

        A `-` in `name` may stand for a slash in the pair's name.

        >>> PairSet((PairTruth(ImagePair("s/a--b", "s")),)).truth("s-a--b").pair.name
        's/a--b'
        """
        found = self._by_name.get(name)
        if found is None:
            by_file = {file_name(n): truth for n, truth in self._by_name.items()}
            found = by_file.get(file_name(name))
        if found is None:
            raise UnknownNameError("pair", name, self._by_name)
        return found

    def select(self, keep: Callable[[ImagePair], bool]) -> PairSet:
        """Return the pairs for which `keep` returns True."""
        return replace(self, truths=tuple(truth for truth in self.truths if keep(truth.pair)))


def points_on_plane(h: Matrix, sizes: tuple[Size, Size]) -> Matrix:
    """Map grid points of image 0 to image 1 by a homography. Return the correspondences (n, 4).

    Points that are mapped outside image 1 are dropped.

    >>> points_on_plane(np.eye(3), ((9, 9), (9, 9)))[-1].tolist()
    [8.0, 8.0, 8.0, 8.0]
    """
    side = round(COUNT**0.5)
    x, y = (np.linspace(0, n - 1, side) for n in sizes[0])
    first = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    second = np.asarray(project(h, first), np.float64)
    return np.column_stack([first, second])[in_view(second, sizes[1])]


def points_at_random_depths(
    K0: Matrix, K1: Matrix, T: Matrix, sizes: tuple[Size, Size], centre: float, name: str
) -> Matrix:
    """Return up to 500 correspondences (n, 4) of points at random depths that both cameras see.

    Depths are log-uniform between 1/2 and 200 baselines. In the returned points, the centre of the first
    pixel is (0, 0); in K it is (`centre`, `centre`). If the views hardly overlap, there are fewer points or
    none.

    >>> K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    >>> T = np.eye(4); T[0, 3] = 1
    >>> points = points_at_random_depths(K, K, T, ((101, 101), (101, 101)), 0.0, "a")
    >>> len(points), float(np.abs(points[:, 1] - points[:, 3]).max()) < 1e-9
    (500, True)
    """
    draw = seeded_generator(0, "true points", name)
    first = draw.random((TRIES, 2)) * (np.array(sizes[0]) - 1)
    baseline = float(np.linalg.norm(T[:3, 3])) or 1.0
    depth = baseline * np.exp(draw.uniform(np.log(0.5), np.log(200.0), TRIES))
    rays = np.column_stack([first + centre, np.ones(TRIES)]) @ np.linalg.inv(K0).T
    seen = (rays * (depth / rays[:, 2])[:, None]) @ T[:3, :3].T + T[:3, 3]
    front = seen[:, 2] > 1e-6 * baseline
    first, image = first[front], seen[front] @ K1.T
    second = image[:, :2] / image[:, 2:] - centre
    return np.column_stack([first, second])[in_view(second, sizes[1])][:COUNT]
