# SPDX-License-Identifier: BSD-3-Clause
"""Features and matches of hloc: two HDF5 files, integer pixel centres, original pixels.

Features: one group per image name (slashes become nested groups) with `keypoints` (n, 2), float16 by
default, `descriptors` (d, n), `scores` (n,), `image_size` (w, h). Matches: one group ``name0/name1``, slashes
in names replaced by ``-`` (older files join the names by ``_``), with `matches0` (n0,), -1 for none, and
`matching_scores0`.
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
    IndexedSource,
    find_image,
    flat_name,
    float16_remarks,
    index_unique,
    pair_text,
    without_ending,
)


class MatchedGroup(NamedTuple):
    """Group of the matches of a pair, and the groups of its images in the features file."""

    group: str
    images: tuple[str, str]

    def __str__(self) -> str:
        return self.group


class HlocFiles:
    """Pairs of a matches file whose images are in a features file."""

    what = "hloc HDF5 features and matches"
    resized = False

    def __init__(self, features: Path, matches: Path) -> None:
        self.features, self.matches = features, matches

    @cached_property
    def images(self) -> dict[str, str]:
        """Groups of images by flat name, with and without the suffix."""
        return feature_groups(self.features)

    @cached_property
    def pairs(self) -> dict[str, MatchedGroup]:
        """Groups of pairs by name."""
        with hdf5.open_hdf5(self.matches) as file:
            groups = hdf5.groups_with(file, ("matches0",))
        places = [MatchedGroup(g, images) for g in groups if (images := self._split(g)) is not None]
        return index_unique(((pair_text(*place.images), place) for place in places), self.matches)

    def _split(self, group: str) -> tuple[str, str] | None:
        """Return the images of a pair: the first split of its name into two known images, else None."""
        for separator in ("/", "_"):
            parts = group.split(separator)
            for i in range(1, len(parts)):
                first, second = (find_image(self.images, separator.join(p)) for p in (parts[:i], parts[i:]))
                if first is not None and second is not None:
                    return first, second
        return None

    def files(self, place: MatchedGroup) -> Sequence[Path]:
        """Return both files."""
        return [self.features, self.matches]

    def read(self, place: MatchedGroup) -> Arrays:
        """Read the matched points of a pair."""
        keypoints = self._keypoints(place)
        with hdf5.open_hdf5(self.matches) as file:
            group = file[place.group]
            partner = hdf5.read_numbers(group, "matches0", self.matches)
            scores = None
            if "matching_scores0" in group:
                scores = hdf5.read_numbers(group, "matching_scores0", self.matches)
        return IndexedSource(keypoints, partner, scores, place.group, self.matches).arrays()

    def _keypoints(self, place: MatchedGroup) -> tuple[Any, Any]:
        with hdf5.open_hdf5(self.features) as file:
            first, second = (hdf5.read_numbers(file[g], "keypoints", self.features) for g in place.images)
        return first, second

    def remarks(self, place: MatchedGroup) -> list[str]:
        """Return a remark if float16 is too coarse."""
        return float16_remarks(*self._keypoints(place))


def feature_groups(path: Path) -> dict[str, str]:
    """Return the groups of images in a features file, by flat name with and without the image suffix.

    A name without suffix that two images share (``1.jpg`` and ``1.png``) is skipped.
    """
    with hdf5.open_hdf5(path) as file:
        groups = hdf5.groups_with(file, ("keypoints",))
    if not groups:
        raise FormatError(path, "has no group with keypoints")
    known = index_unique(((flat_name(g), g) for g in groups), path)
    bare = [flat_name(without_ending(g)) for g in groups]
    counts = Counter(bare)
    return {name: g for name, g in zip(bare, groups, strict=True) if counts[name] == 1} | known
