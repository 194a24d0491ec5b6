# SPDX-License-Identifier: BSD-3-Clause
"""PNG files of 16-bit RGB, read and written: Pillow reduces 16 bits to 8."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..file_io import read_bytes
from ..image.png import decode_plain
from ..image.png_header import RGB16, SIGNATURE
from ..whole_file import atomic_path


def read_png_rgb16(path: str | Path) -> NDArray[np.uint16]:
    """Samples of a 16-bit RGB PNG, uint16 (height, width, 3); any other PNG is a `FormatError`.

    As strict as `decode_plain`.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.png"
    >>> write_png_rgb16(name, np.array([[[1, 2, 65535]]], np.uint16))
    >>> read_png_rgb16(name).tolist()
    [[[1, 2, 65535]]]
    """
    samples = decode_plain(path, read_bytes(path), RGB16)
    return samples.reshape(len(samples), -1, 3, 2).view(">u2")[..., 0].astype(np.uint16)


def write_png_rgb16(path: str | Path, samples: NDArray[np.uint16]) -> None:
    """Write uint16 (height, width, 3) as a 16-bit RGB PNG (filter `up`, no date, no gamma)."""
    height, width, _ = samples.shape
    raw = np.ascontiguousarray(samples, ">u2").view(np.uint8).reshape(height, 6 * width)
    rows = np.empty((height, 1 + 6 * width), np.uint8)
    rows[:, 0] = 2
    rows[0, 1:] = raw[0]
    rows[1:, 1:] = raw[1:] - raw[:-1]
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        f.write(SIGNATURE)
        for kind, body in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows.tobytes(), 6)),
            (b"IEND", b""),
        ):
            f.write(struct.pack(">I", len(body)) + kind + body)
            f.write(struct.pack(">I", zlib.crc32(body, zlib.crc32(kind))))
