# SPDX-License-Identifier: BSD-3-Clause
"""Read numbers, images and structs of MATLAB 5 files.

SciPy's reader is not used, because corrupt files can crash the interpreter.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError
from .file_io import reading
from .sniff import sniff

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"
}  # fmt: skip
"""NumPy types of stored numbers, by MATLAB's type number."""
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"
}  # fmt: skip
"""NumPy types of arrays, by MATLAB's class number.

Files store an array's numbers in the smallest sufficient type.
"""
_DOUBLE_CLASS = 6
_STRUCT_CLASS = 2
_COMPLEX = 0x0800
_HEAD_BYTES = 1024
"""Number of bytes at the start of a variable that contain its class, shape and name."""


class _CorruptError(Exception):
    """Raised if a MATLAB file violates its format."""


@dataclass(frozen=True)
class Mat5Variable:
    """Variable of a MATLAB 5 file. Its content is decompressed on access.

    `shape` has the dimensions. `kind` is MATLAB's class number.
    """

    path: Path
    name: str
    kind: int
    shape: tuple[int, ...]
    _element: tuple[int, bytes]
    _most: int

    @property
    def type_name(self) -> str:
        """NumPy type of the array, such as `u1`. Empty for variables that are not arrays of numbers."""
        return _CLASSES.get(self.kind, "")

    def array(self) -> NDArray[Any]:
        """Return a real array in its own number type. Raise a `FormatError` for other variables."""
        try:
            found = _array(_unpack(*self._element, self._most))
        except _CorruptError as e:
            raise _unreadable(self.path, e) from e
        if found is None:
            raise FormatError(self.path, f"{self.name!r} is not an array of real numbers")
        return found

    def fields(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a struct by field name.

        Other fields are skipped. Empty for other variables.
        """
        try:
            return _fields(_unpack(*self._element, self._most)) if self.kind == _STRUCT_CLASS else {}
        except _CorruptError as e:
            raise _unreadable(self.path, e) from e


def read_mat5(path: str | Path, *, most: int) -> dict[str, Mat5Variable]:
    """Return the variables of a MATLAB 5 file by name.

    The size of the file and of each decompressed variable is limited to `most` bytes.

    Raises:
        FormatError: The file is not a MATLAB 5 file, or is corrupt.
    """
    p = Path(path)
    with reading(p), p.open("rb") as f:
        data = f.read(most + 1)
    if len(data) > most or len(data) < _HEADER:
        reason = f"expected a MATLAB 5 file of {_HEADER} to {most} bytes, found {len(data)}"
        raise FormatError(p, sniff(data[:1024]) or reason)
    if data[126:128] != b"IM":
        raise FormatError(p, sniff(data[:1024]) or "is not a little-endian MATLAB 5 file")
    found: dict[str, Mat5Variable] = {}
    try:
        for kind, body in _elements(data[_HEADER:], padded=False):
            head = _head(kind, body, most)
            if head is not None:
                found.setdefault(head[0], Mat5Variable(p, *head, (kind, body), most))
    except _CorruptError as e:
        raise _unreadable(p, e) from e
    return found


def read_mat5_matrix(path: str | Path, name: str, *, most: int) -> NDArray[np.float64]:
    """Read the real matrix `name` of a MATLAB 5 file as float64 (rows, columns).

    The file may be compressed. Its size is limited to `most` bytes, compressed and uncompressed. Other
    variables are skipped.

    Raises:
        FormatError: The file is not a MATLAB 5 file with such a matrix.
    """
    variable = read_mat5(path, most=most).get(name)
    if variable is None or variable.kind != _DOUBLE_CLASS or len(variable.shape) != 2:
        raise FormatError(path, f"has no matrix {name!r} of real numbers; add it")
    try:
        found = _array(_unpack(*variable._element, most))
    except _CorruptError as e:
        raise _unreadable(Path(path), e) from e
    if found is None:
        raise FormatError(path, f"has no matrix {name!r} of real numbers; add it")
    return found.astype(np.float64)


def _unreadable(path: Path, error: _CorruptError) -> FormatError:
    return FormatError(path, f"is not a readable MATLAB file: {error}")


def _elements(data: bytes, *, padded: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yield (type, content) of each data element. A tag may itself contain up to four bytes of content."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:
            yield kind & 0xFFFF, data[at + 4 : at + 4 + min(kind >> 16, 4)]
            at += 8
            continue
        if at + 8 + size > len(data):
            raise _CorruptError("a data element extends beyond the end of the file; copy it again")
        yield kind, data[at + 8 : at + 8 + size]
        at += 8 + (size + 7 & ~7 if padded else size)


def _head(kind: int, body: bytes, most: int) -> tuple[str, int, tuple[int, ...]] | None:
    """Return name, class and shape of a variable. None for elements that are not variables."""
    if kind == _COMPRESSED:
        content = _decompress(body, _HEAD_BYTES)
        if len(content) < 8:
            raise _CorruptError("a compressed variable is empty")
        kind, size = struct.unpack_from("<II", content)
        if kind == _MATRIX and size + 8 >= most:
            raise _CorruptError(f"the content has more bytes than the limit of {most}")
        body = content[8:]
    if kind != _MATRIX:
        return None
    parts = list(islice(_elements(body), 3))
    if len(parts) < 3 or len(parts[0][1]) != 8 or len(parts[1][1]) % 4:
        return None
    word = struct.unpack_from("<I", parts[0][1])[0]
    shape = struct.unpack(f"<{len(parts[1][1]) // 4}i", parts[1][1])
    return parts[2][1].decode("latin-1"), word & 0xFF, shape


def _decompress(body: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(body, most)
    except zlib.error as e:
        raise _CorruptError(str(e)) from e


def _unpack(kind: int, body: bytes, most: int) -> bytes:
    """Return the uncompressed content of a variable."""
    if kind == _COMPRESSED:
        content = _decompress(body, most)
        if len(content) >= most:
            raise _CorruptError(f"the content has more bytes than the limit of {most}")
        kind, body = next(_elements(content), (0, b""))
    return body if kind == _MATRIX else b""


def _array(body: bytes) -> NDArray[Any] | None:
    """Return the numbers of a real array. None for other variables."""
    parts = list(_elements(body))
    if len(parts) < 4 or len(parts[0][1]) != 8 or len(parts[1][1]) % 4:
        return None
    word = struct.unpack_from("<I", parts[0][1])[0]
    if word & 0xFF not in _CLASSES or word & _COMPLEX:
        return None
    shape = struct.unpack(f"<{len(parts[1][1]) // 4}i", parts[1][1])
    kind, content = parts[3]
    if kind not in _NUMBERS:
        raise _CorruptError(f"its matrix has the MATLAB number type {kind}, which is not supported")
    dtype = np.dtype(_NUMBERS[kind])
    if min(shape, default=-1) < 0 or math.prod(shape) * dtype.itemsize != len(content):
        size = " x ".join(map(str, shape))
        raise _CorruptError(f"a matrix of {size} numbers cannot have {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(shape, order="F").astype(_CLASSES[word & 0xFF])


def _fields(body: bytes) -> dict[str, NDArray[Any]]:
    parts = list(_elements(body))
    if len(parts) < 5 or len(parts[3][1]) != 4:
        return {}
    width = struct.unpack("<i", parts[3][1])[0]
    if width <= 0:
        raise _CorruptError("a struct does not state the length of its field names")
    text = parts[4][1]
    names = [text[i : i + width].split(b"\0")[0].decode("latin-1") for i in range(0, len(text), width)]
    arrays = [_array(content) for _, content in parts[5:]]
    if len(arrays) != len(names):
        return {}  # several structs in one array
    return {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
