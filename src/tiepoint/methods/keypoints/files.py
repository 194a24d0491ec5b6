# SPDX-License-Identifier: BSD-3-Clause
"""``files:DIR``: read keypoints and descriptors of another program by image name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError
from ...core.hashing import hash_file, hash_json
from ...core.keypoints import Keypoints
from ...core.records import Item
from ...core.regular_files import is_file, is_folder
from ...formats import hdf5
from ...formats.keypoints.features import (
    StoredFeatures,
    is_feature_csv,
    read_features,
    read_hdf5_features,
    read_keypoint_csv,
)
from ...formats.keypoints.set_folder import HEADER, read_keypoint_set
from ...formats.matches.hloc import feature_groups
from ...formats.matches.source import find_image, float16_remarks
from .spec import stored_set

_IMAGES = ("ppm", "png", "jpg", "jpeg", "pgm", "bmp", "tif", "tiff")


def image_stems(image: str) -> list[str]:
    """Return the possible file names of an image's features, without suffix.

    >>> image_stems("1")[:2], image_stems("1")[-1]
    (['1', '1.ppm'], '1tiff')
    """
    return [image, *(f"{image}.{e}" for e in _IMAGES), *(f"{image}{e}" for e in _IMAGES)]


def find_file(root: Path, key: str, suffixes: Sequence[str]) -> Path:
    """Return the feature file of an image: ``SCENE/1.csv``, ``SCENE/1.ppm.csv`` or ``SCENE/1ppm.csv``.

    Raise an error if no file or several files match.
    """
    scene, _, image = key.rpartition("/")
    names = [f"{stem}{suffix}" for stem in image_stems(image) for suffix in suffixes]
    found = [path for name in names if is_file(path := root / scene / name)]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name}: both belong to the same image; remove one")
    if found:
        return found[0]
    raise FormatError(
        root / scene / f"{image}{suffixes[0]}", f"the file of the image {key} is missing; add it"
    )


class FolderOfImages:
    """A folder with one file per image: ``DIR/SCENE/IMAGE`` followed by `suffix`."""

    def __init__(self, path: str, suffix: str) -> None:
        self.root, self.suffix = Path(path), suffix
        if not is_folder(self.root):
            raise InputError(f"{path} is not a folder; expected files DIR/SCENE/IMAGE{suffix}")

    def file(self, item: Item) -> Path:
        """Return the path of the file of an image."""
        return find_file(self.root, item.key, (self.suffix,))

    def item_key(self, item: Item) -> str:
        """Return a hash of the file of an image."""
        return hash_file(self.file(item))

    def check_item(self, item: Item) -> None:
        """Raise a `FormatError` if the file is missing."""
        self.file(item)

    def check_items(self, items: Sequence[Item]) -> None:
        """Check the files of all items and raise one error that lists all problems."""
        problems = []
        for item in items:
            try:
                self.check_item(item)
            except InputError as e:
                problems.append(str(e))
        if problems:
            raise ProblemsError(str(self.root), problems)


class KeypointFiles(FolderOfImages):
    """``files:DIR``: keypoints from ``DIR/SCENE/IMAGE.csv``, in file order."""

    given_keypoints = True

    def __init__(self, path: str) -> None:
        super().__init__(path, ".csv")
        self.config: dict[str, Any] = {}

    def check_item(self, item: Item) -> None:
        """Raise a `FormatError` if the file is missing or unreadable."""
        read_keypoint_csv(self.file(item))

    def detect_item(self, item: Item, image: NDArray[np.uint8]) -> Keypoints:
        """Return the keypoints of an image, read from its file."""
        return read_keypoint_csv(self.file(item))


def set_folder(name: str) -> Path:
    """Return the folder of a keypoint set, given as a path or as a name in the store ``TIEPOINT_STORE``."""
    if is_file(Path(name) / HEADER):
        return Path(name)
    return stored_set(name, Path(os.environ.get("TIEPOINT_STORE") or "tiepoint-store"))


class KeypointSetPlaces:
    """``set:NAME``: the keypoints of a stored keypoint set, in stored order."""

    given_keypoints = True

    def __init__(self, path: str) -> None:
        self.set = read_keypoint_set(set_folder(path))
        self.set_name = self.set.name
        self.keypoint_set = self.set.row()
        self.config = {"set": self.set.id}

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists images that are missing in the set or changed since it was created."""
        problems = [p for p in (self._problem(item) for item in items) if p]
        if problems:
            raise ProblemsError(f"keypoint set {self.set_name}", problems)

    def _problem(self, item: Item) -> str | None:
        if item.key not in self.set.images:
            return f"{item.key} is not in the set"
        made_from = self.set.contents.get(item.key)
        if made_from is not None and made_from != item.content:
            return f"{item.key} differs from the image that the set was created from"
        return None

    def detect_item(self, item: Item, image: NDArray[np.uint8]) -> Keypoints:
        """Return the keypoints of an image."""
        problem = self._problem(item)
        if problem:
            raise InputError(f"keypoint set {self.set_name}: {problem}")
        return self.set.of(item.key)

    def pair_ids(self, item: Item) -> NDArray[np.int64]:
        """Return the pair number of each keypoint of an image. Keypoints with equal numbers correspond."""
        if self.set.pairs is None:
            raise InputError(
                f"keypoint set {self.set_name} is not paired; create paired sets with `keypoints intersect`"
            )
        return self.set.pairs[item.key]


