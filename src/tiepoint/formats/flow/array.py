# SPDX-License-Identifier: BSD-3-Clause
"""Flows as NumPy files: ``.npy``, and ``.npz`` with one array or one called ``flow``."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError
from ..image.png import MAX_DEFLATE_RATIO
from ..text_file import reading

_HEADER = re.compile(
    rb"\{'descr': '(<f2|<f4|<f8)', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,6}), (\d{1,6}), (\d{1,6})\), \}\s*"
)
_MAX_HEADER = 4096


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
        if p.suffix == ".npz":
            return _read_npz(p)
        with p.open("rb") as f:
            return _read_npy(p, f, p.stat().st_size)


def _read_npz(path: Path) -> NDArray[np.float32]:
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
            with z.open(info) as f:
                return _read_npy(path, f, info.file_size)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError) as e:
        # What zipfile raises for damaged archives, unknown compression, and encrypted entries.
        raise FormatError(path, f"not a readable .npz file: {e}") from e


def _read_npy(path: Path, f: IO[bytes], size: int) -> NDArray[np.float32]:
    head = f.read(8)
    if len(head) < 8 or head[:6] != b"\x93NUMPY" or head[6] not in (1, 2, 3):
        raise FormatError(path, "not a .npy file")
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(f.read(width), "little")
    if length > _MAX_HEADER:
        raise FormatError(path, f"the .npy header has {length} bytes; {_MAX_HEADER} at most")
    found = _HEADER.fullmatch(f.read(length))
    if not found:
        raise FormatError(path, "expected a float array of three dimensions, (height, width, 2)")
    dtype, shape = np.dtype(found[1].decode()), tuple(int(found[i]) for i in (3, 4, 5))
    expected = shape[0] * shape[1] * shape[2] * dtype.itemsize
    if 2 not in (shape[2], shape[0]) or expected == 0:
        raise FormatError(path, f"expected shape (height, width, 2), found {shape}")
    if 8 + width + length + expected != size:
        raise FormatError(
            path, f"shape {shape} needs {expected} bytes of data, the file has other {size} bytes"
        )
    data = f.read(expected)
    if len(data) != expected:
        raise FormatError(path, "truncated .npy data")
    values = np.frombuffer(data, dtype).reshape(shape, order="F" if found[2] == b"True" else "C")
    if shape[2] != 2:
        values = np.moveaxis(values, 0, 2)
    return np.ascontiguousarray(values, np.float32)


def write_flow_array(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as float32 (height, width, 2) into ``.npy``, or as ``flow`` into a compressed ``.npz``."""
    values = np.ascontiguousarray(flow, dtype="<f4")
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    if Path(path).suffix == ".npz":
        np.savez_compressed(path, flow=values)
    else:
        np.save(path, values)
