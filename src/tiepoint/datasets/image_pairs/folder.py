# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs of a folder of photographs, without ground truth."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ...core.errors import InputError
from ...core.hashing import hash_array, hash_file
from ...core.regular_files import is_folder
from ...formats.image.reader import SUFFIXES, read_image
from .pair import ImagePair, default_names
from .reader import read_pairs

LIMIT = 30
"""Default number of pairs of a folder."""
MAX_IMAGES_ALL_PAIRS = 8
"""Number of images up to which all pairs are formed."""
OFFSETS = (1, 2, 4)
"""Distances between the images of a pair, in positions of the natural order, in larger folders."""

Names = tuple[str, str]


class NamedPair(NamedTuple):
    """Two images of a folder, and the key ``NAME0|NAME1`` of the pair."""

    key: str
    pair: ImagePair


def pair_key(names: Names) -> str:
    """Return the key of a pair of image names, ``NAME0|NAME1``.

    >>> pair_key(("a.jpg", "b.jpg"))
    'a.jpg|b.jpg'
    """
    return "|".join(names)


def natural_order(names: Iterable[str]) -> list[str]:
    """Sort names so that numbers in them are compared as numbers (``2`` before ``10``).

    >>> natural_order(["img10.png", "img9.png", "Img1.png"])
    ['Img1.png', 'img9.png', 'img10.png']
    """

    def parts(name: str) -> tuple[list[tuple[int, int, str]], str]:
        pieces = re.findall(r"[0-9]+|[^0-9]+", name)
        numbered = [(0, int(p), "") if p.isascii() and p.isdigit() else (1, 0, p.casefold()) for p in pieces]
        return numbered, name

    return sorted(names, key=parts)


def image_names(folder: Path) -> list[str]:
    """Return the names of the images directly in a folder, in natural order.

    Raises:
        InputError: The folder is missing or has fewer than two images.
    """
    if not is_folder(folder):
        raise InputError(f"{folder} is not a folder; pass a folder of images")
    names = natural_order(
        p.name
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
    )
    if len(names) < 2:
        below = natural_order({p.parent.name for p in folder.glob("*/*") if p.suffix.lower() in SUFFIXES})
        hint = f"choose one of its folders, such as {below[0]}" if below and not names else "add images"
        found = f"{len(names)} image{'' if len(names) == 1 else 's'}"
        raise InputError(f"{folder}: found {found}, but pairs need at least 2; {hint}")
    return names


def draw_pairs(names: Sequence[str], limit: int = LIMIT) -> list[Names]:
    """Return at most `limit` pairs of the image names `names`, which are in natural order.

    Up to `MAX_IMAGES_ALL_PAIRS` images, all pairs are candidates. For more images, each of the `OFFSETS`
    gives an equal number of candidates. Of too many candidates, those with the smallest hash are selected.

    >>> draw_pairs(list("abc"))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    >>> len(draw_pairs([f"{i}" for i in range(100)])), len(draw_pairs(list("abc"), 2))
    (30, 2)
    """
    if len(names) <= MAX_IMAGES_ALL_PAIRS:
        return smallest(list(combinations(names, 2)), limit)
    return offset_pairs(names, limit)


def offset_pairs(names: Sequence[str], limit: int) -> list[Names]:
    """Return at most `limit` pairs of names whose positions differ by `OFFSETS`, equally many per offset.

    >>> offset_pairs(list("abcdef"), 3)
    [('a', 'b'), ('d', 'f'), ('b', 'f')]
    """
    n = len(names)
    shares = [limit // len(OFFSETS) + (k < limit % len(OFFSETS)) for k in range(len(OFFSETS))]
    found: list[Names] = []
    for offset, share in zip(OFFSETS, shares, strict=True):
        found += smallest([(names[i], names[i + offset]) for i in range(n - offset)], share)
    return found


def draw_more(names: Sequence[str], drawn: Sequence[Names], limit: int = LIMIT) -> list[Names]:
    """Return up to `limit` pairs of names that are not in `drawn`.

    >>> draw_more(list("abc"), [("a", "b"), ("b", "c")])
    [('a', 'c')]
    """
    known = set(drawn)
    return smallest([pair for pair in combinations(names, 2) if pair not in known], limit)


def smallest(pairs: Sequence[Names], count: int) -> list[Names]:
    """Return the `count` pairs with the smallest hashes, in their original order."""
    rank = sorted(range(len(pairs)), key=lambda i: hashlib.sha256(pair_key(pairs[i]).encode()).digest())
    return [pairs[i] for i in sorted(rank[:count])]


def named_pairs(folder: Path, pairs: Sequence[Names]) -> list[NamedPair]:
    """Return an image pair for each pair of image names in a folder."""
    stems = [(str(Path(a).with_suffix("")), str(Path(b).with_suffix(""))) for a, b in pairs]
    shown = default_names(stems, [folder.name] * len(pairs))
    if len(set(shown)) < len(shown):  # a.jpg beside a.png
        shown = default_names(pairs, [folder.name] * len(pairs))
    return [
        NamedPair(
            pair_key(names), ImagePair(name, folder.name, image0=folder / names[0], image1=folder / names[1])
        )
        for name, names in zip(shown, pairs, strict=True)
    ]


def listed_pairs(file: Path, folder: Path, limit: int | None = None) -> tuple[list[NamedPair], bool]:
    """Return the pairs of a list of any known layout, and whether the list states the pose of every pair.

    `folder` is the root of the image names. `limit` selects the pairs with the smallest hashes.
    """
    found = {}
    truths = read_pairs(file, needs="any", images=folder).truths
    for pair in (truth.pair for truth in truths):
        if pair.image0 is None or pair.image1 is None or not pair.has_images():
            raise InputError(f"{file}: pair {pair.name} has no images in {folder}; correct the names")
        names = (_below(pair.image0, folder), _below(pair.image1, folder))
        found[names] = NamedPair(pair_key(names), pair)
    chosen = list(found) if limit is None else smallest(list(found), limit)
    return [found[names] for names in chosen], all(truth.T_0to1 is not None for truth in truths)


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def without_equal(pairs: Sequence[NamedPair]) -> tuple[list[NamedPair], list[NamedPair]]:
    """Split pairs in two lists: those with different images, and those whose images have equal pixels.

    Reads every image. An image that cannot be read raises an error.
    """
    hashes: dict[tuple[Path, int], str] = {}

    def content(path: Path, turns: int) -> str:
        if (path, turns) not in hashes:
            import numpy as np

            hashes[path, turns] = hash_array(np.ascontiguousarray(np.rot90(read_image(path), turns)))
        return hashes[path, turns]

    kept: list[NamedPair] = []
    equal: list[NamedPair] = []
    for named in pairs:
        a, b = named.pair.image0, named.pair.image1
        assert a is not None
        assert b is not None
        turns = named.pair.turns
        same = hash_file(a) == hash_file(b) and turns[0] == turns[1]
        same = same or content(a, turns[0]) == content(b, turns[1])
        (equal if same else kept).append(named)
    return kept, equal
