# SPDX-License-Identifier: BSD-3-Clause
"""What every layout of match files offers: which pairs it has, and the matches of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.records import Arrays
from ..image.reader import SUFFIXES

FLOAT16_EXACT_PX = 1024
"""From here on a float16 holds whole pixels only."""


class MatchSource(Protocol):
    """Match files of one layout below a folder.

    `pairs` has the places of all pairs by names as `naming` makes them. `resized` says that points are in
    pixels of resized images, whose size the files do not tell.
    """

    what: str
    resized: bool

    @property
    def pairs(self) -> Mapping[str, Any]:
        """Places of all pairs by name; a place is a text, or has one."""

    def files(self, place: Any) -> Sequence[Path]:
        """Files that the matches of a place come from."""

    def read(self, place: Any) -> Arrays:
        """`points0`, `points1` and perhaps `confidence`, `keypoints0`, `keypoints1`; or `flow`, `answers`."""

    def remarks(self, place: Any) -> list[str]:
        """What the user should know about a place, in words that are the same for all places."""


@dataclass(frozen=True)
class IndexedSource:
    """Matches as indices: keypoints of both images, and for each of the first its partner or -1."""

    keypoints: tuple[NDArray[Any], NDArray[Any]]
    partner: NDArray[Any]
    scores: NDArray[Any] | None = None
    where: str = ""
    path: Path = field(default_factory=Path)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The matched points, in order of the first image.

        Raises:
            FormatError: if shapes differ, an index names no keypoint, or their type cannot name them all.
        """
        first, second = self.keypoints
        for array in (first, second, *([] if self.scores is None else [self.scores])):
            if array.dtype.kind not in "biuf":
                raise FormatError(self.path, f"{self.where}: {array.dtype} where numbers are expected")
        for side, points in enumerate(self.keypoints):
            if points.ndim != 2 or points.shape[1] < 2:
                raise FormatError(
                    self.path, f"{self.where}: keypoints{side} has shape {points.shape}, not (n, 2)"
                )
        if self.partner.shape != (len(first),):
            raise FormatError(
                self.path,
                f"{self.where}: matches have shape {self.partner.shape} for {len(first)} keypoints; "
                "expected one a keypoint",
            )
        if self.partner.dtype.kind not in "iu":
            raise FormatError(self.path, f"{self.where}: matches are {self.partner.dtype}, expected integers")
        if len(second) - 1 > (most := np.iinfo(self.partner.dtype).max):
            raise FormatError(
                self.path,
                f"{self.where}: {self.partner.dtype} matches cannot name {len(second)} keypoints, those "
                f"above {most} have wrapped around; write them as int32",
            )
        partner = self.partner.astype(np.int64)
        beyond = (partner >= len(second)) | (partner < -1)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise FormatError(
                self.path, f"{self.where}: match {i} names keypoint {partner[i]} of {len(second)}"
            )
        rows = np.flatnonzero(partner >= 0)
        out: dict[str, NDArray[Any]] = {
            "points0": first[rows, :2].astype(np.float64),
            "points1": second[partner[rows], :2].astype(np.float64),
        }
        if self.scores is not None:
            if self.scores.shape != self.partner.shape:
                raise FormatError(
                    self.path, f"{self.where}: {self.scores.shape} scores for {self.partner.shape} matches"
                )
            out["confidence"] = self.scores[rows].astype(np.float64)
        out["keypoints0"], out["keypoints1"] = (np.array([len(k)], np.int64) for k in self.keypoints)
        return out


def float16_remarks(*points: Any) -> list[str]:
    """A sentence where float16 coordinates are coarse: 1 px from 1024 on, 0.5 px from 512.

    >>> float16_remarks(np.array([[1500.0, 3.0]], np.float16))
    ['keypoints are float16 and lie beyond 1024 px, where it holds whole pixels only; write float32']
    """
    for array in points:
        if array.dtype == np.float16 and bool((np.abs(array) > FLOAT16_EXACT_PX).any()):
            return [
                f"keypoints are float16 and lie beyond {FLOAT16_EXACT_PX} px, where it holds whole pixels "
                "only; write float32"
            ]
    return []


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
