# SPDX-License-Identifier: BSD-3-Clause
"""Folders of image sequences with homographies: HPatches and Oxford layouts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from ..core.formatting import found_in
from ..core.hashing import hash_file, hash_json
from ..core.scores import scene_kind
from ..formats.image.reader import SUFFIXES, read_image, read_size
from ..formats.text.numbers import read_homography
from .image_pairs.ground_truth import PairTruth
from .image_pairs.pair import ImagePair

_IMAGE = re.compile(r"(?:img)?([1-9]\d*)", re.IGNORECASE)
_MAX_LISTED = 20
"""Maximum number of missing images of a sequence that a message lists."""
_HOMOGRAPHY = re.compile(r"H_1_([1-9]\d*)|H1to([1-9]\d*)p?", re.IGNORECASE)


class NoSequencesError(InputError):
    """Raised if a folder contains no image sequence."""


@dataclass(frozen=True)
class SequenceFiles:
    """Files of one sequence: images and homographies by image number. Image 1 is the reference."""

    name: str
    images: dict[int, Path]
    homographies: dict[int, Path]


class ImageSequences:
    """Folder of image sequences, read on demand. All file headers are checked when it is opened.

    Each sequence is a sub-folder with images ``1.ppm … n.ppm`` and ``H_1_2 … H_1_n`` (HPatches) or ``img1.ppm
    … imgn.ppm`` and ``H1to2p … H1tonp`` (Oxford), n >= 2. Images may also be png, jpg and other common
    formats. H maps image 1 to image k; pixel centres are integers. If the folder itself contains images, it
    is one sequence. In both layouts, images are named by their number, ``"1" … "n"``.

    Args:
        root: The folder.
        scenes: Names of the sequences to select, in any order. If None, all are selected. Unknown names are
            an error.

    Raises:
        ProblemsError: Sequences have missing images, invalid or missing homographies, duplicate numbers or
            unreadable headers. All problems are listed.
        NoSequencesError: The folder contains no sequence.
    """

    def __init__(self, root: str | Path, scenes: Iterable[str] | None = None) -> None:
        self.root = Path(root)
        found = _find_scenes(self.root)
        if scenes is not None:
            selected = list(scenes)
            for name in selected:
                if name not in found:
                    raise UnknownNameError("sequence", name, found)
            found = {name: folder for name, folder in found.items() if name in selected}
        problems: list[str] = []
        self._scenes = {name: _read_scene(name, folder, problems) for name, folder in found.items()}
        self._sizes: dict[tuple[str, str], tuple[int, int]] = {}
        self._matrices: dict[tuple[str, int], NDArray[np.float64]] = {}
        for scene in self._scenes.values():
            self._check(scene, problems)
        if problems:
            raise ProblemsError(str(self.root), problems)

    @property
    def scenes(self) -> tuple[str, ...]:
        """Names of the sequences, sorted."""
        return tuple(self._scenes)

    def kind(self, scene: str) -> str:
        """Return the kind of a scene: ``"i"`` (illumination), ``"v"`` (viewpoint) or ``"other"``."""
        return scene_kind(scene)

    def images(self, scene: str) -> tuple[str, ...]:
        """Return the names of the images of a scene, ``("1", "2", …)``. The first is the reference."""
        return tuple(str(k) for k in self._scene(scene).images)

    def path(self, scene: str, name: str | int) -> Path:
        """Return the path of an image."""
        images = self._scene(scene).images
        if str(name) not in {str(k) for k in images}:
            raise UnknownNameError(f"image of {scene}", str(name), [str(k) for k in images])
        return images[int(name)]

    def image(self, scene: str, name: str | int) -> NDArray[np.uint8]:
        """Read an image as RGB uint8 (h, w, 3).

        To convert it to grey, use `tiepoint.formats.image.reader.to_grey`.
        """
        return read_image(self.path(scene, name))

    def size(self, scene: str, name: str | int) -> tuple[int, int]:
        """Return (width, height) of an image, without decoding it."""
        self.path(scene, name)
        return self._sizes[scene, str(name)]

    def homography(self, scene: str, k: str | int) -> NDArray[np.float64]:
        """Return the homography from image 1 to image k, float64 (3, 3), as stored."""
        self.path(scene, k)
        return np.eye(3) if int(k) == 1 else self._matrices[scene, int(k)].copy()

    def pair(self, scene: str, k: str | int) -> PairTruth:
        """Return the image pair (reference, image k) of a scene, with its homography."""
        pair = ImagePair(
            f"{scene}/1-{k}",
            scene,
            image0=self.path(scene, 1),
            image1=self.path(scene, k),
            size0=self.size(scene, 1),
            size1=self.size(scene, k),
        )
        return PairTruth(pair, annotations={"H": self.homography(scene, k)})

    def pairs(self) -> tuple[PairTruth, ...]:
        """Return the pairs of the reference with every other image, for all scenes."""
        return tuple(self.pair(scene, k) for scene in self.scenes for k in self.images(scene)[1:])

    def content(self, scene: str, name: str | int) -> str:
        """Return the content hash of an image file."""
        return hash_file(self.path(scene, name))

    def definition(self, scene: str) -> str:
        """Return a hash of a scene: its image names, image contents and homographies."""
        images = {name: self.content(scene, name) for name in self.images(scene)}
        return hash_json({"images": images, "H": {k: self.homography(scene, k).tolist() for k in images}})

    @cached_property
    def data_hash(self) -> str:
        """Hash of the dataset (scene names and definitions). It does not depend on the path."""
        return hash_json({scene: self.definition(scene) for scene in self.scenes})

    def check(self) -> list[str]:
        """Decode every image and return a list of problems."""
        problems = []
        for scene in self.scenes:
            for name in self.images(scene):
                try:
                    self.image(scene, name)
                except FormatError as e:
                    problems.append(str(e))
        return problems

    def _scene(self, name: str) -> SequenceFiles:
        if name not in self._scenes:
            raise UnknownNameError("sequence", name, self._scenes)
        return self._scenes[name]

    def _check(self, scene: SequenceFiles, problems: list[str]) -> None:
        for k, path in scene.images.items():
            try:
                self._sizes[scene.name, str(k)] = read_size(path)
            except FormatError as e:
                problems.append(str(e))
        for k, path in scene.homographies.items():
            try:
                self._matrices[scene.name, k] = read_homography(path)
            except FormatError as e:
                problems.append(str(e))


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        p
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and _IMAGE.fullmatch(p.stem) and p.is_file()
    )


def _find_scenes(root: Path) -> dict[str, Path]:
    if not root.is_dir():
        raise InputError(f"{root}: {found_in(root)}; pass a folder of image sequences")
    if _image_files(root):
        return {root.resolve().name: root}
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = {p.name: p for p in folders if _image_files(p)}
    if not found:
        raise NoSequencesError(
            f"{root} contains no image sequence: {found_in(root)}\n"
            "  expected: SEQ/1.ppm … 6.ppm with H_1_2 … H_1_6, or SEQ/img1.ppm … img6.ppm with H1to2p … "
            "H1to6p (also png and jpg)"
        )
    return found


def _read_scene(name: str, folder: Path, problems: list[str]) -> SequenceFiles:
    """Collect the files of a sequence by image number. Append gaps and duplicates to `problems`."""
    images: dict[int, Path] = {}
    for path in _image_files(folder):
        match = _IMAGE.fullmatch(path.stem)
        k = int(match[1]) if match else 0
        if k in images:
            problems.append(f"{folder}: {images[k].name} and {path.name} are both image {k}; remove one")
        images[k] = path
    homographies: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        match = _HOMOGRAPHY.fullmatch(path.name.removesuffix(".txt"))
        if match:
            k = int(match[1] or match[2])
            if k in homographies:
                both = f"{homographies[k].name} and {path.name}"
                problems.append(f"{folder}: two homographies from image 1 to {k}: {both}; remove one")
            homographies[k] = path
    last = max(images)
    absent = last - len(images)
    if absent > _MAX_LISTED:  # the numbers are dates or frame numbers
        problems.append(f"{folder}: {absent} of images 1 to {last} are missing; number images from 1")
    else:
        problems += [
            f"{folder}: image {k} is missing; images must be numbered from 1 to {last}"
            for k in range(1, last)
            if k not in images
        ]
    if last == 1:
        problems.append(f"{folder} has only one image; a sequence needs at least two")
    problems += [
        f"{folder}: the homography from image 1 to image {k} is missing (H_1_{k} or H1to{k}p)"
        for k in sorted(images)
        if k != 1 and k not in homographies
    ]
    problems += [
        f"{folder}: {homographies[k].name} exists, but image {k} is missing"
        for k in sorted(homographies)
        if k != 1 and k not in images
    ]
    return SequenceFiles(name, dict(sorted(images.items())), dict(sorted(homographies.items())))
