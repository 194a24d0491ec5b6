# SPDX-License-Identifier: BSD-3-Clause
"""The Middlebury ``.flo`` file: a float32 flow for every pixel."""

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
"""What both channels hold where the flow is not known."""

_HEADER = struct.Struct("<4sii")


def read_flo(path: str | Path, *, space: Workspace | None = None, name: str = "flow") -> NDArray[np.float32]:
    """The flow of a ``.flo`` file, float32 (height, width, 2), every bit as stored.

    Layout, little-endian: ``PIEH``, int32 width, int32 height (each 1..99999), then u, v of every pixel by
    rows. The file must have exactly that many bytes: truncated and overlong files are errors, and the sizes
    are held against the file before anything is allocated. With a `space` the flow is its array `name`.

    Raises:
        FormatError: for anything that is not such a file, a missing one included.

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
            raise FormatError(path, "changed while it was read")
    return flow.astype(np.float32, copy=False)


def _fill(f: FileIO, memory: memoryview) -> bool:
    """Read until the memory is full; False if the file ends first."""
    while len(memory):
        got = f.readinto(memory)
        if not got:
            return False
        memory = memory[got:]
    return True


def read_flo_size(path: str | Path) -> tuple[int, int]:
    """(height, width) of a ``.flo`` file from its header and length alone; errors as in `read_flo`."""
    with reading(path), open(path, "rb") as f:
        width, height = _sizes(path, f.read(_HEADER.size))
        _check_length(path, width, height, f.seek(0, 2))
    return height, width


def _check_length(path: str | Path, width: int, height: int, found: int) -> None:
    expected = _HEADER.size + 8 * width * height
    if found != expected:
        what = "truncated" if found < expected else "too long"
        raise FormatError(
            path, f"{what}: {width} x {height} pixels need {expected} bytes, the file has {found}"
        )


def _sizes(path: str | Path, head: bytes) -> tuple[int, int]:
    if len(head) < _HEADER.size:
        raise FormatError(path, f"truncated: a .flo header has {_HEADER.size} bytes, found {len(head)}")
    magic, width, height = _HEADER.unpack(head)
    if magic != MAGIC:
        found = f"not a .flo file: it starts with {magic!r}, expected {MAGIC!r}"
        raise FormatError(path, explain_wrong_type(path, found))
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise FormatError(path, f"absurd size {width} x {height}; each side must be 1 to {MAX_SIDE}")
    return width, height


def write_flo(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow (height, width, 2) as ``.flo``; float64 is rounded to float32, nothing else changes.

    >>> write_flo("x.flo", np.zeros((2, 2)))
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: a flow must have shape (height, width, 2), found (2, 2)
    """
    values = np.asarray(flow)
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    if max(values.shape) > MAX_SIDE:
        raise InputError(f"a .flo side can be {MAX_SIDE} at most, found {values.shape}")
    data = np.ascontiguousarray(values, dtype="<f4")
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        f.write(_HEADER.pack(MAGIC, data.shape[1], data.shape[0]))
        f.write(data.data)
