# SPDX-License-Identifier: BSD-3-Clause
"""Dumps of LoFTR: ``LoFTR_pred_eval.npy``, a pickled list of dictionaries, read without running it.

Each has `mkpts0_f`, `mkpts1_f` (n, 2), `mconf` (n,) and `identifier` ``name0#name1``. Points are multiplied
back to original pixels where its dataset knows a scale (MegaDepth) and stay in 640 x 480 where it does not
(ScanNet), so the user must say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.units import Arrays
from ..pickled_arrays import read_npy_objects
from .naming import pair_text
from .source import float16_remarks

NAME = "LoFTR_pred_eval.npy"


class LoftrFiles:
    """The pairs of a dump."""

    what = f"a LoFTR dump ({NAME})"
    resized = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def pairs(self) -> dict[str, int]:
        """Entries of the dump by the names of both images; of equal ones the last, as LoFTR has it."""
        found = {}
        for i, entry in enumerate(self._entries):
            two = str(entry.get("identifier", "")).split("#") if isinstance(entry, dict) else []
            if len(two) != 2:
                raise FormatError(self.path, f"entry {i} has no identifier NAME0#NAME1")
            found[pair_text(*two)] = i
        return found

    @cached_property
    def _entries(self) -> list[Any]:
        entries = read_npy_objects(self.path)
        if not isinstance(entries, list):
            raise FormatError(self.path, "is not a list of dictionaries")
        return entries

    def files(self, place: int) -> Sequence[Path]:
        """The one file."""
        return [self.path]

    def _part(self, place: int, name: str) -> NDArray[Any] | None:
        part = self._entries[place].get(name)
        if part is not None and not isinstance(part, np.ndarray):
            raise FormatError(self.path, f"entry {place}: {name} is not an array")
        return part

    def read(self, place: int) -> Arrays:
        """Matched points of a pair."""
        found = {new: self._part(place, old) for new, old in zip(_NEW, _OLD, strict=True)}
        if found["points0"] is None or found["points1"] is None:
            raise FormatError(self.path, f"entry {place} has no mkpts0_f and mkpts1_f")
        return {k: v.astype(np.float64) for k, v in found.items() if v is not None}

    def remarks(self, place: int) -> list[str]:
        """Whether float16 is too coarse."""
        return float16_remarks(*(p for n in _OLD[:2] if (p := self._part(place, n)) is not None))


_NEW, _OLD = ("points0", "points1", "confidence"), ("mkpts0_f", "mkpts1_f", "mconf")
