# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of any layout written as our own JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.file_io import write_bytes
from ...geometry.two_view.scaling import turned_pose
from .builder import rotated_camera
from .native_json import TRUTH
from .pair import ImagePair, Matrix, Size


def write_pairs(path: str | Path, pairs: Sequence[ImagePair]) -> None:
    """Write pairs as a JSON list, one line each; `read_pairs` gives them back, all digits included.

    Images are named relative to the folder of the file where they are below it, else by their whole path. K,
    T and sizes of turned pairs are written as they were before the turns, beside the turns.
    """
    folder = Path(path).absolute().parent
    lines = ",\n".join(json.dumps(_entry(pair, folder)) for pair in pairs)
    write_bytes(path, [f"[\n{lines}\n]\n".encode()])


def _entry(pair: ImagePair, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": pair.name, "scene": pair.scene}
    if pair.dataset:
        entry["dataset"] = pair.dataset
    sides = ((pair.image0, pair.size0, pair.K0), (pair.image1, pair.size1, pair.K1))
    for side, (image, size, K) in enumerate(sides):
        back = -pair.turns[side] % 4
        entry[f"image{side}"] = None if image is None else _name(image, folder)
        if size is not None:
            if K is not None:
                entry[f"K{side}"] = _upright(K, size, back, pair.centre)
            entry[f"size{side}"] = list(size if back % 2 == 0 else size[::-1])
    if pair.T_0to1 is not None:
        before = turned_pose(pair.T_0to1, -pair.turns[0] % 4, -pair.turns[1] % 4)
        entry["T_0to1"] = np.asarray(before if any(pair.turns) else pair.T_0to1).tolist()
    if pair.K0 is not None:
        entry["centre"] = pair.centre
    if any(pair.turns):
        entry["turns"] = list(pair.turns)
    entry |= {key: pair.truth[key].tolist() for key in TRUTH if key in pair.truth}
    return entry | {key: value for key, value in pair.facts.items() if key not in entry}


def _upright(K: Matrix, size: Size, back: int, centre: float) -> Any:
    return (rotated_camera(K, size, back, centre) if back else K).tolist()


def _name(image: Path, folder: Path) -> str:
    path = image.absolute()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
