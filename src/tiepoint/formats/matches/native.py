# SPDX-License-Identifier: BSD-3-Clause
"""Our own file of the matches of one pair: ``NAME.npz`` of plain arrays, slashes in it replaced by ``-``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...core.units import Arrays
from ..npz import read_npz
from ..whole_file import atomic_path
from .naming import flat_name
from .source import float16_remarks

NAMES = (
    "points0", "points1", "confidence", "keypoints0", "keypoints1", "flow", "flow_confidence",
    "answers", "F", "H",
)  # fmt: skip
"""Arrays that are read, as features of a pair have them."""
ALONE = frozenset({"flow", "answers", "F", "H"})
"""Each of them says enough about a pair."""


def read_matches(path: str | Path) -> Arrays:
    """Features of a pair from our ``.npz``: `points0` and `points1` (n, 2), `flow`, `answers`, `F` or `H`."""
    arrays = read_npz(path, NAMES)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise FormatError(path, f"{name} is {array.dtype}, expected numbers")
    if not ({"points0", "points1"} <= set(arrays) or ALONE & set(arrays)):
        raise FormatError(
            path,
            "has no points0 and points1 (n, 2), no flow (h, w, 2), no answers (q, 2) and no F or H (3, 3)",
        )
    return arrays


def write_matches(folder: str | Path, pair: str, **arrays: Any) -> Path:
    """Write the features of a pair, so that `read_matches` gives them back bit for bit; returns the file.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_matches(folder, "WGABS/kremlin", points0=[[1.5, 2]], points1=[[3, 4]]).name
    'WGABS-kremlin.npz'
    """
    path = Path(folder) / f"{flat_name(pair)}.npz"
    kept: dict[str, Any] = {name: np.asarray(arrays[name]) for name in NAMES if name in arrays}
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        np.savez(f, **kept)
    return path


class OwnFiles:
    """The ``.npz`` of a folder, one a pair."""

    what = "our own matches (PAIR.npz)"
    resized = False

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def pairs(self) -> dict[str, Path]:
        """Files by name of the pair."""
        return {path.stem: path for path in sorted(self.root.glob("*.npz"))}

    def files(self, place: Path) -> Sequence[Path]:
        """The file of a pair."""
        return [place]

    def read(self, place: Path) -> Arrays:
        """Matches, a flow or answers of a pair."""
        return read_matches(place)

    def remarks(self, place: Path) -> list[str]:
        """Whether float16 is too coarse."""
        arrays = read_matches(place)
        return float16_remarks(*(arrays[n] for n in ("points0", "points1", "answers") if n in arrays))
