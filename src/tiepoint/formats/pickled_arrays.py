# SPDX-License-Identifier: BSD-3-Clause
"""Read NumPy arrays from pickle files without running code.

Only arrays and plain containers are accepted; see `safe_pickle`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import FormatError
from .file_io import error_reason, read_bytes, reading
from .safe_pickle import OpaqueObject, parse_plain_pickle

_MAGIC = b"\x93NUMPY"
_ARRAY = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_BUFFER = {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}  # protocol 5
_BYTES = {(module, "bytes") for module in ("__builtin__", "builtins")}  # protocol 2 calls it for no bytes
_TYPE = re.compile(r"[<>=|]?(?:[fiu][1248]|b1|O8?|[SU]\d{1,6})")


def is_pickle(path: str | Path) -> bool:
    """Return whether a file starts with the header of a pickle of protocol 2 to 5."""
    with reading(path), Path(path).open("rb") as f:
        head = f.read(2)
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def parse_arrays(data: bytes, *, path: str | Path = "pickle") -> Any:
    """Parse a pickle and return its value. Object arrays become lists.

    Raises:
        FormatError: The data is not a pickle, is corrupt, or refers to globals other than NumPy's arrays and
            scalars.

    >>> import pickle
    >>> parse_arrays(pickle.dumps({"a": np.arange(3.0)}))
    {'a': array([0., 1., 2.])}
    """
    return _ArrayBuilder(path, len(data)).plain(parse_plain_pickle(data, path=path))


def read_arrays(path: str | Path) -> Any:
    """Read arrays and plain containers from a pickle file. Errors are those of `parse_arrays`."""
    return parse_arrays(read_bytes(path), path=path)


def read_npy_objects(path: str | Path) -> Any:
    """Read a ``.npy`` file of pickled objects. Errors are those of `parse_arrays`."""
    data = read_bytes(path)
    if not data.startswith(_MAGIC):
        raise FormatError(path, "is not an .npy file")
    width = 2 if data[6:7] == b"\x01" else 4
    begin = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    if b"'|O'" not in data[:begin]:
        raise FormatError(path, "is a .npy file of numbers, expected a pickled list of dictionaries")
    return parse_arrays(data[begin:], path=path)


_CONTAINERS = (OpaqueObject, dict, list, tuple, set, frozenset)


class _ArrayBuilder:
    """Converter of the `OpaqueObject`s that describe NumPy arrays. Other opaque objects are refused.

    A shared object is converted once. The file size limits the total size of the arrays. The parser has
    already limited depth and number of values.
    """

    def __init__(self, path: str | Path, file_bytes: int) -> None:
        self.path = path
        self.left = 2 * file_bytes
        self.done: dict[int, Any] = {}

    def plain(self, value: Any) -> Any:
        """Return a value in which all descriptions of arrays are converted to NumPy arrays."""
        if not isinstance(value, _CONTAINERS):
            return value
        if id(value) not in self.done:
            self.done[id(value)] = self._convert(value)
        return self.done[id(value)]

    def _convert(self, value: Any) -> Any:
        if isinstance(value, OpaqueObject):
            return self._array(value)
        if isinstance(value, dict):
            return {self._key(key): self.plain(inner) for key, inner in value.items()}
        if isinstance(value, set | frozenset):
            return {self._key(key) for key in value}
        return type(value)(self.plain(inner) for inner in value)

    def _key(self, key: Any) -> Any:
        """Convert a dictionary key. Refuse a key that the pickle creates by calling a function."""
        if isinstance(key, OpaqueObject):
            raise _refusal(key, self.path)
        return tuple(self._key(part) for part in key) if isinstance(key, tuple) else key

    def _array(self, note: OpaqueObject) -> Any:
        """Build an array from a ``_reconstruct`` or ``_frombuffer`` call.

        An object array becomes a flat list.
        """
        callee = note.callee.name if isinstance(note.callee, OpaqueObject) else None
        try:
            if callee in _ARRAY and isinstance(note.state, tuple):
                _, shape, kind, fortran, content = note.state
            elif callee in _BUFFER:
                content, kind, shape, order = note.arguments
                fortran = order == "F"
            else:
                raise _refusal(note, self.path)
            dtype, count = _dtype(kind, self.path), _count(shape)
            called = content.callee if isinstance(content, OpaqueObject) else None
            if isinstance(called, OpaqueObject) and called.name in _BYTES:
                content = content.arguments[0] if content.arguments else b""
            if isinstance(content, list) and dtype.hasobject:
                if len(content) != count:
                    raise ValueError(f"found {len(content)} objects, expected {count}")
                flat = [self.plain(v) for v in content]
                return flat if shape else flat[0]
            if dtype.hasobject or not isinstance(content, bytes | bytearray):
                raise ValueError(
                    f"an array has content of type {type(content).__name__}, expected bytes or a list"
                )
            if len(content) != count * dtype.itemsize:
                raise ValueError(f"found {len(content)} bytes for {count} numbers of {dtype.itemsize} bytes")
            self.left -= len(content)
            if self.left < 0:
                raise ValueError("the arrays have more bytes in total than the file")
            array = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
            return array.reshape(shape, order="F" if fortran else "C")
        except (TypeError, ValueError, OverflowError) as e:
            raise FormatError(self.path, f"contains a corrupt array ({error_reason(e)})") from e


def _count(shape: Any) -> int:
    """Return the number of elements of an array with a given shape."""
    if (
        not isinstance(shape, tuple)
        or len(shape) > 32
        or not all(isinstance(side, int) and 0 <= side < 1 << 48 for side in shape)
    ):
        raise ValueError("its shape is invalid")
    return math.prod(shape)


def _dtype(note: Any, path: str | Path) -> np.dtype[Any]:
    """Return the dtype that a call of ``numpy.dtype`` in the pickle creates: numbers, text or objects."""
    callee = (
        note.callee.name if isinstance(note, OpaqueObject) and isinstance(note.callee, OpaqueObject) else None
    )
    if callee != ("numpy", "dtype"):
        raise _refusal(note, path)
    letters = note.arguments[0] if note.arguments else None
    if not isinstance(letters, str) or not _TYPE.fullmatch(letters):
        name = letters[:40] if isinstance(letters, str) else type(letters).__name__
        raise FormatError(path, f"contains an array of type {name!r}, expected numbers or text")
    order = note.state[1] if isinstance(note.state, tuple) and len(note.state) > 1 else "|"
    return np.dtype(letters).newbyteorder(">") if order == ">" else np.dtype(letters)


def _refusal(note: Any, path: str | Path) -> FormatError:
    while isinstance(note, OpaqueObject) and note.name is None and isinstance(note.callee, OpaqueObject):
        note = note.callee
    name = note.name if isinstance(note, OpaqueObject) else None
    requested = ".".join(name) if name else f"something of type {type(note).__name__}"
    return FormatError(path, f"contains {requested}, which is refused because it could run code")
