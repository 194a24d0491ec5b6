# SPDX-License-Identifier: BSD-3-Clause
"""Dumps of SuperGlue: ``STEM0_STEM1_matches.npz``, in pixels of the resized images.

`keypoints0/1` (n, 2), `matches` (n0,), -1 for none, `match_confidence` (n0,). The files do not say how images
were resized, so the user must.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from ...core.errors import FormatError
from ...core.units import Arrays
from ..npz import read_npz
from .source import IndexedSource, float16_remarks

ENDING = "_matches.npz"


class SuperGlueFiles:
    """The dumps of a folder."""

    what = "SuperGlue dumps (STEM0_STEM1_matches.npz)"
    resized = True

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, Path]:
        """Dumps by both stems, joined by ``_``."""
        return {p.name.removesuffix(ENDING): p for p in sorted(self.root.glob(f"*{ENDING}"))}

    def files(self, place: Path) -> Sequence[Path]:
        """The dump of a pair."""
        return [place]

    def _indexed(self, place: Path) -> IndexedSource:
        arrays = read_npz(place)
        missing = [n for n in ("keypoints0", "keypoints1", "matches") if n not in arrays]
        if missing:
            raise FormatError(place, f"has no {' and no '.join(missing)}; it has {', '.join(arrays)}")
        keypoints = arrays["keypoints0"], arrays["keypoints1"]
        return IndexedSource(keypoints, arrays["matches"], arrays.get("match_confidence"), "matches", place)

    def read(self, place: Path) -> Arrays:
        """Matched points of a pair."""
        return self._indexed(place).arrays()

    def remarks(self, place: Path) -> list[str]:
        """Whether float16 is too coarse."""
        return float16_remarks(*self._indexed(place).keypoints)
