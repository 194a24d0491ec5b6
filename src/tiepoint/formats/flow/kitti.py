# SPDX-License-Identifier: BSD-3-Clause
"""KITTI flow: a 16-bit RGB PNG with steps of 1/64 pixel and a validity channel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..image.limits import BAND
from .flo import UNKNOWN
from .png_rgb16 import read_png_rgb16, write_png_rgb16

_ZERO = 2**15
_STEPS = 64


def read_kitti_flow(path: str | Path) -> NDArray[np.float32]:
    """The flow of a KITTI PNG, float32 (height, width, 2): ``u = (R - 2^15)/64``, ``v = (G - 2^15)/64``.

    Where the third channel is 0 the flow is unknown and both components are 1e10.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.png"
    >>> write_kitti_flow(name, np.array([[[0.25, -2.0], [1e10, 1e10]]]))
    >>> read_kitti_flow(name).tolist()
    [[[0.25, -2.0], [10000000000.0, 10000000000.0]]]
    """
    samples = read_png_rgb16(path)
    flow = samples[..., :2].astype(np.float32)
    flow -= np.float32(_ZERO)
    flow /= np.float32(_STEPS)
    step = max(1, BAND // flow.shape[1])
    for top in range(0, len(flow), step):  # of all at once, the places would take more memory than the flow
        flow[top : top + step][samples[top : top + step, :, 2] == 0] = UNKNOWN
    return flow


def write_kitti_flow(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as KITTI PNG, rounded to 1/64 pixel.

    Unknown flow (NaN, or beyond 1e9) is written as invalid. Known flow outside -512..+511.98 pixels does not
    fit the format and is an `InputError` that names the first such pixel.
    """
    values = np.asarray(flow, np.float64)
    if values.ndim != 3 or values.shape[2] != 2 or 0 in values.shape:
        raise InputError(f"a flow must have shape (height, width, 2), found {values.shape}")
    known = np.all(np.abs(values) <= 1e9, axis=2)
    steps = np.rint(np.where(known[..., None], values, 0.0) * _STEPS) + _ZERO
    bad = ((steps < 0) | (steps > 2**16 - 1)).any(axis=2)
    if bad.any():
        y, x = np.argwhere(bad)[0]
        raise InputError(
            f"flow {values[y, x].tolist()} at x={x}, y={y} does not fit a KITTI png (-512 to 511.98 px); "
            "write .flo or .npy instead"
        )
    samples = np.zeros((*known.shape, 3), np.uint16)
    samples[known, :2] = steps[known].astype(np.uint16)
    samples[..., 2] = known
    write_png_rgb16(path, samples)
