# SPDX-License-Identifier: BSD-3-Clause
"""Read the matches that LoFTR, glue-factory and SuperGlue write in their benchmarks.

LoFTR's ``LoFTR_pred_eval.npy`` is a pickled list of dictionaries, which is read without running code. Each
dictionary has `mkpts0_f`, `mkpts1_f` (n, 2), `mconf` (n,) and `identifier` ``name0#name1``. Points are in
pixels of the original images for MegaDepth, and of images resized to 640 x 480 for ScanNet. The file does not
state which, so the user must.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.records import Arrays
from .. import hdf5
from ..npy import read_npz
from ..pickled_arrays import read_npy_objects
from .source import EXPORTED, IndexedSource, flat_name, float16_remarks, index_unique, pair_text

NAME = "LoFTR_pred_eval.npy"


class LoftrFiles:
    """Match source: the image pairs in LoFTR's result file."""

    what = f"a LoFTR dump ({NAME})"
    resized = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def pairs(self) -> dict[str, int]:
        """Entries of the file by the names of both images. If a pair occurs twice, the last entry is used."""
        pairs = {}
        for i, entry in enumerate(self._entries):
            names = str(entry.get("identifier", "")).split("#") if isinstance(entry, dict) else []
            if len(names) != 2:
                raise FormatError(self.path, f"entry {i} has no identifier of the form NAME0#NAME1; add one")
            pairs[pair_text(*names)] = i
        return pairs

    @cached_property
    def _entries(self) -> list[Any]:
        entries = read_npy_objects(self.path)
        if not isinstance(entries, list):
            raise FormatError(self.path, "expected a list of dictionaries, one per image pair")
        return entries

    def files(self, place: int) -> Sequence[Path]:
        """Return the path of the result file."""
        return [self.path]

    def _part(self, place: int, name: str) -> NDArray[Any] | None:
        part = self._entries[place].get(name)
        if part is not None and not isinstance(part, np.ndarray):
            raise FormatError(self.path, f"entry {place}: {name} is not an array; write an array")
        return part

    def read(self, place: int) -> Arrays:
        """Read the matched points of an image pair."""
        found = {new: self._part(place, old) for new, old in zip(_NEW, _OLD, strict=True)}
        if found["points0"] is None or found["points1"] is None:
            raise FormatError(self.path, f"entry {place} lacks mkpts0_f or mkpts1_f; add both")
        return {k: v.astype(np.float64) for k, v in found.items() if v is not None}

    def remarks(self, place: int) -> list[str]:
        """Return a remark if coordinates above 1024 px are stored as float16."""
        return float16_remarks(*(p for n in _OLD[:2] if (p := self._part(place, n)) is not None))


_NEW, _OLD = ("points0", "points1", "confidence"), ("mkpts0_f", "mkpts1_f", "mconf")


_ROW = re.compile(r"(?P<sequence>[iv]_\w+)/(?P<row>\d+)\.ppm")


class _IndexedFiles(ABC):
    """Base of match sources whose files store matches as keypoint indices."""

    @abstractmethod
    def _indexed(self, place: Any) -> IndexedSource:
        """Read the keypoints and match indices of an image pair."""

    def read(self, place: Any) -> Arrays:
        """Read the matched points of an image pair."""
        return self._indexed(place).arrays()

    def remarks(self, place: Any) -> list[str]:
        """Return a remark if coordinates above 1024 px are stored as float16."""
        return float16_remarks(*self._indexed(place).keypoints)


class GlueFactoryFiles(_IndexedFiles):
    """Match source: the image pairs in a predictions file of glue-factory."""

    what = "glue-factory predictions (HDF5)"
    resized = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def pairs(self) -> dict[str, str]:
        """HDF5 groups of the image pairs, by pair name."""
        with hdf5.open_hdf5(self.path) as file:
            groups = hdf5.groups_with(file, ("keypoints0", "keypoints1", "matches0"))
        rows = _hpatches(groups)
        if len(rows) == len(groups):
            return rows
        places = ((pair_text(*_halves(g)) if "/" in g else flat_name(g), g) for g in groups)
        return index_unique(places, self.path)

    def files(self, place: str) -> Sequence[Path]:
        """Return the path of the predictions file."""
        return [self.path]

    def _indexed(self, place: str) -> IndexedSource:
        with hdf5.open_hdf5(self.path) as file:
            group = file[place]
            names = ("keypoints0", "keypoints1", "matches0", "matching_scores0", *EXPORTED)
            found: dict[str, Any] = {n: hdf5.read_numbers(group, n, self.path) for n in names if n in group}
        keypoints = found["keypoints0"], found["keypoints1"]
        more = {name: found[name] for name in EXPORTED if name in found}
        scores = found.get("matching_scores0")
        return IndexedSource(keypoints, found["matches0"], scores, place, self.path, more)


def _halves(group: str) -> tuple[str, str]:
    """Split a group name into the names of two images, each with half of its slashes."""
    parts = group.split("/")
    middle = len(parts) // 2
    return "/".join(parts[:middle]), "/".join(parts[middle:])


def _hpatches(groups: Sequence[str]) -> dict[str, str]:
    """Return the groups of HPatches pairs, by the names of their images.

    The files do not name the images; their numbers follow from the order of the groups of a sequence.
    """
    rows: dict[str, list[tuple[int, str]]] = {}
    for group in groups:
        if match := _ROW.fullmatch(group):
            rows.setdefault(match["sequence"], []).append((int(match["row"]), group))
    return {
        pair_text(f"{sequence}/1", f"{sequence}/{i}"): group
        for sequence, own in rows.items()
        if len(own) == 5
        for i, (_, group) in enumerate(sorted(own), start=2)
    }


ENDING = "_matches.npz"


class SuperGlueFiles(_IndexedFiles):
    """Match source: the SuperGlue result files in a folder."""

    what = "SuperGlue dumps (STEM0_STEM1_matches.npz)"
    resized = True

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, Path]:
        """Result files by the stems of both image names, joined by ``_``."""
        return {p.name.removesuffix(ENDING): p for p in sorted(self.root.glob(f"*{ENDING}"))}

    def files(self, place: Path) -> Sequence[Path]:
        """Return the result file of an image pair."""
        return [place]

    def _indexed(self, place: Path) -> IndexedSource:
        arrays = read_npz(place)
        missing = [n for n in ("keypoints0", "keypoints1", "matches") if n not in arrays]
        if missing:
            raise FormatError(
                place, f"has no {' and no '.join(missing)}, only {', '.join(arrays)}; write them"
            )
        keypoints = arrays["keypoints0"], arrays["keypoints1"]
        return IndexedSource(keypoints, arrays["matches"], arrays.get("match_confidence"), "matches", place)
