# SPDX-License-Identifier: BSD-3-Clause
"""Flows as NumPy files: ``.npy``, and ``.npz`` with one array or one called ``flow``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ..file_io import reading
from ..npy import map_npy
from ..npz import read_npz
from ..whole_file import atomic_path


def read_flow_array(path: str | Path) -> NDArray[np.float32]:
    """The flow in a NumPy file, float32 (height, width, 2).

    Accepts little-endian float16, float32, float64 of shape (height, width, 2) or (2, height, width).
    A ``.npz`` must hold one array, or one called ``flow``. Nothing is unpickled, and the announced shape is
    held against the bytes there are before anything is allocated.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(name, np.zeros((2, 3, 4)))
    >>> read_flow_array(name).shape
    (3, 4, 2)
    """
    p = Path(path)
    with reading(p):
        values = _in_archive(p) if p.suffix == ".npz" else map_npy(p)
        if values.dtype.str not in ("<f2", "<f4", "<f8") or values.ndim != 3:
            raise FormatError(p, "expected a float array of three dimensions, (height, width, 2)")
        if 2 not in (values.shape[2], values.shape[0]) or values.size == 0:
            raise FormatError(p, f"expected shape (height, width, 2), found {values.shape}")
        if values.shape[2] != 2:
            values = np.moveaxis(values, 0, 2)
        with np.errstate(over="ignore"):  # too large for float32 is unknown, as infinity is
            return np.array(values, np.float32, order="C")


def _in_archive(path: Path) -> NDArray[Any]:
    def chosen(names: list[str]) -> str:
        if len(names) != 1 and "flow" not in names:
            raise FormatError(path, f"expected one array or one called 'flow', found {sorted(names)[:9]}")
        return "flow" if "flow" in names else names[0]

    (flow,) = read_npz(path, chosen).values()
    return flow


def write_flow_array(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as float32 (height, width, 2) into ``.npy``, or as ``flow`` into a compressed ``.npz``."""
    values = np.ascontiguousarray(flow, dtype="<f4")
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        if Path(path).suffix == ".npz":
            np.savez_compressed(f, flow=values)
        else:
            np.save(f, values)
