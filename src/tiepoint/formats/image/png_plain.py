# SPDX-License-Identifier: BSD-3-Clause
"""A small strict reader of plain PNG files, where Pillow reduces 16 bits to 8 or takes twice the time."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_DEFLATE_RATIO = 1040
"""Deflate cannot expand a byte to more than about 1032 bytes, so a file bounds its own content."""


class PngKind(NamedTuple):
    """A kind of PNG: bits a sample, colour type, samples a pixel."""

    depth: int
    colour: int
    channels: int

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel."""
        return self.depth * self.channels // 8


GREY8 = PngKind(8, 0, 1)
RGB16 = PngKind(16, 2, 3)
RGBA16 = PngKind(16, 6, 4)
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGBA"}


def png_size(path: str | Path, head: bytes, file_bytes: int) -> tuple[int, int]:
    """(height, width) that the first bytes of a PNG of any kind announce, held against its `file_bytes`.

    Raises:
        FormatError: if it is no PNG, or the file is too short for so many pixels.
    """
    if not head.startswith(SIGNATURE) or head[12:16] != b"IHDR" or len(head) < 33:
        raise FormatError(path, "not a PNG file")
    width, height, depth, colour = struct.unpack_from(">IIBB", head, 16)
    if colour not in _CHANNELS:
        raise FormatError(path, f"damaged PNG: unknown colour type {colour}")
    row_bytes = (width * depth * _CHANNELS[colour] + 7) // 8
    if not width or not height or height * row_bytes > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {file_bytes} bytes")
    return int(height), int(width)


def png_gamma(data: bytes) -> int:
    """The gamma a PNG states before its palette and data, times 100,000; 0 if it states none.

    An ``sRGB`` chunk stands for 45455 and overrules ``gAMA``. Checksums are the business of the decoder.
    """
    found, at = 0, len(SIGNATURE)
    while at + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        body, end = data[at + 8 : at + 8 + length], at + 12 + length
        if name in (b"PLTE", b"IDAT", b"IEND") or end > len(data):
            break
        if name == b"sRGB" and length == 1:
            return 45_455
        if name == b"gAMA" and length == 4 and not found:
            found = struct.unpack(">I", body)[0]
        at = end
    return found if found < 2**31 else 0


def is_plain(data: bytes, kind: PngKind) -> bool:
    """Whether the header announces this kind, not interlaced."""
    return len(data) > 28 and (data[24], data[25], data[28]) == (kind.depth, kind.colour, 0)


def decode_plain(
    path: str | Path, data: bytes, kind: PngKind, out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Bytes of the pixels of a PNG file of one kind, uint8 (height, width x bytes of a pixel).

    Checks the signature, every CRC, the sizes against the file's length (before allocating), and that the
    compressed data give exactly the announced number of bytes. Interlaced files are refused. With `out`, an
    array of that shape, the bytes are written there.

    Raises:
        FormatError: for any other file.
    """
    if not data.startswith(SIGNATURE):
        raise FormatError(path, "not a PNG file")
    width = height = 0
    parts: list[bytes] = []
    for number, (name, body) in enumerate(_chunks(path, data)):
        if number == 0:
            width, height = _size(path, name, body, len(data), kind)
        elif name == b"IDAT":
            parts.append(body)
    row_bytes = kind.pixel_bytes * width
    raw = _inflate(path, b"".join(parts), height * (1 + row_bytes))
    from .png_filters import undo_filters

    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + row_bytes)
    if rows[:, 0].max(initial=0) > 4:
        raise FormatError(path, "a row has an unknown PNG filter")
    out = np.empty((height, row_bytes), np.uint8) if out is None else out
    undo_filters(rows, out, kind.pixel_bytes)
    return out


def _chunks(path: str | Path, data: bytes) -> Iterator[tuple[bytes, bytes]]:
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


def _size(path: str | Path, name: bytes, body: bytes, file_bytes: int, kind: PngKind) -> tuple[int, int]:
    if name != b"IHDR" or len(body) != 13:
        raise FormatError(path, "damaged PNG: the first chunk is not a header")
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
    wanted = f"{kind.depth}-bit {_COLOURS[kind.colour]}"
    if (depth, colour) != (kind.depth, kind.colour):
        named = _COLOURS.get(colour, f"colour type {colour}")
        raise FormatError(path, f"expected a {wanted} PNG, found {depth}-bit {named}")
    if interlace:
        raise FormatError(path, f"this {wanted} PNG is interlaced, which is not read; save it without that")
    if not width or not height or height * (1 + kind.pixel_bytes * width) > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {file_bytes} bytes")
    return int(width), int(height)


def _inflate(path: str | Path, packed: bytes, size: int) -> bytes:
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, size + 1)
    except zlib.error as e:
        raise FormatError(path, f"damaged PNG data: {e}") from e
    if len(raw) != size or not unpacker.eof:
        raise FormatError(path, f"PNG data do not end after the expected {size} bytes")
    return raw
