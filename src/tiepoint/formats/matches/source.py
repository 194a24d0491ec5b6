# SPDX-License-Identifier: BSD-3-Clause
"""Interface of match sources, and search for image pairs by the names in their files."""

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
"""Coordinate above which float16 represents integer pixels only."""


class MatchSource(Protocol):
    """Interface of a match source: the match files of one layout in a folder.

    `what` names the layout and is part of the cache key. `resized` is True if points are in pixels of resized
    images and the files do not state their size.
    """

    what: str
    resized: bool

    @property
    def pairs(self) -> Mapping[str, Any]:
        """Locations of all image pairs, by keys from `flat_name` or `pair_text`."""

    def files(self, place: Any) -> Sequence[Path]:
        """Return the files that contain the matches at a location."""

    def read(self, place: Any) -> Arrays:
        """Read the matches of an image pair, or its flow.

        Matches are `points0`, `points1` and optionally `confidence`, `keypoints0` and `keypoints1`.
        """

    def remarks(self, place: Any) -> list[str]:
        """Return remarks for the user, with the same text for all pairs of a source."""


EXPORTED = ("tiepoint_order", "tiepoint_facts")
"""Datasets that `tiepoint export` adds to matches, to restore what other layouts cannot store.

The first has the keypoint numbers of image 0 in the order of the matches. The second has the numbers of
keypoints of both images (-1 if unknown), and whether the matches have confidences.
"""


@dataclass(frozen=True)
class IndexedSource:
    """Matches as keypoint indices: for each keypoint of image 0, its match in image 1 or -1.

    `exported` has the datasets that `tiepoint export` adds (see `EXPORTED`).
    """

    keypoints: tuple[NDArray[Any], NDArray[Any]]
    partner: NDArray[Any]
    scores: NDArray[Any] | None = None
    where: str = ""
    path: Path = field(default_factory=Path)
    exported: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the matched points, in the order of the keypoints of image 0, or as exported.

        Raises:
            FormatError: Shapes do not fit, an index is out of range, or the index type is too small.
        """
        first, second = self.keypoints
        dtype = self.partner.dtype
        for array in (first, second, *([] if self.scores is None else [self.scores])):
            if array.dtype.kind not in "biuf":
                raise self._error(f"an array has type {array.dtype}, expected numbers")
        for side, points in enumerate(self.keypoints):
            if points.ndim != 2 or points.shape[1] < 2:
                raise self._error(f"keypoints{side} has shape {points.shape}, expected (n, 2)")
        if self.partner.shape != (len(first),):
            raise self._error(
                f"matches have shape {self.partner.shape}, expected one for each of {len(first)} keypoints"
            )
        if dtype.kind not in "iu":
            raise self._error(f"matches are {dtype}, expected integers")
        if len(second) - 1 > (largest := np.iinfo(dtype).max):
            problem = f"{dtype} cannot index {len(second)} keypoints; indices above {largest} overflowed"
            raise self._error(f"{problem}; write matches as int32")
        partner = self.partner.astype(np.int64)
        outside = (partner >= len(second)) | (partner < -1)
        if outside.any():
            i = int(np.argmax(outside))
            raise self._error(
                f"match {i} refers to keypoint {partner[i]}, but there are {len(second)}; write the "
                "matches again"
            )
        rows = np.flatnonzero(partner >= 0)
        out: dict[str, NDArray[Any]] = {
            "points0": first[rows, :2].astype(np.float64),
            "points1": second[partner[rows], :2].astype(np.float64),
        }
        if self.scores is not None:
            if self.scores.shape != self.partner.shape:
                raise self._error(
                    f"scores have shape {self.scores.shape} for matches of shape {self.partner.shape}; "
                    "expected equal shapes"
                )
            out["confidence"] = self.scores[rows].astype(np.float64)
        out["keypoints0"], out["keypoints1"] = (np.array([len(k)], np.int64) for k in self.keypoints)
        return self._as_exported(out, rows) if self.exported else out

    def _as_exported(self, out: dict[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Restore what the layout of another tool cannot store: order, keypoint counts, absent confidence."""
        missing = [name for name in EXPORTED if name not in self.exported]
        if missing:
            raise self._error(f"has no dataset {', '.join(missing)}; export the run again")
        order, facts = (self.exported[name] for name in EXPORTED)
        if order.dtype.kind != "i" or not np.array_equal(np.sort(order), rows):
            raise self._error(f"{EXPORTED[0]} is not a permutation of the matches; export the run again")
        if facts.dtype.kind != "i" or facts.shape != (3,):
            raise self._error(f"{EXPORTED[1]} does not have three integers; export the run again")
        place = np.searchsorted(rows, order)
        made = {name: out[name][place] for name in ("points0", "points1", "confidence") if name in out}
        counts = {f"keypoints{side}": facts[side : side + 1] for side in (0, 1) if facts[side] >= 0}
        if not facts[2]:
            made.pop("confidence", None)
        return made | {name: np.asarray(count, np.int64) for name, count in counts.items()}

    def _error(self, problem: str) -> FormatError:
        return FormatError(self.path, f"{self.where}: {problem}")


