# SPDX-License-Identifier: BSD-3-Clause
"""Features and matches as hloc writes them: two HDF5 files, integer pixel centres, original pixels.

Features: one group an image name (slashes make nested groups) with `keypoints` (n, 2), float16 unless told
otherwise, `descriptors` (d, n), `scores` (n,), `image_size` (w, h). Matches: one group ``name0/name1``,
slashes inside names replaced by ``-`` (older files join them by ``_``), with `matches0` (n0,), -1 for none,
and `matching_scores0`.
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
    """Group of the matches, and the images' groups of the features."""

    group: str
    images: tuple[str, str]

    def __str__(self) -> str:
        return self.group


class HlocFiles:
    """The pairs of a file of matches whose images are in a file of features."""

    what = "hloc HDF5 features and matches"
    resized = False

    def __init__(self, features: Path, matches: Path) -> None:
        self.features, self.matches = features, matches

    @cached_property
    def images(self) -> dict[str, str]:
        """Groups of images by flat name, with and without the ending."""
        return feature_groups(self.features)

    @cached_property
    def pairs(self) -> dict[str, MatchedGroup]:
        """Groups of pairs by name."""
        with hdf5.open_hdf5(self.matches) as file:
            groups = hdf5.groups_with(file, ("matches0",))
        places = [(MatchedGroup(g, two), two) for g in groups if (two := self._two(g)) is not None]
        return index_unique(((pair_text(*two), place) for place, two in places), self.matches)

    def _two(self, group: str) -> tuple[str, str] | None:
        """The images of a pair; where names are joined by ``_``, the parting of which both are known."""
        for joint in ("/", "_"):
            pieces = group.split(joint)
            for i in range(1, len(pieces)):
                first, second = (find_image(self.images, joint.join(p)) for p in (pieces[:i], pieces[i:]))
                if first is not None and second is not None:
                    return first, second
        return None

    def files(self, place: MatchedGroup) -> Sequence[Path]:
        """Both files."""
        return [self.features, self.matches]

    def read(self, place: MatchedGroup) -> Arrays:
        """Matched points of a pair."""
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
        """Whether float16 is too coarse."""
        return float16_remarks(*self._keypoints(place))


def feature_groups(path: Path) -> dict[str, str]:
    """Groups of images in a file of features, by flat name with and without the ending of an image.

    A name without ending that two images have (``1.jpg`` and ``1.png``) stands for neither.
    """
    with hdf5.open_hdf5(path) as file:
        groups = hdf5.groups_with(file, ("keypoints",))
    if not groups:
        raise FormatError(path, "has no group with keypoints")
    known = index_unique(((flat_name(g), g) for g in groups), path)
    bare = Counter(flat_name(without_ending(g)) for g in groups)
    return {
        flat_name(without_ending(g)): g for g in groups if bare[flat_name(without_ending(g))] == 1
    } | known
