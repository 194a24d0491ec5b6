# SPDX-License-Identifier: BSD-3-Clause
"""Plain PNG files, read strictly and fast, and 16-bit RGB written: Pillow reduces 16 bits to 8."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError
from ...model.workspace import thread_workspace
from ..text_file import read_bytes

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_DEFLATE_RATIO = 1040
"""Deflate cannot expand a byte to more than about 1032 bytes, so a file bounds its own content."""

_STEP = 1 << 17
"""Compressed bytes that are inflated at a time."""


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


def png_header(path: str | Path, head: bytes, file_bytes: int) -> PngHeader:
    """The header in the first bytes of a PNG of any kind, held against its `file_bytes`.

    Raises:
        FormatError: if it is no PNG, or the file is too short for so many pixels.
    """
    if not head.startswith(SIGNATURE) or head[8:16] != b"\0\0\0\rIHDR" or len(head) < 33:
        raise FormatError(path, "not a PNG file")
    width, height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", head, 16)
    if colour not in _CHANNELS:
        raise FormatError(path, f"damaged PNG: unknown colour type {colour}")
    row_bytes = (width * depth * _CHANNELS[colour] + 7) // 8
    if not width or not height or height * row_bytes > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {file_bytes} bytes")
    return PngHeader(int(width), int(height), int(depth), int(colour), bool(interlace))


def allow_large_images() -> None:
    """Keep Pillow from warning about images above 89 million pixels, which is no reason to refuse one.

    For this process from now on: to change the filters for the time of a call is not safe in threads.
    """
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


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
    header = png_header(path, data, len(data))
    wanted = f"{kind.depth}-bit {COLOURS[kind.colour]}"
    if (header.depth, header.colour) != (kind.depth, kind.colour):
        found = f"{header.depth}-bit {COLOURS[header.colour]}"
        raise FormatError(path, f"expected a {wanted} PNG, found {found}")
    if header.interlaced:
        raise FormatError(
            path, f"this {wanted} PNG is interlaced, which cannot be read; save it without interlacing"
        )
    height, row_bytes = header.height, kind.pixel_bytes * header.width
    from ._png_filters import gather_data, undo_filters

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
    with Path(path).open("wb") as f:
        f.write(SIGNATURE)
        for kind, body in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows.tobytes(), 6)),
            (b"IEND", b""),
        ):
            f.write(struct.pack(">I", len(body)) + kind + body)
            f.write(struct.pack(">I", zlib.crc32(body, zlib.crc32(kind))))
