# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that every run would make again, kept in the folder of a store: lists of pairs, drawn or parsed.

A file is named after what the arrays are made from. It holds a hash of its content, so that a damaged file
is seen, and made anew.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import StoreError
from .hashing import hash_bytes, hash_json
from .regular_files import read_content

Arrays = Mapping[str, NDArray[Any]]
Writer = Callable[[Path], contextlib.AbstractContextManager[Path]]
FOLDER = "lists"
"""What the folder is called in a store."""
_ALIGN = 64
_folder: Path | None = None
_writer: Writer | None = None
_waiting: dict[Path, tuple[Arrays, str]] = {}
"""Arrays that were made before the store was, with what they are made from."""


def use_array_cache_folder(folder: Path | None, writer: Writer | None = None) -> None:
    """Keep arrays in a folder from now on, in None: nowhere.

    `writer` yields a temporary path and renames it to the one it is given; without it nothing is written. The
    folder above must be there; until it is, arrays wait for the next call with the same folder.
    """
    global _folder, _writer
    waiting = dict(_waiting) if folder == _folder else {}
    _folder, _writer = folder, writer
    _waiting.clear()
    for path, (arrays, stamp) in waiting.items():
        _keep(path, arrays, stamp)


def array_cache_folder() -> Path | None:
    """The folder that arrays are kept in."""
    return _folder


def cached_arrays(name: str, key: Any, make: Callable[[], Arrays]) -> Arrays:
    """Arrays of a name that `key`, a plain value, determines: read, or made and written.

    Arrays that are read cannot be written to. Where no folder is set, or it cannot be written, they are made.

    >>> cached_arrays("squares", [3], lambda: {"x": np.arange(3) ** 2})["x"].tolist()
    [0, 1, 4]
    """
    if _folder is None:
        return make()
    stamp = hash_json([name, key])
    path = _folder / f"{name}-{stamp[:32]}.bin"
    found = _read(path, stamp)
    if found is None:
        found = {n: np.ascontiguousarray(array) for n, array in make().items()}
        _keep(path, found, stamp)
    return found


def _keep(path: Path, arrays: Arrays, stamp: str) -> None:
    if _writer is None:
        return
    if not path.parent.parent.is_dir():
        _waiting[path] = (arrays, stamp)
        return
    with contextlib.suppress(StoreError, OSError), _writer(path) as temporary:
        temporary.write_bytes(_packed(arrays, stamp))


def has_valid_checksum(path: Path) -> bool:
    """Whether a file of kept arrays has its hash."""
    try:
        data = memoryview(read_content(path))
    except OSError:
        return False
    return hash_bytes(data[_ALIGN:]).encode() == data[:_ALIGN]


def _packed(arrays: Arrays, stamp: str) -> bytes:
    """The hash of all that follows, a line of JSON, and the arrays, each at a multiple of 64 bytes."""
    shapes = [[n, array.dtype.str, list(array.shape)] for n, array in arrays.items()]
    head = json.dumps({"key": stamp, "arrays": shapes}).encode()
    head += b" " * (-(_ALIGN + 2 + len(head)) % _ALIGN)
    parts = [b"\n", head, b"\n"]
    for array in arrays.values():
        parts += [array.tobytes(), b"\0" * (-array.nbytes % _ALIGN)]
    body = b"".join(parts)
    return hash_bytes(body).encode() + body


def _read(path: Path, stamp: str) -> dict[str, NDArray[Any]] | None:
    """The arrays of a file, None where it is missing, damaged or of another key."""
    try:
        data = memoryview(read_content(path))
        if hash_bytes(data[_ALIGN:]).encode() != data[:_ALIGN]:
            return None
        end = bytes(data[_ALIGN + 1 : _ALIGN + (1 << 16)]).index(b"\n") + _ALIGN + 1
        head = json.loads(bytes(data[_ALIGN + 1 : end]))
        if head["key"] != stamp:
            return None
    except (OSError, ValueError, KeyError):
        return None
    found, at = {}, end + 1
    for name, dtype, shape in head["arrays"]:
        count = int(np.prod(shape))
        found[name] = np.frombuffer(data, np.dtype(dtype), count, at).reshape(shape)
        at += -(-found[name].nbytes // _ALIGN) * _ALIGN
    return found