def float16_remarks(*points: Any) -> list[str]:
    """Return a remark if coordinates above 1024 px are stored as float16.

    The resolution of float16 is 1 px above 1024 and 0.5 px above 512.

    >>> float16_remarks(np.array([[1500.0, 3.0]], np.float16))
    ['keypoints are float16, which beyond 1024 px represents whole pixels only; write float32']
    """
    if any(a.dtype == np.float16 and bool((np.abs(a) > FLOAT16_EXACT_PX).any()) for a in points):
        reason = f"which beyond {FLOAT16_EXACT_PX} px represents whole pixels only"
        return [f"keypoints are float16, {reason}; write float32"]
    return []


T = TypeVar("T")
TWO = "|"
"""Separator between two image names in a key of `pair_text`."""
JOINTS = ("--", "_", "-", TWO)
BACK = "-back"
"""Suffix of the pair name for the direction from image 1 to image 0."""


class PairQuery(NamedTuple):
    """Image pair to find: the name of the pair and the names of its images, empty if unknown."""

    name: str
    images: tuple[str, str] = ("", "")


def flat_name(name: str) -> str:
    r"""Convert a name for use in a file name: forward and backward slashes become ``-``.

    >>> flat_name("WGABS/kremlin"), flat_name("a\\b")
    ('WGABS-kremlin', 'a-b')
    """
    return name.replace("\\", "/").strip("/").replace("/", "-")


def pair_text(name0: str, name1: str) -> str:
    """Return a key for two image names that a file stores separately."""
    return f"{flat_name(name0)}{TWO}{flat_name(name1)}"


def index_unique(
    places: Iterable[tuple[str, T]], path: Path, display: Callable[[T], str] = str
) -> dict[str, T]:
    """Return a dictionary of locations by name. `display` formats a location for errors.

    Raises:
        FormatError: A name is duplicate. Names that differ only in their slashes count as equal.

    >>> index_unique([("a-b", 1), ("a-b", 2)], Path("m.h5"))
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: m.h5: a-b is stored twice, as 1 and 2; remove one
    """
    index: dict[str, T] = {}
    for name, place in places:
        if name in index:
            both = f"{display(index[name])} and {display(place)}"
            raise FormatError(path, f"{name.replace(TWO, ' to ')} is stored twice, as {both}; remove one")
        index[name] = place
    return index


def without_ending(name: str) -> str:
    """Remove the image suffix from a name.

    >>> without_ending("scene/1.ppm"), without_ending("frame.12")
    ('scene/1', 'frame.12')
    """
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else name


def name_variants(name: str) -> Iterator[str]:
    """Yield the possible names of an image in a match file, longest first.

    >>> list(name_variants("a/b.png"))
    ['a-b.png', 'a-b', 'b.png', 'b']
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    for start in range(len(parts)):
        full = "/".join(parts[start:])
        yield flat_name(full)
        if (bare := without_ending(full)) != full:
            yield flat_name(bare)


def find_pair(known: Mapping[str, T], query: PairQuery) -> tuple[T, bool] | None:
    """Return the location of an image pair, and whether it is stored in reverse order. None if unknown.

    `known` has keys from `flat_name` and `pair_text`. The name of the pair is tried first, then the names of
    its images.

    >>> find_pair({"b_a": 1}, PairQuery("x", ("s/a.png", "s/b.png")))
    (1, True)
    >>> find_pair({"s-x": 2}, PairQuery("s/x-back"))
    (2, True)
    """
    name = flat_name(query.name)
    for text in (name, name.replace("--", TWO)):
        if text in known:
            return known[text], False
    sides = [list(name_variants(image)) for image in query.images]
    if all(sides):
        for i, j in sorted(product(*(range(len(side)) for side in sides)), key=sum):
            a, b = sides[0][i], sides[1][j]
            for joint in JOINTS:
                for text, flipped in ((f"{a}{joint}{b}", False), (f"{b}{joint}{a}", True)):
                    if text in known:
                        return known[text], flipped
    forward = name.removesuffix(BACK)
    if forward != name and forward in known:
        return known[forward], True
    reverse = "--".join(reversed(name.split("--")))
    return (known[reverse], True) if "--" in query.name and reverse in known else None


def find_image(known: Mapping[str, T], name: str) -> T | None:
    """Return the location of an image by any of its possible names. None if unknown.

    >>> find_image({"s-a": 1}, "/data/s/a.png")
    1
    """
    return next((known[form] for form in name_variants(name) if form in known), None)
