# SPDX-License-Identifier: BSD-3-Clause
"""Read and write Middlebury ``.flo`` files: one float32 flow vector per pixel."""

from __future__ import annotations

import os
import struct
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import Workspace, aligned_empty
from ...core.errors import FormatError, InputError
from ..file_io import atomic_path, reading
from ..sniff import explain_wrong_type

MAGIC = b"PIEH"
MAX_SIDE = 99_999
UNKNOWN = np.float32(1e10)
"""Value of both flow components at pixels with unknown flow."""

_HEADER = struct.Struct("<4sii")


def read_flo(path: str | Path, *, space: Workspace | None = None, name: str = "flow") -> NDArray[np.float32]:
    """Read the flow of a ``.flo`` file, float32 (height, width, 2). The values are bit-identical to the file.

    Layout, little-endian: ``PIEH``, int32 width, int32 height (each 1..99999), then u, v of every pixel in
    row-major order. The header is checked against the file size before memory is allocated. If a workspace
    `space` is given, the flow is read into its array `name` instead of new memory.

    Raises:
        FormatError: The file is missing, truncated, too long or not a ``.flo`` file.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.flo"
    >>> write_flo(name, np.array([[[1.5, -2.0]]]))
    >>> read_flo(name).tolist()
    [[[1.5, -2.0]]]
    """
    with reading(path), open(path, "rb", buffering=0) as f:
        width, height = _sizes(path, f.read(_HEADER.size))
        _check_length(path, width, height, os.fstat(f.fileno()).st_size)
        shape = (height, width, 2)
        flow = aligned_empty(shape, "<f4") if space is None else space.take(name, shape, "<f4")
        if not _fill(f, flow.data.cast("B")):
            raise FormatError(path, "the file changed while it was read; run the command again")
    return flow.astype(np.float32, copy=False)


def _fill(f: FileIO, memory: memoryview) -> bool:
    """Read a file into a buffer. Return False if the file ends before the buffer is full."""
    while len(memory):
        count = f.readinto(memory)
        if not count:
            return False
        memory = memory[count:]
    return True


def read_flo_size(path: str | Path) -> tuple[int, int]:
    """Return (height, width) of a ``.flo`` file without reading the flow. Errors are those of `read_flo`."""
    with reading(path), open(path, "rb") as f:
        width, height = _sizes(path, f.read(_HEADER.size))
        _check_length(path, width, height, f.seek(0, 2))
    return height, width


def _check_length(path: str | Path, width: int, height: int, found: int) -> None:
    expected = _HEADER.size + 8 * width * height
    if found != expected:
        problem = "truncated" if found < expected else "too long"
        raise FormatError(
            path, f"{problem}: {width} x {height} pixels need {expected} bytes, but the file has {found}"
        )


def _sizes(path: str | Path, head: bytes) -> tuple[int, int]:
    if len(head) < _HEADER.size:
        raise FormatError(
            path, f"truncated: a .flo header has {_HEADER.size} bytes, found {len(head)}; copy the file again"
        )
    magic, width, height = _HEADER.unpack(head)
    if magic != MAGIC:
        reason = f"is not a .flo file: it starts with {magic!r}, expected {MAGIC!r}"
        raise FormatError(path, explain_wrong_type(path, reason))
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise FormatError(path, f"invalid size {width} x {height}; each side must be 1 to {MAX_SIDE}")
    return width, height


def check_flow_shape(flow: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the flow as an array. Raise an `InputError` if it is empty or not of shape (h, w, 2)."""
    values = np.asarray(flow)
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    return values


def write_flo(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow (height, width, 2) as a ``.flo`` file. float64 values are rounded to float32.

    >>> write_flo("x.flo", np.zeros((2, 2)))
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: a flow must have shape (height, width, 2), found (2, 2)
    """
    values = check_flow_shape(flow)
    if max(values.shape) > MAX_SIDE:
        raise InputError(f"a .flo file has at most {MAX_SIDE} rows and columns, found shape {values.shape}")
    data = np.ascontiguousarray(values, dtype="<f4")
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        f.write(_HEADER.pack(MAGIC, data.shape[1], data.shape[0]))
        f.write(data.data)