LOOKED_AT = 200
"""Number of files that are inspected to identify a folder."""


class FeatureFiles(FolderOfImages):
    """Features read from one file per image, or from one HDF5 file for all images.

    Files are ``DIR/SCENE/IMAGE.npz``, ``IMAGE.ppm.npz``, ``IMAGE.csv`` or ``IMAGE.ppm.d2-net``, in the
    formats of `formats.keypoints.features`. ``?suffix=`` selects another suffix. Leading folders of an
    image's name may be missing. With ``?distance=hamming``, descriptors are bits (uint8 or bool). `offset` is
    added to all coordinates (-0.5 if the first pixel's centre is (0.5, 0.5) in the files). `top` selects the
    keypoints with the highest scores, in file order.
    """

    def __init__(
        self,
        path: str,
        suffix: str = ".npz",
        distance: str = "l2",
        offset: float = 0.0,
        top: int | None = None,
    ) -> None:
        super().__init__(path, suffix)
        self.distance, self.offset, self.top = distance, float(offset), top
        if top is not None and (not isinstance(top, int) or top < 1):
            raise InputError(f"files:{path}: `top` is {top!r}; expected a positive integer")
        self.name = f"files:{self.root.name}"
        self.warnings: list[str] = []
        self.config: dict[str, Any] = {"suffix": suffix}
        # default values are omitted, so that cache keys do not change
        self.config |= {k: v for k, v in (("offset", self.offset), ("top", top)) if v}

    @cached_property
    def _groups(self) -> tuple[Path, dict[str, str]] | None:
        files = [p for p in sorted(self.root.iterdir()) if p.suffix in hdf5.SUFFIXES]
        if len(files) > 1:
            names = ", ".join(p.name for p in files)
            raise InputError(f"{self.root} has several feature files ({names}); keep one per folder")
        return (files[0], feature_groups(files[0])) if files else None

    def _place(self, item: Item) -> tuple[Path, str | None]:
        if self._groups is not None:
            file, groups = self._groups
            group = find_image(groups, item.key)
            if group is None:
                raise FormatError(file, f"the group of the image {item.key} is missing; add it to the file")
            return file, group
        return self.file(item), None

    def file(self, item: Item) -> Path:
        """Return the path of an image's file. Try its name without leading folders if the file is missing."""
        parts = item.key.strip("/").split("/")
        endings = (self.suffix,) if self.suffix != ".npz" else (".npz", ".csv")
        for start in range(len(parts)):
            key = "/".join(parts[start:])
            try:
                return find_file(self.root, key, endings)
            except FormatError:
                scene, _, image = key.rpartition("/")
                folder = self.root / scene
                for stem in image_stems(image) if self.suffix == ".npz" and folder.is_dir() else ():
                    for path in sorted(folder.glob(f"{_escaped(stem)}.*")):
                        if path.is_file() and _is_zip(path):
                            return path
        return find_file(self.root, item.key, endings)

    def item_key(self, item: Item) -> str:
        """Return a hash of the file of an image and, in HDF5 files, of the image's group."""
        file, group = self._place(item)
        return hash_file(file) if group is None else hash_json([hash_file(file), group])

    def check_item(self, item: Item) -> None:
        """Raise a `FormatError` if the file is missing."""
        self._place(item)

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists all missing files.

        Set `warnings` if positions are stored too coarsely.
        """
        super().check_items(items)
        if self._groups is None:
            return
        coarse = [float16_remarks(f.keypoints.xy.astype(f.written)) for f in map(self._features, items)]
        found = [remark for remarks in coarse for remark in remarks]
        self.warnings[:] = [f"{self.root}, {len(found)} of {len(items)} images: {found[0]}"] if found else []

    def _features(self, item: Item) -> StoredFeatures:
        file, group = self._place(item)
        return read_features(file) if group is None else read_hdf5_features(file, group)

    def lookup_item(self, item: Item) -> tuple[Keypoints, Any, Any]:
        """Return the keypoints, descriptors and validity mask of an image."""
        keypoints, descriptors, valid, _ = self._features(item)
        if self.top is not None and self.top < len(keypoints):
            if not keypoints.response.any():
                raise InputError(f"{self.root}: {item.key} has no scores; add them or remove `top`")
            best = np.sort(np.argsort(-keypoints.response, kind="stable")[: self.top])
            keypoints, descriptors = keypoints[best], descriptors[best]
            valid = None if valid is None else valid[best]
        if self.offset:
            table = keypoints.to_array()
            table[:, :2] += self.offset
            keypoints = Keypoints.from_array(table)
        return keypoints, descriptors, valid


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def holds_features(root: Path) -> bool:
    """Return whether a folder seems to contain features of images, judging by its first files."""
    for path in islice((p for p in sorted(root.rglob("*")) if p.is_file()), LOOKED_AT):
        try:
            if path.suffix in hdf5.SUFFIXES:
                feature_groups(path)
                return True
            if path.suffix == ".csv" and is_feature_csv(path):
                return True
            if path.suffix != ".csv" and _is_zip(path):
                read_features(path)
                return True
        except (InputError, OSError):
            continue
    return False
