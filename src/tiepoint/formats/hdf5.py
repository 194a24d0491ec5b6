# SPDX-License-Identifier: BSD-3-Clause
"""Open and create HDF5 files, find groups and read numeric datasets. Requires h5py (extra ``[hdf5]``)."""

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
_H5PY_ERRORS = (
    OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError, MemoryError
)  # fmt: skip
"""Exceptions that h5py raises for corrupt files. A dangling link raises a KeyError."""


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file for reading. Raise a `FormatError` if it is truncated or not HDF5."""
    try:
        import h5py
    except ImportError as e:
        raise InputError(f"{path}: the package 'h5py' is missing; run pip install 'tiepoint[hdf5]'") from e
    regular_file_size(path)
    try:
        file = h5py.File(path, "r")
    except OSError as e:
        problem = "is truncated" if "truncated" in str(e) else "is not a readable HDF5 file"
        raise FormatError(path, f"{problem} ({_reason(e)}); copy or write the file again") from e
    try:
        with file:
            yield file
    except _H5PY_ERRORS as e:
        raise FormatError(path, f"is corrupt ({_reason(e)}); copy or write the file again") from e


@contextmanager
def new_hdf5(path: Path) -> Iterator[Any]:
    """Create an HDF5 file for writing within this block."""
    try:
        import h5py
    except ImportError as e:
        raise InputError(f"{path}: the package 'h5py' is missing; run pip install 'tiepoint[hdf5]'") from e
    with h5py.File(path, "w") as file:
        yield file


def _reason(error: Exception) -> str:
    return error_reason(error).strip("'\"")


def groups_with(file: Any, names: tuple[str, ...]) -> list[str]:
    """Return the sorted paths of all groups that contain datasets with all of the given names.

    Groups are searched at any depth, because image names with slashes become nested groups. Soft and external
    links are skipped. Each group is visited once, because groups can contain each other.
    """
    from h5py import h5l, h5o

    found: list[str] = []
    seen = {h5o.get_info(file.id).addr}
    waiting = [("", file)]
    while waiting:
        path, group = waiting.pop()
        datasets = set()
        for name in group:
            raw = name.encode("utf-8", "surrogateescape")
            if group.id.links.get_info(raw).type != h5l.TYPE_HARD:
                continue
            info = h5o.get_info(group.id, raw)
            if info.type == h5o.TYPE_DATASET:
                datasets.add(name)
            elif info.type == h5o.TYPE_GROUP and info.addr not in seen:
                seen.add(info.addr)
                waiting.append((f"{path}/{name}" if path else name, group[name]))
        if datasets.issuperset(names):
            found.append(path)
    return sorted(found)


def read_numbers(group: Any, name: str, path: Path) -> NDArray[Any]:
    """Read a dataset as a numeric array.

    The header states the sizes of the dataset and its chunks, which are checked before reading (see
    `check_unpacked_size`). Datasets stored in other files are refused.
    """
    if name not in group:
        raise FormatError(
            path, f"{group.name} has no dataset {name}; its datasets are {', '.join(group) or 'nothing'}"
        )
    try:
        data = group[name]
        dtype = data.dtype
        if dtype.kind not in "biuf":
            raise FormatError(path, f"{group.name}/{name} has type {dtype}, expected numbers")
        if data.external or data.is_virtual:
            raise FormatError(
                path,
                f"{group.name}/{name} is stored outside this file and was not read; store it in this file",
            )
        for shape in (data.shape or (), data.chunks or ()):
            check_unpacked_size(path, regular_file_size(path), math.prod(shape) * dtype.itemsize)
        if data.chunks is not None and not _has_valid_chunks(data, regular_file_size(path)):
            raise FormatError(path, f"{group.name}/{name} has chunks beyond the file's end; write it again")
        return np.asarray(data[()])
    except _H5PY_ERRORS as e:
        raise FormatError(path, f"{group.name}/{name} cannot be read ({_reason(e)}); write it again") from e


def _has_valid_chunks(data: Any, file_bytes: int) -> bool:
    """Return whether all chunks are inside the file, non-empty and unique.

    Invalid chunks can crash the HDF5 library.
    """
    chunks: list[Any] = []
    data.id.chunk_iter(chunks.append)
    inside = all(
        c.size > 0 and c.byte_offset is not None and c.byte_offset + c.size <= file_bytes for c in chunks
    )
    return inside and len({tuple(c.chunk_offset) for c in chunks}) == len(chunks)
