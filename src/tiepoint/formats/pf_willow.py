# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of PF-WILLOW: a MATLAB file per image with ``pts_coord``, 2 x n."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..model.errors import FormatError

_MAX_BYTES = 1 << 20
_COMPRESSED = 15
_NAME = "pts_coord"


def read_pf_keypoints(path: str | Path) -> NDArray[np.float64]:
    """Keypoints of one image, float64 (n, 2) as x, y in the pixels the file uses.

    Point i of one image corresponds to point i of every other image of the class. Values are returned as
    stored. Padding (negative numbers in some distributions) becomes NaN: a padded point is no point and
    must never be counted.

    Raises:
        FormatError: for anything but a small MATLAB 5 file with a real matrix ``pts_coord`` of two rows.
    """
    p = Path(path)
    try:
        with p.open("rb") as f:
            data = f.read(_MAX_BYTES + 1)
    except OSError as e:
        raise FormatError(p, f"cannot be read: {e.strerror or e}") from e
    _check_sizes(p, data)
    from scipy.io import loadmat, whosmat

    try:
        shapes = {name: shape for name, shape, kind in whosmat(BytesIO(data)) if kind == "double"}
        if len(shapes.get(_NAME, ())) == 2 and np.prod(shapes[_NAME], dtype=object) < _MAX_BYTES:
            values = np.asarray(loadmat(BytesIO(data), variable_names=[_NAME])[_NAME], np.float64)
        else:
            raise FormatError(p, f"has no matrix {_NAME!r} of real numbers")
    except FormatError:
        raise
    except Exception as e:  # SciPy's reader raises whatever a damaged file leads it to
        raise FormatError(p, f"not a readable MATLAB file: {e}") from e
    if values.ndim != 2 or values.shape[0] != 2:
        raise FormatError(p, f"{_NAME!r} must have shape (2, n), found {values.shape}")
    points = values.T.copy()
    points[(points < 0).any(axis=1) | ~np.isfinite(points).all(axis=1)] = np.nan
    return points


def _check_sizes(path: Path, data: bytes) -> None:
    """Refuse what would unpack to much more than a keypoint file ever holds."""
    if len(data) > _MAX_BYTES or len(data) < 136:
        raise FormatError(path, f"a keypoint file has 136 to {_MAX_BYTES} bytes")
    if data[126:128] != b"IM":
        raise FormatError(path, "not a little-endian MATLAB 5 file")
    at = 128
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if at + 8 + size > len(data):
            raise FormatError(path, "truncated MATLAB file")
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            try:
                if len(unpacker.decompress(data[at + 8 : at + 8 + size], _MAX_BYTES)) >= _MAX_BYTES:
                    raise FormatError(path, f"unpacks to more than {_MAX_BYTES} bytes")
            except zlib.error as e:
                raise FormatError(path, f"damaged MATLAB data: {e}") from e
        at += 8 + size
