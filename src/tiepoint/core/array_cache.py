# SPDX-License-Identifier: BSD-3-Clause
"""Cache of small computed arrays in the store folder, such as sampled or parsed pair lists.

The name of a cache file is its cache key. Each file starts with a hash of its content, and corrupt files are
recomputed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import StoreError
from .hashing import hash_bytes, hash_json
from .records import Arrays
from .regular_files import read_content

Writer = Callable[[Path], contextlib.AbstractContextManager[Path]]
FOLDER = "lists"
"""Name of the cache folder in a store."""
CACHE = "TIEPOINT_CACHE"
"""Environment variable with the cache folder of the user."""
_ALIGN = 64
_folder: Path | None = None
_writer: Writer | None = None
_waiting: dict[Path, tuple[Arrays, str]] = {}
"""Arrays that are written as soon as the store exists, with their cache keys."""


def use_array_cache_folder(folder: Path | None, writer: Writer | None = None) -> None:
    """Set the cache folder; None disables the cache.

    `writer` is the function that writes files, usually `atomic_file`; without it the cache is read-only.
    While the parent folder of `folder` is missing, new arrays stay in memory. They are written by the next
    call of this function with the same folder.
    """
    global _folder, _writer
    waiting = dict(_waiting) if folder == _folder else {}
    _folder, _writer = folder, writer
    _waiting.clear()
    for path, (arrays, stamp) in waiting.items():
        _keep(path, arrays, stamp)


def array_cache_folder() -> Path | None:
    """Return the cache folder. None if the cache is disabled."""
    return _folder


def cached_arrays(name: str, key: Any, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays cached under `name` and `key` (a plain value). If missing, compute and cache them.

    Cached arrays are read-only.

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
    elif _writer is not None:
        with contextlib.suppress(OSError):  # the time of the last use decides what `store prune` removes
            os.utime(path)
    return found


def user_cache_folder() -> Path:
    """Return the user's cache folder: ``$TIEPOINT_CACHE``, or ``tiepoint`` below ``~/.cache``."""
    if custom := os.environ.get(CACHE):
        return Path(custom)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tiepoint"


def user_cached_arrays(name: str, key: Any, make: Callable[[], Arrays]) -> Arrays:
    """Return arrays as `cached_arrays` does, but from the user's cache folder.

    For commands that must not write to a store.
    """
    stamp = hash_json([name, key])
    path = user_cache_folder() / name / stamp[:2] / f"{stamp[:32]}.bin"
    found = _read(path, stamp)
    if found is None:
        found = {n: np.ascontiguousarray(array) for n, array in make().items()}
        temporary = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # a lost result only costs time
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_packed(found, stamp))
            os.replace(temporary, path)
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
    """Return whether the content of a cache file matches the hash at its start."""
    try:
        return _is_intact(memoryview(read_content(path)))
    except OSError:
        return False


def _is_intact(data: memoryview) -> bool:
    return hash_bytes(data[_ALIGN:]).encode() == data[:_ALIGN]


def _packed(arrays: Arrays, stamp: str) -> bytes:
    """Return the content of a cache file for arrays: hash, JSON header and data.

    The header has the key `stamp` and the shapes. The data of each array are aligned to 64 bytes.
    """
    shapes = [[n, array.dtype.str, list(array.shape)] for n, array in arrays.items()]
    head = json.dumps({"key": stamp, "arrays": shapes}).encode()
    head += b" " * (-(_ALIGN + 2 + len(head)) % _ALIGN)
    parts = [b"\n", head, b"\n"]
    for array in arrays.values():
        parts += [array.tobytes(), b"\0" * (-array.nbytes % _ALIGN)]
    body = b"".join(parts)
    return hash_bytes(body).encode() + body


def _read(path: Path, stamp: str) -> dict[str, NDArray[Any]] | None:
    """Read the arrays of a cache file. None if it is missing or corrupt, or if its key is not `stamp`."""
    try:
        data = memoryview(read_content(path))
        if not _is_intact(data):
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
