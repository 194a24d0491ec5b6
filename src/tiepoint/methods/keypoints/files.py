# SPDX-License-Identifier: BSD-3-Clause
"""``files:DIR``: keypoints and descriptors of another program, looked up by the name of an image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError, InputError
from ...core.hashing import hash_file, hash_json
from ...core.keypoints import Keypoints
from ...core.units import Item
from ...formats import hdf5
from ...formats.keypoints.features import StoredFeatures, is_feature_csv, read_features, read_hdf5_features
from ...formats.matches.hloc import feature_groups
from ...formats.matches.naming import find_image
from ...formats.matches.source import float16_remarks
from .files_part import FolderOfImages, find_file, image_stems

LOOKED_AT = 200
"""Files of a folder that are looked at to tell what it holds."""


class FeatureFiles(FolderOfImages):
    """One file for each image, or an HDF5 file for all of them.

    ``DIR/SCENE/IMAGE.npz`` (or ``IMAGE.ppm.npz``, ``IMAGE.csv``, ``IMAGE.ppm.d2-net``; another ending with
    ``?suffix=``) as `formats.keypoints.features` reads it. Leading folders of an image's name may be missing.
    Bits are uint8 or bool with ``?distance=hamming``. `offset` is added to all coordinates (-0.5 where the
    first pixel's centre is (0.5, 0.5) in the files); `top` keeps so many keypoints of the highest score, in
    their order.
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
            raise InputError(f"files:{path}: `top` is {top!r}; expected a whole number of keypoints above 0")
        self.name = f"files:{self.root.name}"
        self.warnings: list[str] = []
        self.config: dict[str, Any] = {"suffix": suffix}
        # features that were kept before these existed stay valid
        self.config |= {k: v for k, v in (("offset", self.offset), ("top", top)) if v}

    @cached_property
    def _groups(self) -> tuple[Path, dict[str, str]] | None:
        files = [p for p in sorted(self.root.iterdir()) if p.suffix in hdf5.SUFFIXES]
        if len(files) > 1:
            names = ", ".join(p.name for p in files)
            raise InputError(f"{self.root} has {names}; keep one file of features in a folder")
        return (files[0], feature_groups(files[0])) if files else None

    def _place(self, item: Item) -> tuple[Path, str | None]:
        if self._groups is not None:
            file, groups = self._groups
            group = find_image(groups, item.key)
            if group is None:
                raise FormatError(file, f"there is no group for the image {item.key}")
            return file, group
        return self.file(item), None

    def file(self, item: Item) -> Path:
        """The file of an image: that of the longest part of its name that there is one for."""
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
        """Hash of the file of an image, and its group there."""
        file, group = self._place(item)
        return hash_file(file) if group is None else hash_json([hash_file(file), group])

    def check_item(self, item: Item) -> None:
        """A `FormatError` where there is no file."""
        self._place(item)

    def check_items(self, items: Sequence[Item]) -> None:
        """All that is missing, at once; and what is worth knowing."""
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
        """Keypoints, descriptors and validity of an image."""
        keypoints, descriptors, valid, _ = self._features(item)
        if self.top is not None and self.top < len(keypoints):
            if not keypoints.response.any():
                raise InputError(f"{self.root}: {item.key} has no scores; `top` needs them to choose by")
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
    """Whether a folder looks like one of features of images, by its first files."""
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
