# SPDX-License-Identifier: BSD-3-Clause
"""Input batches and output checks of patch networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.regular_files import exists, is_file, regular_file_size
from ...formats.sniff import explain_wrong_type
from ..patches.builtin import resize_patches, z_score

Array = NDArray[Any]
INTENSITIES: dict[str, Callable[[Array], Array]] = {
    "unit": lambda x: x / np.float32(255),
    "raw": lambda x: x,
    "zscore": lambda x: z_score(x),
}
"""Input scaling: 0 to 1, 0 to 255, or each patch with mean 0 and standard deviation 1."""
BATCH = 256


def checked_file(path: str, what: str) -> Path:
    """Return the path of a local file, or raise an error if it is missing. Nothing is downloaded."""
    file = Path(path).expanduser()
    if not is_file(file):
        if exists(file):
            regular_file_size(file)  # raises an error that names the type
        raise InputError(f"{path}: {what} not found; pass a local file, because nothing is downloaded")
    other = explain_wrong_type(file, "")
    if other:
        raise InputError(f"{path} {other}")
    return file


def checked_intensity(name: str, where: str) -> str:
    """Return the name of an input scaling, or raise an error if it is unknown."""
    if name not in INTENSITIES:
        raise InputError(f"{where}: unknown input {name!r}; choose one of {', '.join(INTENSITIES)}")
    return name


def batches(patches: Array, size: int, intensity: str, batch: int = BATCH) -> Iterator[NDArray[np.float32]]:
    """Yield batches of patches as float32 (b, size, size), resized by area, with scaled intensities."""
    for i in range(0, len(patches), batch):
        block = INTENSITIES[intensity](resize_patches(patches[i : i + batch], size))
        yield np.ascontiguousarray(block, np.float32)


def flatten_output(output: Array, rows: int, where: str) -> Array:
    """Check that a network returned one row per patch. Return its output as (rows, d).

    A shape (rows, d, 1, 1) is flattened.
    """
    values = np.asarray(output)
    if values.ndim < 1 or len(values) != rows:
        raise InputError(
            f"{where}: the network returned shape {values.shape}; expected {rows} rows, one per patch"
        )
    return values.reshape(rows, -1)
