# SPDX-License-Identifier: BSD-3-Clause
"""Flows as NumPy files: ``.npy``, and ``.npz`` with one array or one called ``flow``."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError
from ..image.png_header import MAX_DEFLATE_RATIO
from ..npy_map import array_in, map_npy
from ..text_file import reading
from ..what_it_is import instead


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
        return np.array(values, np.float32, order="C")


def _in_archive(path: Path) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path) as z:
            entries = {i.filename.removesuffix(".npy"): i for i in z.infolist()}
            if len(entries) != 1 and "flow" not in entries:
                raise FormatError(
                    path, f"expected one array or one called 'flow', found {sorted(entries)[:9]}"
                )
            info = entries.get("flow") or next(iter(entries.values()))
            if info.file_size > MAX_DEFLATE_RATIO * path.stat().st_size:
                raise FormatError(path, f"the array cannot have {info.file_size} bytes")
            return array_in(path, z.read(info))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError) as e:
        # What zipfile raises for damaged archives, unknown compression, and encrypted entries.
        raise FormatError(path, instead(path, f"not a readable .npz file: {e}")) from e


def write_flow_array(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as float32 (height, width, 2) into ``.npy``, or as ``flow`` into a compressed ``.npz``."""
    values = np.ascontiguousarray(flow, dtype="<f4")
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    if Path(path).suffix == ".npz":
        np.savez_compressed(path, flow=values)
    else:
        np.save(path, values)
