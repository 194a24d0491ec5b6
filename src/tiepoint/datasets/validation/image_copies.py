# SPDX-License-Identifier: BSD-3-Clause
"""Find images of equal content: copied scenes, shared images, and pairs of identical images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.formatting import count_text
from ...core.hashing import hash_file
from ...core.regular_files import is_file
from ..image_pairs.pair import ImagePair
from ..image_pairs.problems import first_names

SHARING = ("wxbs", "pf-willow", "pf-pascal", "spair")
"""Published datasets whose pairs or classes may share photographs."""


class ImageCopies(NamedTuple):
    """Messages about images of equal content.

    Images that pairs of a published dataset share give notes. All other copies give warnings.
    """

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def is_identical(pair: ImagePair) -> bool:
    """Return whether both images of a pair have the same content and orientation."""
    first, second = pair.image0, pair.image1
    if first is None or second is None or not pair.has_images() or pair.turns[0] != pair.turns[1]:
        return False
    if any(pair.members):
        return bool(np.array_equal(pair.image(0), pair.image(1)))
    return first == second or hash_file(first) == hash_file(second)


def find_image_copies(pairs: Sequence[ImagePair], *, reread: bool = False) -> ImageCopies:
    """Find images of equal content under different names, by the hashes of their files.

    Each kind of copy gives one warning with a count. Images shared by pairs of a published dataset give a
    note. With `reread`, cached hashes of files are recomputed.
    """
    for path in {p for pair in pairs for p in (pair.image0, pair.image1)} if reread else ():
        if path is not None and is_file(path):
            hash_file(path, reread=True)
    warnings = []
    identical = [pair for pair in pairs if is_identical(pair)]
    if identical:
        names = first_names([pair.name for pair in identical])
        warnings.append(
            f"{count_text(len(identical), 'pair has', 'pairs have')} two identical images ({names}), "
            "so no method can fail there; replace one image or remove the pair"
        )
    places, scenes = _places(pairs)
    copies = _copied_scenes(scenes)
    if copies:
        named = [f"{copy} of {original}" for copy, original in copies.items()]
        warnings.append(
            f"{count_text(len(copies), 'scene is a copy', 'scenes are copies')} ({first_names(named)}), so "
            "scores count the content twice and intervals are too narrow; remove the copy"
        )
    known = {pair.image0 for pair in identical}
    shared = []
    for files in places.values():
        own = [path for path, of in files.items() if not of & copies.keys()]
        if len(own) > 1 and known.isdisjoint(files):
            shared.append(" = ".join(_short(path) for path in own[:2]))
    if not shared:
        return ImageCopies(tuple(warnings))
    found = f"{count_text(len(shared), 'image has', 'images have')} several names ({first_names(shared)})"
    if {pair.dataset for pair in pairs} <= set(SHARING):
        return ImageCopies(tuple(warnings), (f"{found}, as published",))
    return ImageCopies((*warnings, f"{found}: their pairs are not independent; remove the copies"))


Files = dict[str, set[Path]]
"""The files with each content, by content hash."""


def _places(pairs: Iterable[ImagePair]) -> tuple[dict[str, dict[Path, set[str]]], dict[str, Files]]:
    """Index the images of pairs by content hash: {hash: {file: scenes}} and {scene: {hash: files}}."""
    places: dict[str, dict[Path, set[str]]] = defaultdict(lambda: defaultdict(set))
    scenes: dict[str, Files] = defaultdict(lambda: defaultdict(set))
    for pair in pairs:
        for path in (pair.image0, pair.image1):
            if path is not None and is_file(path):
                content = hash_file(path)
                places[content][path].add(pair.scene)
                scenes[pair.scene][content].add(path)
    return places, scenes


def _copied_scenes(scenes: dict[str, Files]) -> dict[str, str]:
    """Return the copied scenes, each with its original: a scene that has the same images in other files.

    The original has all images of the copy. Of two scenes with equal images, the first is the original.
    Scenes that use the same files are not copies.
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for scene, files in scenes.items():
        for content in files:
            holders[content].append(scene)
    order = {scene: i for i, scene in enumerate(scenes)}
    found = {}
    for scene, files in scenes.items():
        for other in holders[next(iter(files))]:
            theirs = scenes[other]
            if other == scene or not files.keys() <= theirs.keys():
                continue
            original = files.keys() != theirs.keys() or order[other] < order[scene]
            if original and all(files[content].isdisjoint(theirs[content]) for content in files):
                found[scene] = other
                break
    return found


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
