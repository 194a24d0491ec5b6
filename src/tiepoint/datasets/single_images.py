# SPDX-License-Identifier: BSD-3-Clause
"""One image per scene, from a folder of images or a dataset of any layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ..core.errors import InputError, UnknownNameError
from ..core.formatting import found_in
from ..core.regular_files import is_file
from ..formats.image.reader import SUFFIXES
from .image_pairs.problems import PairProblems
from .image_pairs.reader import detect_layout, read_pairs

_NUMBER = re.compile(r"(\d+)")
_DEPTH = 3
"""Number of folder levels that are searched for images."""


def first_images(path: str | Path) -> dict[str, Path]:
    """Return the first image of every scene, sorted by the name of the scene.

    If `path` is a folder of images without homographies, every image is a scene. If it is a sequence, a
    folder of folders or a dataset of image pairs, the first image of each scene is returned. An image file is
    one scene.

    Raises:
        InputError: The path does not exist, has patch strips, or has no image.
    """
    root = Path(path).expanduser()
    if not root.exists():
        raise InputError(f"{root} does not exist; pass a folder of images")
    if is_file(root):
        return {root.stem: root} if root.suffix.lower() in SUFFIXES else _of_pairs(root)
    if any(root.glob("*/ref.png")) or (root / "ref.png").exists():
        raise InputError(f"{root} has patch strips (ref.png); pass a folder of photographs")
    found = _of_folder(root)
    if not found:
        raise InputError(f"{root} has no image: {found_in(root)}; pass a folder of images or a dataset")
    return dict(sorted(found.items()))


def _of_folder(root: Path) -> dict[str, Path]:
    images = _images(root)
    if images:
        if any(root.glob("H_1_*")) or any(root.glob("H1to*")):
            return {root.resolve().name: images[0]}
        repeated = {stem for stem, count in Counter(p.stem for p in images).items() if count > 1}
        return {p.name if p.stem in repeated else p.stem: p for p in images}
    if detect_layout(root, PairProblems(root, (root, root / "images")))[0] is not None:
        return _of_pairs(root)
    return _below(root, "", _DEPTH)


def _of_pairs(path: Path) -> dict[str, Path]:
    """Return image 0 of the first pair of each scene."""
    found: dict[str, Path] = {}
    for pair in read_pairs(path, needs="any").pairs:
        if pair.image0 is not None and is_file(pair.image0):
            found.setdefault(pair.scene, pair.image0)
    if not found:
        raise InputError(f"{path} lists image pairs without image files; add the images")
    return found


def _below(root: Path, prefix: str, depth: int) -> dict[str, Path]:
    """Return the first image of every folder below `root` that contains images, by folder name."""
    found: dict[str, Path] = {}
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
        name = f"{prefix}{folder.name}"
        images = _images(folder)
        if images:
            found[name] = images[0]
        elif depth > 1:
            found |= _below(folder, f"{name}/", depth - 1)
    return found


def _images(folder: Path) -> list[Path]:
    """Return the images of a folder, sorted so that numbers in names are compared as numbers."""
    files = [
        p
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and is_file(p)
    ]
    return sorted(
        files, key=lambda p: [(len(t), t) if t.isdigit() else (0, t) for t in _NUMBER.split(p.name)]
    )


def by_scene(images: Mapping[str, Path], scenes: tuple[str, ...]) -> dict[str, Path]:
    """Return the images of the scenes `scenes` (empty: all). Raise `UnknownNameError` for unknown scenes."""
    for scene in scenes:
        if scene not in images:
            raise UnknownNameError("scene", scene, images)
    return {name: p for name, p in images.items() if not scenes or name in scenes}
