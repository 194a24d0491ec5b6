# SPDX-License-Identifier: BSD-3-Clause
"""Native formats of image pairs: ``NAME.npz`` with matches, and JSON with predicted points.

Slashes in NAME, the name of the pair, are replaced by ``-``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import FormatError
from ...core.records import Arrays
from ..file_io import atomic_path
from ..json_yaml import read_json
from ..npy import read_npz
from .source import flat_name, float16_remarks, index_unique

NAMES = (
    "points0", "points1", "confidence", "keypoints0", "keypoints1", "flow", "flow_confidence",
    "answers", "F", "H",
)  # fmt: skip
"""Names of the arrays that are read from a match file."""
ALONE = frozenset({"flow", "answers", "F", "H"})
"""Names of arrays that a match file may have in place of points."""


def read_matches(path: str | Path) -> Arrays:
    """Read the results of an image pair: `points0` and `points1` (n, 2), `flow`, `answers`, `F` or `H`."""
    arrays = read_npz(path, NAMES)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise FormatError(path, f"{name} has type {array.dtype}, expected numbers")
    if not ({"points0", "points1"} <= set(arrays) or ALONE & set(arrays)):
        raise FormatError(
            path,
            "found no known array; expected points0 and points1 (n, 2), flow (h, w, 2), answers (q, 2), "
            "F (3, 3) or H (3, 3)",
        )
    return arrays


def write_matches(folder: str | Path, pair: str, **arrays: Any) -> Path:
    """Write the results of an image pair. Return the path.

    `read_matches` restores the arrays bit-identically.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_matches(folder, "WGABS/kremlin", points0=[[1.5, 2]], points1=[[3, 4]]).name
    'WGABS-kremlin.npz'
    """
    path = Path(folder) / f"{flat_name(pair)}.npz"
    known: dict[str, Any] = {name: np.asarray(arrays[name]) for name in NAMES if name in arrays}
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        np.savez(f, **known)
    return path


class OwnFiles:
    """Match source: a folder of ``.npz`` files, one per image pair."""

    what = "our own matches (PAIR.npz)"
    resized = False

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, Path]:
        """Files by the name of the image pair."""
        return {path.stem: path for path in sorted(self.root.glob("*.npz"))}

    def files(self, place: Path) -> Sequence[Path]:
        """Return the file of an image pair."""
        return [place]

    def read(self, place: Path) -> Arrays:
        """Read the matches, flow or predicted points of an image pair."""
        return read_matches(place)

    def remarks(self, place: Path) -> list[str]:
        """Return a remark if coordinates above 1024 px are stored as float16."""
        arrays = read_matches(place)
        return float16_remarks(*(arrays[n] for n in ("points0", "points1", "answers") if n in arrays))


class AnswerEntry(NamedTuple):
    """Location of an image pair's predicted points: a JSON file, and the name of the pair in it."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}, {self.name}"


class AnswerFiles:
    """Match source: predicted points in the JSON files of a folder."""

    what = "predicted points (JSON)"
    resized = False

    def __init__(self, files: Sequence[Path]) -> None:
        self.all = list(files)

    @cached_property
    def _content(self) -> dict[Path, dict[str, Any]]:
        return {file: read_answers(file) for file in self.all}

    @cached_property
    def pairs(self) -> dict[str, AnswerEntry]:
        """Entries by the name of the image pair."""
        places = [
            (flat_name(name), AnswerEntry(f, name))
            for f, content in self._content.items()
            for name in content
        ]
        return index_unique(places, self.all[-1])

    def files(self, place: AnswerEntry) -> Sequence[Path]:
        """Return the file of an image pair."""
        return [place.file]

    def read(self, place: AnswerEntry) -> Arrays:
        """Read the predicted points (q, 2) of an image pair. Missing points are NaN."""
        rows = self._content[place.file][place.name]
        for i, row in enumerate(rows):
            if row is not None and not _is_point(row):
                found = f"{place.name}: answer {i} is {repr(row)[:60]}, expected [x, y] or null"
                raise FormatError(place.file, found)
        points = [(np.nan, np.nan) if row is None else row for row in rows]
        return {"answers": np.array(points, np.float64).reshape(-1, 2)}

    def remarks(self, place: AnswerEntry) -> list[str]:
        """Return no remarks, because JSON stores coordinates with full precision."""
        return []


def _is_point(row: Any) -> bool:
    """Return whether a JSON value is a list of two numbers or nulls."""
    if not isinstance(row, list) or len(row) != 2:
        return False
    return all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in row)


def read_answers(file: Path) -> dict[str, Any]:
    """Read a JSON file of predicted points by pair name."""
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
        raise FormatError(file, 'expected a JSON object {"PAIR": [[x, y], …]}')
    return content
