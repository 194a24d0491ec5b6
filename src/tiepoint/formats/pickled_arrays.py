# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays inside a pickle, read as data: only arrays and plain containers, anything else is refused.

See `restricted_pickle`: nothing in the file is imported, called or run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..model.errors import FormatError
from .restricted_pickle import Inert, parse_plain_pickle
from .text_file import read_bytes

_MAGIC = b"\x93NUMPY"
_NUMPY = ("numpy.core.multiarray", "numpy._core.multiarray")


def parse_arrays(data: bytes, *, path: str | Path = "pickle") -> Any:
    """The content of a pickle with its NumPy arrays as arrays, those of objects as nested lists.

    Raises:
        FormatError: Not a pickle, damaged, or one that names a global that is not NumPy's array or number.

    >>> import pickle
    >>> parse_arrays(pickle.dumps({"a": np.arange(3.0)}))
    {'a': array([0., 1., 2.])}
    """
    return _plain(parse_plain_pickle(data, path=path), path)


def read_npy_objects(path: str | Path) -> Any:
    """The objects of a ``.npy`` that holds a pickle; see `parse_arrays`."""
    data = read_bytes(path)
    if not data.startswith(_MAGIC):
        raise FormatError(path, "is not an .npy file")
    wide = 2 if data[6:7] == b"\x01" else 4
    begin = 8 + wide + int.from_bytes(data[8 : 8 + wide], "little")
    if b"'|O'" not in data[:begin]:
        raise FormatError(path, "is an .npy of numbers, expected a list of dictionaries")
    return parse_arrays(data[begin:], path=path)


def _plain(value: Any, path: str | Path) -> Any:
    if isinstance(value, Inert):
        return _array(value, path)
    if isinstance(value, dict):
        return {_plain(k, path): _plain(v, path) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(v, path) for v in value)
    return value


def _array(value: Inert, path: str | Path) -> Any:
    """The array of NumPy's ``_reconstruct`` and its state (version, shape, type, order, bytes or list)."""
    callee = value.callee
    name = callee.name if isinstance(callee, Inert) else None
    if (
        name is None
        or name[0] not in _NUMPY
        or name[1] != "_reconstruct"
        or not isinstance(value.state, tuple)
    ):
        wanted = name or value.name
        asked = ".".join(wanted) if wanted else repr(value)
        raise FormatError(
            path,
            f"asks for {asked}, which plain arrays never need; it is not read, because it could run code",
        )
    _, shape, kind, fortran, content = value.state
    if isinstance(content, list):
        flat = [_plain(v, path) for v in content]
        return flat if len(shape) == 1 else flat[0] if not shape else flat
    if not (isinstance(kind, Inert) and isinstance(kind.arguments, tuple) and isinstance(content, bytes)):
        raise FormatError(path, "holds a damaged array")
    order = kind.state[1] if isinstance(kind.state, tuple) and len(kind.state) > 1 else "|"
    letters = str(kind.arguments[0])
    if letters[:1] not in "biufSU" or not letters[1:].isdigit():
        raise FormatError(path, f"holds an array of type {letters!r}, expected numbers or text")
    found = np.frombuffer(content, np.dtype(f"{order if order in '<>' else '='}{letters}"))
    return found.reshape(shape, order="F" if fortran else "C")
