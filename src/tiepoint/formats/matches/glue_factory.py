# SPDX-License-Identifier: BSD-3-Clause
"""Predictions as glue-factory writes them: ``predictions.h5``, original pixels.

One group a pair with `keypoints0/1` (n, 2), `matches0` (n0,), -1 for none, and perhaps `matching_scores0`.
The group is called after both images, slashes in them replaced by ``-``: ``a.jpg/b.jpg``. For HPatches it is
``SEQUENCE/ROW.ppm``, ROW the number of the pair in the whole dataset and not that of an image: of a
sequence's five rows, the first is the pair of images 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core.units import Arrays
from .. import hdf5
from .naming import flat_name, index_unique, pair_text
from .source import IndexedSource, float16_remarks

_ROW = re.compile(r"(?P<sequence>[iv]_\w+)/(?P<row>\d+)\.ppm")


class GlueFactoryFiles:
    """The pairs of a file of predictions."""

    what = "glue-factory predictions (HDF5)"
    resized = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def pairs(self) -> dict[str, str]:
        """Groups of pairs by name."""
        with hdf5.open_hdf5(self.path) as file:
            groups = hdf5.groups_with(file, ("keypoints0", "keypoints1", "matches0"))
        rows = _hpatches(groups)
        if len(rows) == len(groups):
            return rows
        places = ((pair_text(*_halves(g)) if "/" in g else flat_name(g), g) for g in groups)
        return index_unique(places, self.path)

    def files(self, place: str) -> Sequence[Path]:
        """The one file."""
        return [self.path]

    def _indexed(self, place: str) -> IndexedSource:
        with hdf5.open_hdf5(self.path) as file:
            group = file[place]
            names = ("keypoints0", "keypoints1", "matches0", "matching_scores0")
            found: dict[str, Any] = {n: hdf5.read_numbers(group, n, self.path) for n in names if n in group}
        keypoints = found["keypoints0"], found["keypoints1"]
        return IndexedSource(keypoints, found["matches0"], found.get("matching_scores0"), place, self.path)

    def read(self, place: str) -> Arrays:
        """Matched points of a pair."""
        return self._indexed(place).arrays()

    def remarks(self, place: str) -> list[str]:
        """Whether float16 is too coarse."""
        return float16_remarks(*self._indexed(place).keypoints)


def _halves(group: str) -> tuple[str, str]:
    """The two names of a group; where names kept their slashes, they have equally many."""
    parts = group.split("/")
    middle = len(parts) // 2
    return "/".join(parts[:middle]), "/".join(parts[middle:])


def _hpatches(groups: Sequence[str]) -> dict[str, str]:
    """Rows of HPatches by the images they are of, which follow from their order in the sequence."""
    rows: dict[str, list[tuple[int, str]]] = {}
    for group in groups:
        if found := _ROW.fullmatch(group):
            rows.setdefault(found["sequence"], []).append((int(found["row"]), group))
    return {
        pair_text(f"{sequence}/1", f"{sequence}/{i}"): group
        for sequence, own in rows.items()
        if len(own) == 5
        for i, (_, group) in enumerate(sorted(own), start=2)
    }
