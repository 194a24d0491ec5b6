# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files opened with errors of one sentence; h5py is the extra ``[hdf5]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError

SUFFIXES = (".h5", ".hdf5")


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An HDF5 file for reading; a truncated or other file is a `FormatError`."""
    try:
        import h5py
    except ImportError as e:
        raise InputError(f"{path} needs the package 'h5py': pip install 'tiepoint[hdf5]'") from e
    try:
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise FormatError(path, "the file is missing") from None
    except OSError as e:
        what = "is truncated" if "truncated" in str(e) else "is not a readable HDF5 file"
        raise FormatError(path, f"{what} ({_reason(e)}); copy or write it again") from e
    try:
        with file:
            yield file
    except (OSError, RuntimeError) as e:
        raise FormatError(path, f"is damaged ({_reason(e)}); copy or write it again") from e


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())


def groups_with(file: Any, names: tuple[str, ...]) -> list[str]:
    """Paths of all groups that hold datasets of these names, at any depth.

    Image names with slashes make nested groups, so the depth says nothing.
    """
    found: list[str] = []
    waiting = [("", file)]
    while waiting:
        path, group = waiting.pop()
        children = {name: group.get(name, getclass=True).__name__ for name in group}
        if all(children.get(name) == "Dataset" for name in names):
            found.append(path)
        waiting += [
            (f"{path}/{n}" if path else n, group[n]) for n, kind in children.items() if kind == "Group"
        ]
    return sorted(found)


def numbers(group: Any, name: str, path: Path) -> NDArray[Any]:
    """A dataset as an array of numbers."""
    if name not in group:
        raise FormatError(path, f"{group.name} has no {name}; it has {', '.join(group) or 'nothing'}")
    try:
        array = np.asarray(group[name][()])
    except (OSError, RuntimeError) as e:
        raise FormatError(path, f"{group.name}/{name} cannot be read ({_reason(e)}); write it again") from e
    if array.dtype.kind not in "biuf":
        raise FormatError(path, f"{group.name}/{name} is {array.dtype}, expected numbers")
    return array
