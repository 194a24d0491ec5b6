# SPDX-License-Identifier: BSD-3-Clause
"""How other programs name a pair of images, and which of their names a pair of ours has.

Slashes of either direction count as ``-``, endings of image files may be there or not, and leading folders
may be missing: ``/data/scene/1.jpg`` is found as ``scene/1.jpg``, ``scene-1`` or ``1.jpg``, longest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from ...core.errors import FormatError
from ..image.reader import SUFFIXES

T = TypeVar("T")
TWO = "|"
"""Between two names that a file keeps apart."""
JOINTS = ("--", "_", "-", TWO)
BACK = "-back"
"""Ends the name of a pair that is asked about from image 1 to image 0."""


class PairQuery(NamedTuple):
    """A pair that is looked for: its name and those of its images, empty where unknown."""

    name: str
    images: tuple[str, str] = ("", "")


def flat_name(name: str) -> str:
    r"""A name as part of a file name: slashes of either direction become ``-``.

    >>> flat_name("WGABS/kremlin"), flat_name("a\\b")
    ('WGABS-kremlin', 'a-b')
    """
    return name.replace("\\", "/").strip("/").replace("/", "-")


def pair_text(name0: str, name1: str) -> str:
    """Two names that a file keeps apart, as one text to look up."""
    return f"{flat_name(name0)}{TWO}{flat_name(name1)}"


def index_unique(
    places: Iterable[tuple[str, T]], path: Path, shown: Callable[[T], str] = str
) -> dict[str, T]:
    """Places by name, which are `shown` in errors; which of two would count is not guessed.

    Raises:
        FormatError: if a name is there twice, as two names are that differ only in their slashes.

    >>> index_unique([("a-b", 1), ("a-b", 2)], Path("m.h5"))
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: m.h5: has a-b twice, as 1 and as 2; keep one of them
    """
    found: dict[str, T] = {}
    for name, place in places:
        if name in found:
            both = f"as {shown(found[name])} and as {shown(place)}"
            raise FormatError(path, f"has {name.replace(TWO, ' to ')} twice, {both}; keep one of them")
        found[name] = place
    return found


def without_ending(name: str) -> str:
    """A name without the ending of an image file.

    >>> without_ending("scene/1.ppm"), without_ending("frame.12")
    ('scene/1', 'frame.12')
    """
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else name


def name_variants(name: str) -> Iterator[str]:
    """The names an image may go by, longest first.

    >>> list(name_variants("a/b.png"))
    ['a-b.png', 'a-b', 'b.png', 'b']
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    for start in range(len(parts)):
        whole = "/".join(parts[start:])
        yield flat_name(whole)
        if (bare := without_ending(whole)) != whole:
            yield flat_name(bare)


def find_pair(known: Mapping[str, T], wanted: PairQuery) -> tuple[T, bool] | None:
    """What is known for a pair, and whether that is the reversed pair; None where there is nothing.

    `known` has texts as `flat_name` and `pair_text` make them. The name of the pair is tried first, then those of
    its images.

    >>> find_pair({"b_a": 1}, PairQuery("x", ("s/a.png", "s/b.png"))), find_pair({"s-x": 2}, PairQuery("s/x-back"))
    ((1, True), (2, True))
    """
    for text in (flat_name(wanted.name), flat_name(wanted.name).replace("--", TWO)):
        if text in known:
            return known[text], False
    sides = [list(name_variants(name)) for name in wanted.images]
    if all(sides):
        for i, j in sorted(product(*(range(len(side)) for side in sides)), key=sum):
            for text, flipped in _joined(sides[0][i], sides[1][j]):
                if text in known:
                    return known[text], flipped
    forward = flat_name(wanted.name).removesuffix(BACK)
    if forward != flat_name(wanted.name) and forward in known:
        return known[forward], True
    turned = "--".join(reversed(flat_name(wanted.name).split("--")))
    return (known[turned], True) if "--" in wanted.name and turned in known else None


def _joined(a: str, b: str) -> Iterator[tuple[str, bool]]:
    for joint in JOINTS:
        yield f"{a}{joint}{b}", False
        yield f"{b}{joint}{a}", True


def find_image(known: Mapping[str, T], name: str) -> T | None:
    """What is known for an image by any of its names; `known` has flat names without endings of images.

    >>> find_image({"s-a": 1}, "/data/s/a.png")
    1
    """
    return next((known[form] for form in name_variants(name) if form in known), None)
