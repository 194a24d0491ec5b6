# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files opened with errors of one sentence; h5py is the extra ``[hdf5]``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError, InputError
from ..core.regular_files import regular_file_size
from .file_io import check_unpacked_size, error_reason

SUFFIXES = (".h5", ".hdf5")
_DAMAGED = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
)
"""What h5py raises about damaged files; a link that leads nowhere is a KeyError."""


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file for reading; a truncated or other file is a `FormatError`."""
    try:
        import h5py
    except ImportError as e:
        raise InputError(f"{path} needs the package 'h5py': pip install 'tiepoint[hdf5]'") from e
    regular_file_size(path)
    try:
        file = h5py.File(path, "r")
    except OSError as e:
        what = "is truncated" if "truncated" in str(e) else "is not a readable HDF5 file"
        raise FormatError(path, f"{what} ({_reason(e)}); copy or write it again") from e
    try:
        with file:
            yield file
    except _DAMAGED as e:
        raise FormatError(path, f"is damaged ({_reason(e)}); copy or write it again") from e


def _reason(error: Exception) -> str:
    return error_reason(error).strip("'\"")


def groups_with(file: Any, names: tuple[str, ...]) -> list[str]:
    """Paths of all groups that hold datasets of these names, at any depth.

    Image names with slashes make nested groups, so the depth says nothing. Links to other places and files
    are not followed, and each group is looked at once: groups can hold each other.
    """
    from h5py import h5l, h5o

    found: list[str] = []
    seen = {h5o.get_info(file.id).addr}
    waiting = [("", file)]
    while waiting:
        path, group = waiting.pop()
        datasets = set()
        for name in group:
            spelled = name.encode("utf-8", "surrogateescape")
            if group.id.links.get_info(spelled).type != h5l.TYPE_HARD:
                continue
            about = h5o.get_info(group.id, spelled)
            if about.type == h5o.TYPE_DATASET:
                datasets.add(name)
            elif about.type == h5o.TYPE_GROUP and about.addr not in seen:
                seen.add(about.addr)
                waiting.append((f"{path}/{name}" if path else name, group[name]))
        if datasets.issuperset(names):
            found.append(path)
    return sorted(found)


def read_numbers(group: Any, name: str, path: Path) -> NDArray[Any]:
    """A dataset as an array of numbers.

    Its announced size and that of its chunks are held against the length of the file before anything is read
    (see `check_unpacked_size`). What is kept in other files is not read.
    """
    if name not in group:
        raise FormatError(path, f"{group.name} has no {name}; it has {', '.join(group) or 'nothing'}")
    try:
        data = group[name]
        dtype = data.dtype
        if dtype.kind not in "biuf":
            raise FormatError(path, f"{group.name}/{name} is {dtype}, expected numbers")
        if data.external or data.is_virtual:
            raise FormatError(path, f"{group.name}/{name} is kept in other files, which are not read")
        for shape in (data.shape or (), data.chunks or ()):
            check_unpacked_size(path, regular_file_size(path), math.prod(shape) * dtype.itemsize)
        if data.chunks is not None and not _chunks_hold(data, regular_file_size(path)):
            raise FormatError(
                path, f"{group.name}/{name} has chunks that are not in the file; write it again"
            )
        return np.asarray(data[()])
    except _DAMAGED as e:
        raise FormatError(path, f"{group.name}/{name} cannot be read ({_reason(e)}); write it again") from e


def _chunks_hold(data: Any, file_bytes: int) -> bool:
    """Whether all chunks of a dataset lie in the file, none empty or there twice: others can crash HDF5."""
    found: list[Any] = []
    data.id.chunk_iter(found.append)
    inside = all(
        c.size > 0 and c.byte_offset is not None and c.byte_offset + c.size <= file_bytes for c in found
    )
    return inside and len({tuple(c.chunk_offset) for c in found}) == len(found)
