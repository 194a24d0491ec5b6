# SPDX-License-Identifier: BSD-3-Clause
"""A flow file of any kind we know, chosen by its suffix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .array import read_flow_array, write_flow_array
from .flo import read_flo, write_flo
from .kitti import read_kitti_flow, write_kitti_flow

_READERS = {
    ".flo": read_flo,
    ".png": read_kitti_flow,
    ".npy": read_flow_array,
    ".npz": read_flow_array,
}
_WRITERS = {
    ".flo": write_flo,
    ".png": write_kitti_flow,
    ".npy": write_flow_array,
    ".npz": write_flow_array,
}
SUFFIXES = tuple(_READERS)


def read_flow(path: str | Path) -> NDArray[np.float32]:
    """The flow in a ``.flo``, KITTI ``.png``, ``.npy`` or ``.npz`` file, float32 (height, width, 2).

    >>> read_flow("flow.tif")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: flow.tif: a flow file ends in .flo, .png, .npy, .npz
    """
    return _READERS[_suffix(path)](path)


def write_flow(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow in the format of the suffix."""
    _WRITERS[_suffix(path)](path, flow)


def _suffix(path: str | Path) -> str:
    suffix = Path(path).suffix
    if suffix not in _READERS:
        raise InputError(f"{path}: a flow file ends in {', '.join(SUFFIXES)}")
    return suffix
