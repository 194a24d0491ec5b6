# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints that exist already: CSV files and stored keypoint sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError
from ...core.hashing import hash_file
from ...core.keypoints import Keypoints
from ...core.regular_files import is_file, is_folder
from ...core.units import Item
from ...formats.keypoints.csv_file import read_keypoint_csv
from ...formats.keypoints.set_folder import read_keypoint_set, sets_below
from .spec import first_side

_IMAGES = ("ppm", "png", "jpg", "jpeg", "pgm", "bmp", "tif", "tiff")


def image_stems(image: str) -> list[str]:
    """What a file of an image may be called before its ending.

    >>> image_stems("1")[:2], image_stems("1")[-1]
    (['1', '1.ppm'], '1tiff')
    """
    return [image, *(f"{image}.{e}" for e in _IMAGES), *(f"{image}{e}" for e in _IMAGES)]


def find_file(root: Path, key: str, suffixes: Sequence[str]) -> Path:
    """The file of an image: ``SCENE/1.csv``, ``SCENE/1.ppm.csv`` or the workbench's ``1ppm.csv``.

    Two of them are an error: which one counts is not guessed.
    """
    scene, _, image = key.rpartition("/")
    names = [f"{stem}{suffix}" for stem in image_stems(image) for suffix in suffixes]
    found = [path for name in names if is_file(path := root / scene / name)]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} are of the same image; remove one")
    if found:
        return found[0]
    raise FormatError(root / scene / f"{image}{suffixes[0]}", f"there is no file for the image {key}")


class FolderOfImages:
    """A folder with one file for each image, ``DIR/SCENE/IMAGE`` and `suffix`."""

    def __init__(self, path: str, suffix: str) -> None:
        self.root, self.suffix = Path(path), suffix
        if not is_folder(self.root):
            raise InputError(f"{path} is not a folder; files:DIR holds DIR/SCENE/IMAGE{suffix}")

    def file(self, item: Item) -> Path:
        """The file of an image."""
        return find_file(self.root, item.key, (self.suffix,))

    def item_key(self, item: Item) -> str:
        """Hash of the file of an image."""
        return hash_file(self.file(item))

    def check_item(self, item: Item) -> None:
        """A `FormatError` where there is no file."""
        self.file(item)

    def check_items(self, items: Sequence[Item]) -> None:
        """All that is wrong with any file, at once."""
        problems = []
        for item in items:
            try:
                self.check_item(item)
            except InputError as e:
                problems.append(str(e))
        if problems:
            raise ProblemsError(str(self.root), problems)


class KeypointFiles(FolderOfImages):
    """``files:DIR``: keypoints from ``DIR/SCENE/IMAGE.csv``, in the order of the file."""

    given_keypoints = True

    def __init__(self, path: str) -> None:
        super().__init__(path, ".csv")
        self.config: dict[str, Any] = {}

    def check_item(self, item: Item) -> None:
        """A `FormatError` where there is no file, or it cannot be read."""
        read_keypoint_csv(self.file(item))

    def detect_item(self, item: Item, image: NDArray[np.uint8]) -> Keypoints:
        """Keypoints of the file."""
        return read_keypoint_csv(self.file(item))


def set_folder(name: str) -> Path:
    """The folder of a keypoint set: a path, or a name in the store of this place (``TIEPOINT_STORE``)."""
    store = Path(os.environ.get("TIEPOINT_STORE") or "tiepoint-store")
    known = sets_below(store)
    for folder in (Path(name), known.get(first_side(name, known))):
        if folder is not None and is_file(folder / "set.json"):
            return folder
    offer = f"known there: {', '.join(known)}" if known else "there is none yet; make it first"
    raise InputError(f"no keypoint set {name!r} in {store}; {offer}")


class KeypointSetPlaces:
    """``set:NAME``: the keypoints of a stored set, in its order."""

    given_keypoints = True

    def __init__(self, path: str) -> None:
        self.set = read_keypoint_set(set_folder(path))
        self.set_name = self.set.name
        self.keypoint_set = self.set.row()
        self.config = {"set": self.set.id}

    def check_items(self, items: Sequence[Item]) -> None:
        """Images the set does not know, and images that are not those it was made from."""
        problems = [p for p in (self._problem(item) for item in items) if p]
        if problems:
            raise ProblemsError(f"keypoint set {self.set_name}", problems)

    def _problem(self, item: Item) -> str | None:
        if item.key not in self.set.images:
            return f"{item.key} is not in the set"
        made_from = self.set.contents.get(item.key)
        if made_from is not None and made_from != item.content:
            return f"{item.key} is not the image the set was made from (other content)"
        return None

    def detect_item(self, item: Item, image: NDArray[np.uint8]) -> Keypoints:
        """Keypoints of an image."""
        problem = self._problem(item)
        if problem:
            raise InputError(f"keypoint set {self.set_name}: {problem}")
        return self.set.of(item.key)

    def pair_ids(self, item: Item) -> NDArray[np.int64]:
        """Numbers that say which rows are partners."""
        if self.set.pairs is None:
            raise InputError(
                f"the rows of keypoint set {self.set_name} have no partners; intersect two sets first"
            )
        return self.set.pairs[item.key]
