# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs as methods receive them, without ground truth, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_array, hash_file, hash_json
from ...core.regular_files import is_file
from ...formats.image.reader import read_image, read_jpeg_again, read_size
from ...formats.mat5 import read_mat5

Matrix = NDArray[np.float64]
Size = tuple[int, int]
MAX_MAT_BYTES = 1 << 28
"""Size limit of a MATLAB file with images, and of an image in it, in bytes."""
JOINT = "--"
"""Separator between the two image stems in the default name of a pair."""


class PairPayload(NamedTuple):
    """Input of a method of family `pairs`: two RGB images and query points.

    `queries` (q, 2) are points of the first image whose positions in the second image are requested.
    """

    image0: NDArray[np.uint8]
    image1: NDArray[np.uint8]
    queries: Matrix | None = None


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Image pair without ground truth (see `ground_truth.PairTruth`).

    `turns` counts the quarter turns (counter-clockwise, as `np.rot90`) that `payload` applies to each image.
    Sizes are those of the rotated images. An image file may be missing if its size is given and the matches
    are read from files.

    If a MATLAB file contains several images, `members` are the variable names of the two images. If
    `mirrored`, image 1 is mirrored left-right before its quarter turns. If `jpeg`, image 1 is encoded as JPEG
    and decoded.
    """

    name: str
    scene: str
    dataset: str = ""
    image0: Path | None = None
    image1: Path | None = None
    size0: Size | None = None
    size1: Size | None = None
    turns: tuple[int, int] = (0, 0)
    facts: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[str, str] = ("", "")
    mirrored: bool = False
    jpeg: bool = False

    def payload(self, queries: Matrix | None = None) -> PairPayload:
        """Read and rotate both images, and copy `queries`. Raise an `InputError` if an image is missing."""
        for side, path in enumerate((self.image0, self.image1)):
            if path is None or not is_file(path):
                named = f"image{side} ({path})" if path else f"image{side} without a file name"
                raise InputError(
                    f"pair {self.name}: {named} is missing; add the image, or provide matches as files:DIR"
                )
        return PairPayload(self.image(0), self.image(1), None if queries is None else queries.copy())

    def image(self, side: int) -> NDArray[np.uint8]:
        """Read image 0 or 1 and apply its quarter turns."""
        path, member = (self.image0, self.image1)[side], self.members[side]
        assert path is not None
        pixels = read_mat5(path, most=MAX_MAT_BYTES)[member].array() if member else read_image(path)
        if side == 1 and self.jpeg:
            pixels = read_jpeg_again(pixels)
        if side == 1 and self.mirrored:
            pixels = pixels[:, ::-1]
        return np.ascontiguousarray(np.rot90(pixels, self.turns[side]))

    def image_names(self) -> tuple[str, str]:
        """Return the paths of both images; empty for an image without a file."""
        names = [
            "" if path is None else path.as_posix() + (f"#{member}" if member else "")
            for path, member in zip((self.image0, self.image1), self.members, strict=True)
        ]
        return names[0], names[1]

    def sizes(self) -> tuple[Size, Size]:
        """Return (width, height) of both images after rotation, as stated or from their headers."""
        found = []
        for side, (path, size) in enumerate(((self.image0, self.size0), (self.image1, self.size1))):
            if size is None:
                if path is None or not path.is_file():
                    raise InputError(
                        f"pair {self.name}: image{side} is missing; add the image, or state its `size{side}`"
                    )
                size = read_size(path) if self.turns[side] % 2 == 0 else read_size(path)[::-1]
            found.append(size)
        return found[0], found[1]

    def has_images(self) -> bool:
        """Return whether both image files exist."""
        return all(path is not None and path.is_file() for path in (self.image0, self.image1))

    def content(self, queries: Matrix | None = None) -> str:
        """Return a hash of the input of a method: image files, quarter turns and queries.

        For a missing image, its name and size are hashed instead.
        """
        parts: list[Any] = []
        for path, size in ((self.image0, self.size0), (self.image1, self.size1)):
            there = path is not None and path.is_file()
            parts.append(hash_file(path) if there and path else [path.name if path else self.name, size])
        made = [*parts, list(self.turns), None if queries is None else hash_array(queries)]
        if any(self.members):
            made.append(list(self.members))
        if self.mirrored:
            made.append("mirrored")
        if self.jpeg:
            made.append(["jpeg", PIL.__version__])
        return hash_json(made)

    def swapped(self) -> ImagePair:
        """Return the pair with its images exchanged."""
        return replace(
            self,
            name=JOINT.join(reversed(self.name.split(JOINT))) if JOINT in self.name else f"{self.name}-back",
            image0=self.image1,
            image1=self.image0,
            size0=self.size1,
            size1=self.size0,
            turns=(self.turns[1], self.turns[0]),
            members=(self.members[1], self.members[0]),
        )


def file_name(name: str) -> str:
    r"""Convert the name of a pair to a file stem: forward and backward slashes become `-`.

    >>> file_name("WGABS/kremlin"), file_name("a\\b")
    ('WGABS-kremlin', 'a-b')
    """
    return name.replace("/", "-").replace("\\", "-")


def default_names(stems: Iterable[tuple[str, str]], scenes: Iterable[str]) -> list[str]:
    """Return default names of pairs: the two image stems joined by `--`.

    `stems` are file names with folders, without their last suffix. If a name repeats, the scene is prepended.
    If it still repeats, the folders are included.

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
