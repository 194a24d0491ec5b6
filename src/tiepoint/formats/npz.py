# SPDX-License-Identifier: BSD-3-Clause
"""Archives of arrays, ``.npz``: plain arrays only, sizes known before anything is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Container
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..model.errors import FormatError
from ..model.files import plain_file
from .edge import edge, may_unpack
from .npy_map import array_in

_STEP = 1 << 20
_MAGIC = b"\x93NUMPY"


def npz_names(path: str | Path) -> list[str]:
    """Names of the arrays of an ``.npz``, from its table alone; errors as in `read_npz`."""
    plain_file(path)
    with edge(path, "is not a readable .npz of arrays"):
        return list(_entries(path))


def read_npz(path: str | Path, names: Container[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` by name, those called `names` or all.

    Files in it that are no ``.npy`` are left out. Arrays of Python objects are refused, as are archives that
    would unpack to more than `may_unpack` allows.

    Raises:
        FormatError: for anything that is not such a file, a missing one included.

    >>> import tempfile
    >>> import numpy as np
    >>> name = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(name, a=np.arange(3), b=np.eye(2))
    >>> read_npz(name, ["a"])
    {'a': array([0, 1, 2])}
    """
    size = plain_file(path)
    with edge(path, "is not a readable .npz of arrays"):
        entries = {n: i for n, i in _entries(path).items() if names is None or n in names}
        may_unpack(path, size, sum(i.file_size for i in entries.values()))
        with zipfile.ZipFile(path) as archive:
            return {name: array_in(path, _content(archive, info)) for name, info in entries.items()}


def _entries(path: str | Path) -> dict[str, zipfile.ZipInfo]:
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            raise FormatError(path, "is one array, not an .npz of named arrays")
    with zipfile.ZipFile(path) as archive:
        found = archive.infolist()
    return {i.filename.removesuffix(".npy"): i for i in found if i.filename.endswith(".npy")}


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """The bytes of an entry, in memory that can be written to; as many as it announces."""
    out = bytearray(info.file_size)
    view, at = memoryview(out), 0
    with archive.open(info) as file:
        while at < len(out):
            got = file.readinto(view[at : at + _STEP])  # type: ignore[attr-defined]  # it is a BufferedIOBase
            if not got:
                raise EOFError(f"{info.filename} ends after {at} of {len(out)} bytes")
            at += got
        if file.read(1):
            raise ValueError(f"{info.filename} is longer than the {len(out)} bytes it announces")
    return out
