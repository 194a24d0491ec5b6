# SPDX-License-Identifier: BSD-3-Clause
"""Select the image pairs to match: all pairs, those in a file, or those of similar images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....core.array_cache import cached_arrays
from ....core.errors import FormatError, InputError, UnknownNameError
from ....datasets.reconstructions.image_scenes import ImageScene
from ....formats.file_io import read_lines
from ....formats.image.reader import read_image

MANY_IMAGES = 60
"""Largest number of images for which all pairs are matched by default."""
ALL = "all"
_SIMILAR = re.compile(r"similar:(?P<most>[1-9][0-9]*)")


def similar_count(option: str | None) -> int | None:
    """Return the K of ``similar:K``. None for other values of the option `pairs`."""
    found = _SIMILAR.fullmatch(option or "")
    return int(found["most"]) if found else None


def listed_pairs(scene: ImageScene, option: str | None) -> NDArray[np.int64] | None:
    """Return the image pairs (p, 2) of a scene, i < j, sorted. None if they depend on descriptors.

    Raises:
        InputError: The scene is too large for all pairs, or the file of pairs has unknown image names.
    """
    count = len(scene.images)
    if option is None and count > MANY_IMAGES:
        raise InputError(
            f"{scene.name} has {count} images, which are {count * (count - 1) // 2} pairs; set `pairs` to "
            "similar:20, to a file with two image names per line, or to all"
        )
    if similar_count(option) is not None:
        return None
    if option in (None, ALL):
        return np.array(list(combinations(range(count), 2)), np.int64)
    return _pairs_of_file(scene, Path(str(option)))


def _pairs_of_file(scene: ImageScene, path: Path) -> NDArray[np.int64]:
    """Read image pairs from a file with two names per line. A name may start with the name of the scene."""
    if not path.is_file():
        raise InputError(f"pairs={path}: the file does not exist; pass all, similar:K or a file of pairs")
    place = {name: i for i, name in enumerate(scene.images)}
    place |= {f"{scene.name}/{name}": i for name, i in place.items()}
    found: set[tuple[int, int]] = set()
    others = 0
    for number, line in enumerate(read_lines(path), start=1):
        names = line.split()
        if not names or line.startswith("#"):
            continue
        if len(names) != 2:
            raise FormatError(
                path,
                f"expected two image names, found {len(names)} fields; write one pair per line",
                line=number,
            )
        rows = [place.get(name) for name in names]
        if rows[0] is None or rows[1] is None:
            others += 1
            unknown = names[0] if rows[0] is None else names[1]
            continue
        if rows[0] == rows[1]:
            raise FormatError(path, f"{names[0]} is paired with itself; remove the line", line=number)
        found.add((min(rows[0], rows[1]), max(rows[0], rows[1])))
    if not found:
        if others:
            raise UnknownNameError(f"image of {scene.name} in {path}", unknown, list(scene.images))
        raise FormatError(path, "has no pair of images")
    return np.array(sorted(found), np.int64)


def mean_descriptor(values: NDArray[np.generic], distance: str) -> NDArray[np.float64]:
    """Return the mean descriptor of an image: for bits, their share minus one half.

    Zero without descriptors.
    """
    if distance == "hamming":
        bits = np.unpackbits(np.ascontiguousarray(values, np.uint8), axis=1)
        return bits.mean(axis=0) - 0.5 if len(bits) else np.zeros(bits.shape[1])
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found).all(axis=1)]
    return found.mean(axis=0) if len(found) else np.zeros(np.shape(values)[1])


def similar_pairs(means: Sequence[NDArray[np.float64]], most: int) -> NDArray[np.int64]:
    """Return the pairs of each image with the `most` images whose mean descriptors have the highest cosine.

    >>> similar_pairs([np.array([1.0, 0]), np.array([1.0, 0.1]), np.array([0.0, 1])], 1).tolist()
    [[0, 1], [1, 2]]
    """
    width = max(len(m) for m in means)
    table = np.array([m if len(m) == width else np.zeros(width) for m in means])
    length = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, length, out=np.zeros_like(table), where=length > 0)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    nearest = np.argsort(-cosine, axis=1, kind="stable")[:, : min(most, len(means) - 1)]
    rows = np.repeat(np.arange(len(means)), nearest.shape[1])
    both = np.sort(np.column_stack([rows, nearest.ravel()]), axis=1)
    return np.unique(both, axis=0).astype(np.int64)


def pairs_by_colmap_sift(scene: ImageScene, most: int) -> NDArray[np.int64]:
    """Return the pairs of images similar by COLMAP's SIFT, for methods without descriptors of an image."""

    def mean(name: str) -> Callable[[], Mapping[str, NDArray[np.float64]]]:
        def make() -> Mapping[str, NDArray[np.float64]]:
            from ....methods.keypoints.colmap_sift import ColmapSift

            _, values = ColmapSift().extract(read_image(scene.images[name]))
            return {"mean": mean_descriptor(values, "l2")}

        return make

    means = [
        np.asarray(cached_arrays("sfm-mean", ["colmap-sift", 1, content], mean(name))["mean"])
        for name, content in scene.contents.items()
    ]
    return similar_pairs(means, most)
