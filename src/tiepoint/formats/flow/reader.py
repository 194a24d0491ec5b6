# SPDX-License-Identifier: BSD-3-Clause
"""Read and write flow files. The suffix selects the format: ``.flo``, KITTI ``.png`` or NumPy."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ..file_io import atomic_path, read_bytes, reading
from ..image.png import BAND, RGB16, SIGNATURE, decode_plain
from ..npy import map_npy, read_npz
from .flo import UNKNOWN, check_flow_shape, read_flo, write_flo


def read_flow_array(path: str | Path) -> NDArray[np.float32]:
    """Read the flow of a NumPy file, float32 (height, width, 2).

    The array must be little-endian float16, float32 or float64 of shape (height, width, 2) or (2, height,
    width). A ``.npz`` file must contain a single array or an array named ``flow``. Pickled data is refused.
    The shape in the header is checked against the file size before memory is allocated.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(name, np.zeros((2, 3, 4)))
    >>> read_flow_array(name).shape
    (3, 4, 2)
    """
    p = Path(path)
    with reading(p):
        values = _read_npz_flow(p) if p.suffix == ".npz" else map_npy(p)
        if values.dtype.str not in ("<f2", "<f4", "<f8") or values.ndim != 3:
            raise FormatError(p, "expected a float array of three dimensions, (height, width, 2)")
        if 2 not in (values.shape[2], values.shape[0]) or values.size == 0:
            raise FormatError(p, f"expected shape (height, width, 2), found {values.shape}")
        if values.shape[2] != 2:
            values = np.moveaxis(values, 0, 2)
        with np.errstate(over="ignore"):  # values too large for float32 become inf, which means unknown
            return np.array(values, np.float32, order="C")


def _read_npz_flow(path: Path) -> NDArray[Any]:
    def select(names: list[str]) -> str:
        if len(names) != 1 and "flow" not in names:
            raise FormatError(path, f"expected one array, or one named 'flow', found {sorted(names)[:9]}")
        return "flow" if "flow" in names else names[0]

    (flow,) = read_npz(path, select).values()
    return flow


def write_flow_array(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as float32 (height, width, 2) to a ``.npy`` or compressed ``.npz`` file.

    The array in a ``.npz`` file is named ``flow``.
    """
    values = np.ascontiguousarray(check_flow_shape(flow), dtype="<f4")
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        if Path(path).suffix == ".npz":
            np.savez_compressed(f, flow=values)
        else:
            np.save(f, values)


def read_png_rgb16(path: str | Path) -> NDArray[np.uint16]:
    """Read a 16-bit RGB PNG as uint16 (height, width, 3). Raise a `FormatError` for any other PNG.

    The file is checked as in `decode_plain`.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.png"
    >>> write_png_rgb16(name, np.array([[[1, 2, 65535]]], np.uint16))
    >>> read_png_rgb16(name).tolist()
    [[[1, 2, 65535]]]
    """
    samples = decode_plain(path, read_bytes(path), RGB16)
    return samples.reshape(len(samples), -1, 3, 2).view(">u2")[..., 0].astype(np.uint16)


def write_png_rgb16(path: str | Path, samples: NDArray[np.uint16]) -> None:
    """Write a uint16 array (height, width, 3) as a 16-bit RGB PNG.

    All rows use the PNG filter `up`. Date and gamma are not written.
    """
    height, width, _ = samples.shape
    raw = np.ascontiguousarray(samples, ">u2").view(np.uint8).reshape(height, 6 * width)
    rows = np.empty((height, 1 + 6 * width), np.uint8)
    rows[:, 0] = 2
    rows[0, 1:] = raw[0]
    rows[1:, 1:] = raw[1:] - raw[:-1]
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        f.write(SIGNATURE)
        for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")):
            f.write(struct.pack(">I", len(body)) + kind + body)
            f.write(struct.pack(">I", zlib.crc32(body, zlib.crc32(kind))))


_ZERO = 2**15
_STEPS = 64


def read_kitti_flow(path: str | Path) -> NDArray[np.float32]:
    """Read the flow of a KITTI PNG, float32 (height, width, 2).

    The components are ``u = (R - 2^15)/64`` and ``v = (G - 2^15)/64``. Where the third channel is 0, the flow
    is unknown and both components are 1e10.

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
    for top in range(0, len(flow), step):  # one mask for all rows would need more memory than the flow
        flow[top : top + step][samples[top : top + step, :, 2] == 0] = UNKNOWN
    return flow


def write_kitti_flow(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow as KITTI PNG, rounded to 1/64 pixel.

    Unknown flow (NaN, or absolute value above 1e9) is marked as invalid. The format stores -512 to +511.98
    pixels. Known flow outside this range raises an `InputError` that names the first such pixel.
    """
    values = check_flow_shape(np.asarray(flow, np.float64))
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


_FORMATS: dict[str, tuple[Callable[[Any], NDArray[np.float32]], Callable[[Any, Any], None]]] = {
    ".flo": (read_flo, write_flo),
    ".png": (read_kitti_flow, write_kitti_flow),
    ".npy": (read_flow_array, write_flow_array),
    ".npz": (read_flow_array, write_flow_array),
}
SUFFIXES = tuple(_FORMATS)


def read_flow(path: str | Path) -> NDArray[np.float32]:
    """Read the flow of a ``.flo``, KITTI ``.png``, ``.npy`` or ``.npz`` file, float32 (height, width, 2).

    >>> read_flow("flow.tif")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: flow.tif: not a flow file; use one of the suffixes .flo, .png, .npy, .npz
    """
    return _FORMATS[_suffix(path)][0](path)


def write_flow(path: str | Path, flow: NDArray[np.floating]) -> None:
    """Write a flow in the format that the suffix of the file name selects."""
    _FORMATS[_suffix(path)][1](path, flow)


def _suffix(path: str | Path) -> str:
    suffix = Path(path).suffix
    if suffix not in _FORMATS:
        raise InputError(f"{path}: not a flow file; use one of the suffixes {', '.join(SUFFIXES)}")
    return suffix
