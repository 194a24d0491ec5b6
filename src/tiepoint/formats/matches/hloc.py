# SPDX-License-Identifier: BSD-3-Clause
"""Read features and matches of hloc from two HDF5 files.

Coordinates are pixels of the original images; pixel centres are integers.

Features file: one group per image name, nested if the name has slashes. A group has `keypoints` (n, 2),
float16 by default, `descriptors` (d, n), `scores` (n,) and `image_size` (w, h).

Matches file: one group ``name0/name1`` per pair, with slashes in image names replaced by ``-``. Older files
join the names by ``_``. A group has `matches0` (n0,), -1 if unmatched, and `matching_scores0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...core.errors import FormatError
from ...core.records import Arrays
from .. import hdf5
from .source import (
    EXPORTED,
    IndexedSource,
    find_image,
    flat_name,
    float16_remarks,
    index_unique,
    pair_text,
    without_ending,
)


class MatchedGroup(NamedTuple):
    """HDF5 groups of an image pair: its matches, and the features of the two images."""

    group: str
    images: tuple[str, str]

    def __str__(self) -> str:
        return self.group


class HlocFiles:
    """Match source: the image pairs of an hloc matches file with its features file."""

    what = "hloc HDF5 features and matches"
    resized = False

    def __init__(self, features: Path, matches: Path) -> None:
        self.features, self.matches = features, matches

    @cached_property
    def images(self) -> dict[str, str]:
        """HDF5 groups of the images, by image name (`flat_name`) with and without suffix."""
        return feature_groups(self.features)

    @cached_property
    def pairs(self) -> dict[str, MatchedGroup]:
        """HDF5 groups of the image pairs, by pair name."""
        with hdf5.open_hdf5(self.matches) as file:
            groups = hdf5.groups_with(file, ("matches0",))
        places = [MatchedGroup(g, images) for g in groups if (images := self._split(g)) is not None]
        return index_unique(((pair_text(*place.images), place) for place in places), self.matches)

    def _split(self, group: str) -> tuple[str, str] | None:
        """Split a pair name into two known image names. None if no split gives known names."""
        for separator in ("/", "_"):
            parts = group.split(separator)
            for i in range(1, len(parts)):
                first, second = (find_image(self.images, separator.join(p)) for p in (parts[:i], parts[i:]))
                if first is not None and second is not None:
                    return first, second
        return None

    def files(self, place: MatchedGroup) -> Sequence[Path]:
        """Return the paths of the features file and the matches file."""
        return [self.features, self.matches]

    def read(self, place: MatchedGroup) -> Arrays:
        """Read the matched points of an image pair."""
        keypoints = self._keypoints(place)
        with hdf5.open_hdf5(self.matches) as file:
            group = file[place.group]
            partner = hdf5.read_numbers(group, "matches0", self.matches)
            scores = None
            if "matching_scores0" in group:
                scores = hdf5.read_numbers(group, "matching_scores0", self.matches)
            more = {n: hdf5.read_numbers(group, n, self.matches) for n in EXPORTED if n in group}
        return IndexedSource(keypoints, partner, scores, place.group, self.matches, more).arrays()

    def _keypoints(self, place: MatchedGroup) -> tuple[Any, Any]:
        with hdf5.open_hdf5(self.features) as file:
            first, second = (hdf5.read_numbers(file[g], "keypoints", self.features) for g in place.images)
        return first, second

    def remarks(self, place: MatchedGroup) -> list[str]:
        """Return a remark if coordinates above 1024 px are stored as float16."""
        return float16_remarks(*self._keypoints(place))


def feature_groups(path: Path) -> dict[str, str]:
    """Return the groups of a features file, by image name (`flat_name`) with and without suffix.

    A name without suffix is skipped if two images share it (``1.jpg`` and ``1.png``).
    """
    with hdf5.open_hdf5(path) as file:
        groups = hdf5.groups_with(file, ("keypoints",))
    if not groups:
        raise FormatError(path, "has no group with a dataset `keypoints`; expected hloc features")
    known = index_unique(((flat_name(g), g) for g in groups), path)
    bare = [flat_name(without_ending(g)) for g in groups]
    counts = Counter(bare)
    return {name: g for name, g in zip(bare, groups, strict=True) if counts[name] == 1} | known
