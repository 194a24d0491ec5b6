# SPDX-License-Identifier: BSD-3-Clause
"""What a PNG says about itself before its pixels: size, kind, gamma."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from ...core.errors import FormatError
from ..sniff import sniff
from .limits import check_pixels

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

COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGBA"}


class PngHeader(NamedTuple):
    """What the first chunk of a PNG says."""

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool


def png_header(path: str | Path, head: bytes, file_bytes: int, *, limited: bool = True) -> PngHeader:
    """The header in the first bytes of a PNG of any kind, held against its `file_bytes`.

    With `select`, `check_pixels` is asked as well; who has a limit of its own asks without.

    Raises:
        FormatError: if it is no PNG, or the file is too short for so many pixels (see `check_pixels`, too).
    """
    if not head.startswith(SIGNATURE) or head[8:16] != b"\0\0\0\rIHDR" or len(head) < 33:
        raise FormatError(path, sniff(head) or "not a PNG file")
    width, height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", head, 16)
    if colour not in _CHANNELS:
        raise FormatError(path, f"damaged PNG: unknown colour type {colour}")
    row_bytes = (width * depth * _CHANNELS[colour] + 7) // 8
    if not width or not height or height * row_bytes > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {file_bytes} bytes")
    if limited:
        check_pixels(path, (width, height), file_bytes, depth * _CHANNELS[colour] // 8)
    return PngHeader(int(width), int(height), int(depth), int(colour), bool(interlace))


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


def is_plain(header: PngHeader, kind: PngKind) -> bool:
    """Whether the header announces this kind, not interlaced."""
    return (header.depth, header.colour) == (kind.depth, kind.colour) and not header.interlaced
