# SPDX-License-Identifier: BSD-3-Clause
"""Read keypoints of PF-WILLOW: one MATLAB 5 file per image with ``pts_coord`` (2, n).

SciPy's reader is not used, because corrupt files can crash the interpreter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ..file_io import reading
from ..sniff import sniff

MAX_BYTES = 1 << 20
_NAME = "pts_coord"
_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"
}  # fmt: skip
_DOUBLE_CLASS = 6
_COMPLEX = 0x0800


class _CorruptError(Exception):
    """Raised if a MATLAB file violates its format."""


def read_pf_keypoints(path: str | Path) -> NDArray[np.float64]:
    """Read the keypoints of one image, float64 (n, 2): x, y in pixels as stored.

    Keypoint i corresponds to keypoint i of every other image of the class. Padding (negative numbers in some
    distributions) becomes NaN and must be ignored.

    Raises:
        FormatError: The file is not a small MATLAB 5 file with a real matrix ``pts_coord`` of two rows.
    """
    values = read_mat5_matrix(path, _NAME)
    if values.shape[0] != 2:
        raise FormatError(path, f"{_NAME!r} must have shape (2, n), found {values.shape}")
    points = values.T.copy()
    with np.errstate(invalid="ignore"):
        points[(points < 0).any(axis=1) | ~np.isfinite(points).all(axis=1)] = np.nan
    return points


def read_mat5_matrix(path: str | Path, name: str) -> NDArray[np.float64]:
    """Read the real matrix `name` of a MATLAB 5 file as float64 (rows, columns).

    The file may be compressed. Its size is limited to 1 MB, compressed and uncompressed. Other variables are
    skipped.

    Raises:
        FormatError: The file is not a MATLAB 5 file with such a matrix.
    """
    p = Path(path)
    with reading(p), p.open("rb") as f:
        data = f.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES or len(data) < _HEADER:
        reason = f"expected a MATLAB 5 file of {_HEADER} to {MAX_BYTES} bytes, found {len(data)}"
        raise FormatError(p, sniff(data[:1024]) or reason)
    if data[126:128] != b"IM":
        raise FormatError(p, sniff(data[:1024]) or "is not a little-endian MATLAB 5 file")
    try:
        for kind, body in _elements(data[_HEADER:], padded=False):
            matrix = _matrix(_unpack(kind, body), name)
            if matrix is not None:
                return matrix
    except _CorruptError as e:
        raise FormatError(p, f"is not a readable MATLAB file: {e}") from e
    raise FormatError(p, f"has no matrix {name!r} of real numbers")


def _elements(data: bytes, *, padded: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yield (type, content) of each data element. Content of up to four bytes is stored in the tag."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:
            yield kind & 0xFFFF, data[at + 4 : at + 4 + min(kind >> 16, 4)]
            at += 8
            continue
        if at + 8 + size > len(data):
            raise _CorruptError("a data element extends beyond the end of the file")
        yield kind, data[at + 8 : at + 8 + size]
        at += 8 + (size + 7 & ~7 if padded else size)


def _unpack(kind: int, body: bytes) -> bytes:
    """Return the uncompressed content of a matrix element. Empty for elements of other types."""
    if kind == _COMPRESSED:
        try:
            content = zlib.decompressobj().decompress(body, MAX_BYTES)
        except zlib.error as e:
            raise _CorruptError(str(e)) from e
        if len(content) >= MAX_BYTES:
            raise _CorruptError(f"the content has more bytes than the limit of {MAX_BYTES}")
        kind, body = next(_elements(content), (0, b""))
    return body if kind == _MATRIX else b""


def _matrix(body: bytes, name: str) -> NDArray[np.float64] | None:
    parts = list(_elements(body))
    if len(parts) < 4 or parts[2][1] != name.encode():
        return None
    flags, sizes = parts[0][1], parts[1][1]
    if len(flags) != 8 or len(sizes) != 8:
        return None
    word = struct.unpack_from("<I", flags)[0]
    if word & 0xFF != _DOUBLE_CLASS or word & _COMPLEX:
        return None
    rows, columns = struct.unpack("<ii", sizes)
    kind, content = parts[3]
    if kind not in _NUMBERS:
        raise _CorruptError(f"its matrix has the MATLAB number type {kind}, which is not supported")
    dtype = np.dtype(_NUMBERS[kind])
    if rows < 0 or columns < 0 or rows * columns * dtype.itemsize != len(content):
        raise _CorruptError(f"a matrix of {rows} x {columns} numbers cannot have {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(rows, columns, order="F").astype(np.float64)
