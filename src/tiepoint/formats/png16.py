# SPDX-License-Identifier: BSD-3-Clause
"""16-bit RGB PNG, which Pillow reduces to 8 bits: a small strict reader and writer."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..model.errors import FormatError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_DEFLATE_RATIO = 1040
"""Deflate cannot expand a byte to more than about 1032 bytes, so a file bounds its own content."""


def read_png_rgb16(path: str | Path) -> NDArray[np.uint16]:
    """Samples of a 16-bit RGB PNG, uint16 (height, width, 3); any other PNG is a `FormatError`.

    Checks the signature, every CRC, the sizes against the file's length (before allocating), and that the
    compressed data give exactly the announced number of bytes. Interlaced files are refused.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.png"
    >>> write_png_rgb16(name, np.array([[[1, 2, 65535]]], np.uint16))
    >>> read_png_rgb16(name).tolist()
    [[[1, 2, 65535]]]
    """
    p = Path(path)
    try:
        data = p.read_bytes()
    except OSError as e:
        raise FormatError(p, f"cannot be read: {e.strerror or e}") from e
    if not data.startswith(SIGNATURE):
        raise FormatError(p, "not a PNG file")
    width = height = 0
    parts: list[bytes] = []
    for number, (kind, body) in enumerate(_chunks(p, data)):
        if number == 0:
            width, height = _size(p, kind, body, len(data))
        elif kind == b"IDAT":
            parts.append(body)
    raw = _inflate(p, b"".join(parts), height * (1 + 6 * width))
    from .png_filters import undo_filters

    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + 6 * width)
    if rows[:, 0].max(initial=0) > 4:
        raise FormatError(p, "a row has an unknown PNG filter")
    samples = undo_filters(rows)
    return samples.reshape(height, width, 3, 2).view(">u2")[..., 0].astype(np.uint16)


def _chunks(path: Path, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while True:
        if at + 12 > len(data):
            raise FormatError(path, "truncated PNG: the end chunk is missing")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise FormatError(path, "truncated PNG chunk")
        body = data[at + 8 : end - 4]
        if zlib.crc32(body, zlib.crc32(kind)) != struct.unpack_from(">I", data, end - 4)[0]:
            raise FormatError(path, f"damaged PNG: wrong checksum of chunk {kind!r}")
        yield kind, body
        if kind == b"IEND":
            return
        at = end


def _size(path: Path, kind: bytes, body: bytes, file_bytes: int) -> tuple[int, int]:
    if kind != b"IHDR" or len(body) != 13:
        raise FormatError(path, "damaged PNG: the first chunk is not a header")
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
    if depth != 16 or colour != 2 or interlace:
        raise FormatError(path, f"expected a plain 16-bit RGB PNG, found depth {depth}, colour type {colour}")
    if not width or not height or height * (1 + 6 * width) > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {file_bytes} bytes")
    return int(width), int(height)


def _inflate(path: Path, packed: bytes, size: int) -> bytes:
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, size + 1)
    except zlib.error as e:
        raise FormatError(path, f"damaged PNG data: {e}") from e
    if len(raw) != size:
        raise FormatError(path, f"PNG data have {len(raw)} bytes or more, expected {size}")
    return raw


def write_png_rgb16(path: str | Path, samples: NDArray[np.uint16]) -> None:
    """Write uint16 (height, width, 3) as a 16-bit RGB PNG (filter `up`, no date, no gamma)."""
    height, width, _ = samples.shape
    raw = np.ascontiguousarray(samples, ">u2").view(np.uint8).reshape(height, 6 * width)
    rows = np.empty((height, 1 + 6 * width), np.uint8)
    rows[:, 0] = 2
    rows[0, 1:] = raw[0]
    rows[1:, 1:] = raw[1:] - raw[:-1]
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    with Path(path).open("wb") as f:
        f.write(SIGNATURE)
        for kind, body in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows.tobytes(), 6)),
            (b"IEND", b""),
        ):
            f.write(struct.pack(">I", len(body)) + kind + body)
            f.write(struct.pack(">I", zlib.crc32(body, zlib.crc32(kind))))
