# SPDX-License-Identifier: BSD-3-Clause
"""Archives of arrays, ``.npz``: plain arrays only, sizes known before anything is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..core.errors import FormatError
from ..core.regular_files import regular_file_size
from .edge import check_unpacked_size, format_errors
from .npy import array_in

_STEP = 1 << 18
_MAGIC = b"\x93NUMPY"


_WRONG = "is not a readable .npz of arrays"


def read_npz(
    path: str | Path, names: Container[str] | Callable[[list[str]], str] | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` by name: those called `names`, the one that `names` chooses of all, or all.

    Files in it that are no ``.npy`` are left out. Arrays of Python objects are refused, as are archives that
    would unpack to more than `check_unpacked_size` allows.

    Raises:
        FormatError: for anything that is not such a file, a missing one included.

    >>> import tempfile
    >>> import numpy as np
    >>> name = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(name, a=np.arange(3), b=np.eye(2))
    >>> read_npz(name, ["a"])
    {'a': array([0, 1, 2])}
    """
    size = regular_file_size(path)
    with format_errors(path, _WRONG), _opened(path) as archive:
        entries = _entries(archive)
        if names is not None:
            wanted = (names(list(entries)),) if callable(names) else names
            entries = {n: i for n, i in entries.items() if n in wanted}
        check_unpacked_size(path, size, sum(i.file_size for i in entries.values()))
        return {name: array_in(path, _content(archive, info)) for name, info in entries.items()}


def _opened(path: str | Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as e:
        with open(path, "rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                raise FormatError(path, "is one array, not an .npz of named arrays") from e
        raise


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"it has {name} twice")
            found[name] = info
    return found


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """The bytes of an entry, in memory that can be written to; as many as it announces."""
    out = bytearray(info.file_size)
    view, at = memoryview(out), 0
    with archive.open(info) as file:
        while piece := file.read(_STEP):
            if at + len(piece) > len(out):
                raise ValueError(f"{info.filename} is longer than the {len(out)} bytes it announces")
            view[at : at + len(piece)] = piece
            at += len(piece)
    if at < len(out):
        raise EOFError(f"{info.filename} ends after {at} of {len(out)} bytes")
    return out
