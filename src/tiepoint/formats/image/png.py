# SPDX-License-Identifier: BSD-3-Clause
"""Plain PNG files, read strictly and fast."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import thread_workspace
from ...core.errors import FormatError
from ..sniff import sniff

PIXELS = 64_000_000
"""Pixels any file may announce, of up to three bytes each."""
PIXELS_A_BYTE = 8
"""Pixels that every byte of a file allows beyond these: real images have a byte for one or two."""
MAX_PIXELS = 178_956_970
"""Pixels no image may exceed: at these Pillow refuses, too."""
BAND = 1 << 22
"""Pixels that are converted at a time, so that a large image is in memory once and not five times."""


def check_pixels(path: str | Path, size: tuple[int, int], file_bytes: int, pixel_bytes: int = 3) -> None:
    """Refuse an image of more pixels than a file of that length may have.

    Those are 64 million and 8 for every byte of the file, of three bytes each (fewer where a pixel has more),
    at most 178,956,970. A photograph of 100 million pixels has tens of megabytes; a third of a megabyte can
    announce, and give, as many blank ones as fill the memory.

    >>> check_pixels("a.png", (10_000, 10_000), 9_000_000)
    >>> check_pixels("a", (10_000, 10_000), 300_000)
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a: has 10000 x 10000 pixels in 300000 bytes, at most 66400000 are read
    """
    width, height = size
    most = min(MAX_PIXELS, (PIXELS + PIXELS_A_BYTE * file_bytes) * 3 // max(3, pixel_bytes))
    if width * height > most:
        raise FormatError(
            path, f"has {width} x {height} pixels in {file_bytes} bytes, at most {most} are read"
        )


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


_STEP = 1 << 17
"""Compressed bytes that are inflated at a time."""


def allow_large_images() -> None:
    """Keep Pillow from warning about images above 89 million pixels, which is no reason to refuse one.

    For this process from now on: to change the filters for the time of a call is not safe in threads.
    """
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


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
    header = png_header(path, data, len(data), limited=kind.pixel_bytes > 1)
    wanted = f"{kind.depth}-bit {COLOURS[kind.colour]}"
    if (header.depth, header.colour) != (kind.depth, kind.colour):
        found = f"{header.depth}-bit {COLOURS[header.colour]}"
        raise FormatError(path, f"expected a {wanted} PNG, found {found}")
    if header.interlaced:
        raise FormatError(
            path, f"this {wanted} PNG is interlaced, which cannot be read; save it without interlacing"
        )
    height, row_bytes = header.height, kind.pixel_bytes * header.width
    from ._png_loops import gather_data, undo_filters

    packed = thread_workspace().take("packed", (len(data),), np.uint8)
    count = gather_data(data, packed)
    if count < 0:
        for _ in _chunks(path, data):  # says what is wrong
            pass
        raise FormatError(path, "damaged PNG")
    raw = _inflate(path, packed[:count], height * (1 + row_bytes))
    rows = raw.reshape(height, 1 + row_bytes)
    if rows[:, 0].max(initial=0) > 4:
        raise FormatError(path, "a row has an unknown PNG filter")
    out = np.empty((height, row_bytes), np.uint8) if out is None else out
    undo_filters(rows, out, kind.pixel_bytes)
    return out


def _chunks(path: str | Path, data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    at, view = len(SIGNATURE), memoryview(data)
    while True:
        if at + 12 > len(data):
            raise FormatError(path, "truncated PNG: the end chunk is missing")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise FormatError(path, "truncated PNG chunk")
        body = view[at + 8 : end - 4]
        if zlib.crc32(body, zlib.crc32(kind)) != struct.unpack_from(">I", data, end - 4)[0]:
            raise FormatError(path, f"damaged PNG: wrong checksum of chunk {kind!r}")
        yield kind, body
        if kind == b"IEND":
            return
        at = end


def _inflate(path: str | Path, packed: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The bytes that compressed ones give, in memory that the thread keeps.

    In steps: in several threads at once, taking and giving back megabytes costs more than inflating.
    """
    raw = thread_workspace().take("png", (size,), np.uint8)
    unpacker, at = zlib.decompressobj(), 0
    try:
        for i in range(0, len(packed), _STEP):
            piece = unpacker.decompress(packed[i : i + _STEP].data)
            if at + len(piece) > size:
                at = size + 1
                break
            raw[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    except zlib.error as e:
        raise FormatError(path, f"damaged PNG data: {e}") from e
    if at != size or not unpacker.eof:
        raise FormatError(path, f"PNG data do not end after the expected {size} bytes")
    return raw
