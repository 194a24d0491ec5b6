# SPDX-License-Identifier: BSD-3-Clause
"""One pair of images with its truth, and a set of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_array, hash_file, hash_json
from ...core.regular_files import is_file
from ...formats.image.reader import read_image, read_size
from .ground_truth import points_at_random_depths, points_on_plane

Matrix = NDArray[np.float64]
Size = tuple[int, int]
JOINT = "--"
"""Between the two stems of a pair's default name."""


class PairImages(NamedTuple):
    """What a method of family `pairs` sees: RGB uint8 images, and points (q, 2) of the first to answer.

    `truth` are true correspondences (n, 4), x0 y0 x1 y1, for the oracle and nobody else.
    """

    image0: NDArray[np.uint8]
    image1: NDArray[np.uint8]
    queries: Matrix | None = None
    truth: Matrix | None = None


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Two images and what is known about how they correspond.

    `K0`, `K1` are in pixels of the original images, the centre of the first pixel at (`centre`, `centre`);
    x1 = R x0 + t with `T_0to1` = [R | t]. `turns` counts the quarter turns (counter-clockwise, as `np.rot90`)
    that `images()` applies; K, T, sizes and truth are those of the turned images. `truth` may have "corrs"
    (n, 4), "H" (3, 3), "points0", "points1" (n, 2) with "ids" (n,), "visible0", "visible1" (ids of
    all keypoints of each image, also of those the other lacks), "box0", "box1" (4,) as x1 y1 x2 y2, all
    in original pixels whose first centre is (0, 0). An image that is named and absent is allowed where
    its size is given: its matches may come from files.
    """

    name: str
    scene: str
    dataset: str = ""
    image0: Path | None = None
    image1: Path | None = None
    size0: Size | None = None
    size1: Size | None = None
    K0: Matrix | None = None
    K1: Matrix | None = None
    T_0to1: Matrix | None = None
    centre: float = 0.0
    turns: tuple[int, int] = (0, 0)
    truth: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def images(self) -> PairImages:
        """Both images, turned, with the query points; an `InputError` names an image that is not there."""
        images = []
        for side, (path, turns) in enumerate(zip((self.image0, self.image1), self.turns, strict=True)):
            if path is None or not is_file(path):
                named = f"image{side} ({path})" if path else f"image{side}, which has no file name"
                raise InputError(
                    f"pair {self.name}: {named} is not there; put it there or bring matches as files"
                )
            images.append(np.ascontiguousarray(np.rot90(read_image(path), turns)))
        return PairImages(images[0], images[1], self.queries(), self.true_points())

    def queries(self) -> Matrix | None:
        """Points of image 0 whose place in image 1 is known, (q, 2); None without such truth."""
        if "points0" in self.truth:
            return np.asarray(self.truth["points0"], np.float64)
        if "corrs" in self.truth:
            return np.ascontiguousarray(self.truth["corrs"][:, :2], np.float64)
        return None

    def true_points(self) -> Matrix | None:
        """True correspondences (n, 4): as clicked, on a grid by H, or at drawn depths by K and T."""
        if "points0" in self.truth:
            return np.column_stack([self.truth["points0"], self.truth["points1"]]).astype(np.float64)
        if "corrs" in self.truth:
            return np.asarray(self.truth["corrs"], np.float64)
        if "H" in self.truth:
            return points_on_plane(self.truth["H"], self.sizes())
        if self.K0 is not None and self.K1 is not None and self.T_0to1 is not None:
            return points_at_random_depths(
                self.K0, self.K1, self.T_0to1, self.sizes(), self.centre, self.name
            )
        return None

    def sizes(self) -> tuple[Size, Size]:
        """(width, height) of both images as `images()` gives them, from their headers where not stated."""
        found = []
        for side, (path, size) in enumerate(((self.image0, self.size0), (self.image1, self.size1))):
            if size is None:
                if path is None or not path.is_file():
                    raise InputError(
                        f"pair {self.name}: `size{side}` is not stated and image{side} is not there"
                    )
                size = read_size(path) if self.turns[side] % 2 == 0 else read_size(path)[::-1]
            found.append(size)
        return found[0], found[1]

    def has_images(self) -> bool:
        """Whether both image files are there."""
        return all(path is not None and path.is_file() for path in (self.image0, self.image1))

    def content(self) -> str:
        """Hash of what a method sees: both images, turns and queries; names and sizes of absent images."""
        parts: list[Any] = []
        for path, size in ((self.image0, self.size0), (self.image1, self.size1)):
            there = path is not None and path.is_file()
            parts.append(hash_file(path) if there and path else [path.name if path else self.name, size])
        queries = self.queries()
        return hash_json([*parts, list(self.turns), None if queries is None else hash_array(queries)])

    def definition(self) -> str:
        """Hash of the truth: K, T, convention, sizes, correspondences, dataset."""
        arrays = {"K0": self.K0, "K1": self.K1, "T_0to1": self.T_0to1, **self.truth}
        hashes = {name: hash_array(a) for name, a in arrays.items() if a is not None}
        return hash_json([hashes, self.centre, self.sizes(), list(self.turns), self.dataset])

    def swapped(self) -> ImagePair:
        """The same pair from image 1 to image 0: T and H inverted, sides of everything swapped."""
        truth: dict[str, NDArray[Any]] = {}
        for key, value in self.truth.items():
            if key == "corrs":
                truth[key] = np.ascontiguousarray(value[:, [2, 3, 0, 1]])
            elif key == "H":
                truth[key] = np.linalg.inv(value)
            else:
                truth[_other(key)] = value
        return replace(
            self,
            name=JOINT.join(reversed(self.name.split(JOINT))) if JOINT in self.name else f"{self.name}-back",
            image0=self.image1,
            image1=self.image0,
            size0=self.size1,
            size1=self.size0,
            K0=self.K1,
            K1=self.K0,
            T_0to1=None if self.T_0to1 is None else np.asarray(np.linalg.inv(self.T_0to1), np.float64),
            turns=(self.turns[1], self.turns[0]),
            truth=truth,
        )


def _other(key: str) -> str:
    return key[:-1] + {"0": "1", "1": "0"}[key[-1]] if key[-1] in "01" else key


@dataclass(frozen=True)
class PairSet:
    """Pairs in the order of their file, what they are, and what is worth knowing about them."""

    pairs: tuple[ImagePair, ...]
    what: str = "pairs"
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def named(self, name: str) -> ImagePair:
        """The pair of a name; slashes may be written as `-`, as in file names. An unknown one is an error.

        >>> PairSet((ImagePair("s/a--b", "s"),)).named("s-a--b").name
        's/a--b'
        """
        by_name = {pair.name: pair for pair in self.pairs}
        found = by_name.get(name) or {file_name(n): pair for n, pair in by_name.items()}.get(file_name(name))
        if found is None:
            raise UnknownNameError("pair", name, by_name)
        return found

    def scenes(self) -> list[str]:
        """Distinct scenes in order of appearance."""
        return list(dict.fromkeys(pair.scene for pair in self.pairs))


def file_name(name: str) -> str:
    r"""A pair's name as the stem of a file: slashes of either direction become `-`.

    >>> file_name("WGABS/kremlin"), file_name("a\\b")
    ('WGABS-kremlin', 'a-b')
    """
    return name.replace("/", "-").replace("\\", "-")


def default_names(stems: Iterable[tuple[str, str]], scenes: Iterable[str]) -> list[str]:
    """Names of pairs from two file names each: the stems joined by `--`, the scene in front where not unique.

    `stems` are file names without their last ending, folders included; where even scene and stems repeat,
    the folders stay.

    >>> default_names([("x/a", "x/b"), ("y/a", "y/b")], ["x", "y"])
    ['x/a--b', 'y/a--b']
    >>> default_names([("x/a", "x/b"), ("x/a", "x/c")], ["x", "x"])
    ['a--b', 'a--c']
    """
    whole = list(stems)
    short = [JOINT.join(name.replace("\\", "/").rpartition("/")[2] for name in two) for two in whole]
    for names in (short, [f"{scene}/{name}" for scene, name in zip(scenes, short, strict=True)]):
        if len({file_name(n) for n in names}) == len(names):
            return names
    return [JOINT.join(two) for two in whole]
