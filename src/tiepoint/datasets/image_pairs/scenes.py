# SPDX-License-Identifier: BSD-3-Clause
"""Determine scene and dataset of image pairs from the names of their images."""

from __future__ import annotations

import re
from collections.abc import Sequence

Names = tuple[str | None, str | None]
Size = tuple[int, int]
_SCANNET = re.compile(r"(scene\d{4})_\d\d(?=[/\\_]|$)")
_MEGADEPTH = re.compile(r"(?:Undistorted_SfM|phoenix/S6/zl548/MegaDepth_v1)/(\d{4})/")


def dataset_of(stated: str | None, images: Names) -> str:
    """Return the lower-case dataset name of a pair, as stated or detected from the image names.

    Only `scannet` and `megadepth` can be detected. For other image names the result is empty.

    >>> dataset_of(None, ("scene0707_00/color/15.jpg", None)), dataset_of("MegaDepth", (None, None))
    ('scannet', 'megadepth')
    """
    if stated:
        return stated.lower()
    name = images[0] or ""
    return "scannet" if _SCANNET.search(name) else "megadepth" if _MEGADEPTH.search(name) else ""


def known_sizes(images: Names, cx0: float, cx1: float) -> tuple[Size | None, Size | None]:
    """Return the sizes of two ScanNet images, 1296 x 968 or 640 x 480. None for images of other datasets.

    The horizontal principal points `cx0` and `cx1` determine the sizes.

    >>> known_sizes(("scene0707_00/color/15.jpg", "scene0707_00/color/585.jpg"), 653.6, 322.8)
    ((1296, 968), (640, 480))
    """
    if dataset_of(None, images) != "scannet":
        return None, None
    return (1296, 968) if cx0 > 480 else (640, 480), (1296, 968) if cx1 > 480 else (640, 480)


def scenes_of(pairs: Sequence[tuple[Names, str | None]]) -> list[str]:
    """Return the scene of each pair: as stated, else from image names, else from shared images.

    Scans of one ScanNet room are one scene (`scene0707`), as are all images of one MegaDepth model. In other
    datasets, pairs that share an image are not independent and form one scene, named after its first image.

    >>> scenes_of([(("a.png", "b.png"), None), (("b.png", "c.png"), None), (("d.png", "e.png"), None)])
    ['a', 'a', 'd']
    """
    roots: dict[str, str] = {}

    def root(name: str) -> str:
        roots.setdefault(name, name)
        while roots[name] != name:
            roots[name] = name = roots[roots[name]]
        return name

    for (a, b), stated in pairs:
        if stated is None and a is not None and b is not None:
            roots[root(b)] = root(a)
    first: dict[str, str] = {}
    scenes = []
    for i, ((a, b), stated) in enumerate(pairs, start=1):
        name = a or b
        if stated is not None:
            scenes.append(stated)
        elif name is None:
            scenes.append(str(i))
        elif found := _SCANNET.search(name) or _MEGADEPTH.search(name):
            scenes.append(found[1])
        else:
            scenes.append(first.setdefault(root(name), _image_stem(name)))
    return scenes


def _image_stem(name: str) -> str:
    head, dot, tail = name.rpartition(".")
    return head if dot and head and "/" not in tail else name
