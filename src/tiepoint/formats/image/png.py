# SPDX-License-Identifier: BSD-3-Clause
"""Strict, fast reader of plain PNG files, and limits on the size of images."""

from __future__ import annotations

import ctypes
import struct
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import thread_workspace
from ...core.errors import FormatError
from ..sniff import sniff

PIXELS = 64_000_000
"""Number of pixels (of up to three bytes) that every file may have, however small it is."""
PIXELS_PER_BYTE = 8
"""Additional pixels allowed per byte of the file. Real images have one or two pixels per byte."""
MAX_PIXELS = 178_956_970
"""Maximum number of pixels of any image, equal to Pillow's limit."""
BAND = 1 << 22
"""Number of pixels that are converted at a time, which limits the memory for temporary arrays."""


def check_pixels(path: str | Path, size: tuple[int, int], file_bytes: int, pixel_bytes: int = 3) -> None:
    """Raise a `FormatError` if an image has too many pixels for a file of `file_bytes` bytes.

    For pixels of up to three bytes, the limit is 64 million pixels plus 8 pixels per byte of the file, at
    most 178,956,970 pixels. A photograph of 100 million pixels has tens of megabytes, but a file of 300 kB
    can contain enough blank pixels to fill the memory.

    >>> check_pixels("a.png", (10_000, 10_000), 9_000_000)
    >>> check_pixels("a", (10_000, 10_000), 300_000)
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a: has 10000 x 10000 pixels in 300000 bytes; the limit is 66400000, so \
save a smaller image
    """
    width, height = size
    limit = min(MAX_PIXELS, (PIXELS + PIXELS_PER_BYTE * file_bytes) * 3 // max(3, pixel_bytes))
    if width * height > limit:
        raise FormatError(
            path,
            f"has {width} x {height} pixels in {file_bytes} bytes; the limit is {limit}, so save a "
            "smaller image",
        )


SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_DEFLATE_RATIO = 1040
"""Maximum expansion factor of the deflate compression."""


class PngKind(NamedTuple):
    """Type of a PNG: bits per sample, colour type, samples per pixel."""

    depth: int
    colour: int
    channels: int

    @property
    def pixel_bytes(self) -> int:
        """Bytes per pixel."""
        return self.depth * self.channels // 8


GREY8 = PngKind(8, 0, 1)
RGB16 = PngKind(16, 2, 3)
RGBA16 = PngKind(16, 6, 4)
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGBA"}


class PngHeader(NamedTuple):
    """Header (first chunk) of a PNG file."""

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool


def png_header(path: str | Path, head: bytes, file_bytes: int, *, limited: bool = True) -> PngHeader:
    """Parse the header of a PNG of any type, and compare it with the file size.

    If `limited`, the limits of `check_pixels` apply too.

    Raises:
        FormatError: The file is not a PNG or is too short for its number of pixels.
    """
    if not head.startswith(SIGNATURE) or head[8:16] != b"\0\0\0\rIHDR" or len(head) < 33:
        raise FormatError(path, sniff(head) or "is not a PNG file")
    width, height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", head, 16)
    if colour not in _CHANNELS:
        raise FormatError(path, f"corrupt PNG: unknown colour type {colour}; copy the file again")
    row_bytes = (width * depth * _CHANNELS[colour] + 7) // 8
    if not width or not height or height * row_bytes > MAX_DEFLATE_RATIO * file_bytes:
        raise FormatError(
            path,
            f"corrupt PNG: {file_bytes} bytes are too few for {width} x {height} pixels; copy the file again",
        )
    if limited:
        check_pixels(path, (width, height), file_bytes, depth * _CHANNELS[colour] // 8)
    return PngHeader(int(width), int(height), int(depth), int(colour), bool(interlace))


def png_gamma(data: bytes) -> int:
    """Return the gamma of a PNG, times 100,000, or 0 if the file has no gamma.

    Only chunks before the palette and the pixel data are searched. An ``sRGB`` chunk means 45455 and
    overrides ``gAMA``. The decoder verifies checksums, this function does not.
    """
    gamma, at = 0, len(SIGNATURE)
    while at + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        body, end = data[at + 8 : at + 8 + length], at + 12 + length
        if name in (b"PLTE", b"IDAT", b"IEND") or end > len(data):
            break
        if name == b"sRGB" and length == 1:
            return 45_455
        if name == b"gAMA" and length == 4 and not gamma:
            gamma = struct.unpack(">I", body)[0]
        at = end
    return gamma if gamma < 2**31 else 0


def is_plain(header: PngHeader, kind: PngKind) -> bool:
    """Return whether the PNG has the given type and is not interlaced."""
    return (header.depth, header.colour) == (kind.depth, kind.colour) and not header.interlaced


_STEP = 1 << 17
"""Number of compressed bytes to inflate at a time."""


def allow_large_images() -> None:
    """Disable Pillow's warning about images above 89 million pixels for the rest of the process.

    The warning stays disabled, because changing warning filters temporarily is not thread-safe.
    """
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def decode_plain(
    path: str | Path, data: bytes, kind: PngKind, out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Decode a PNG file of the given type to uint8 (height, width x bytes per pixel).

    The decoder checks the signature, every CRC and the length of the uncompressed data. The image size is
    checked against the file size before memory is allocated. Interlaced files are refused. If `out` is given,
    the bytes are written to it.

    Raises:
        FormatError: The file is not a valid PNG of this type.
    """
    header = png_header(path, data, len(data), limited=kind.pixel_bytes > 1)
    expected = f"{kind.depth}-bit {COLOURS[kind.colour]}"
    if (header.depth, header.colour) != (kind.depth, kind.colour):
        found = f"{header.depth}-bit {COLOURS[header.colour]}"
        raise FormatError(path, f"expected a {expected} PNG, found {found}")
    if header.interlaced:
        raise FormatError(path, f"is an interlaced {expected} PNG; save it without interlacing")
    height, row_bytes = header.height, kind.pixel_bytes * header.width
    from ._png_loops import gather_data, undo_filters

    packed = thread_workspace().take("packed", (len(data),), np.uint8)
    count = gather_data(data, packed)
    if count < 0:
        _raise_chunk_error(path, data)
    raw = _inflate(path, packed[:count], height * (1 + row_bytes))
    rows = raw.reshape(height, 1 + row_bytes)
    if rows[:, 0].max(initial=0) > 4:
        raise FormatError(path, "corrupt PNG: unknown filter type of a row; copy the file again")
    out = np.empty((height, row_bytes), np.uint8) if out is None else out
    undo_filters(rows, out, kind.pixel_bytes)
    return out


def _raise_chunk_error(path: str | Path, data: bytes) -> NoReturn:
    """Raise a `FormatError` that names the first truncated or corrupt chunk."""
    at, view = len(SIGNATURE), memoryview(data)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise FormatError(path, "truncated PNG chunk")
        body = view[at + 8 : end - 4]
        if zlib.crc32(body, zlib.crc32(kind)) != struct.unpack_from(">I", data, end - 4)[0]:
            raise FormatError(path, f"corrupt PNG: wrong checksum of chunk {kind!r}; copy the file again")
        at = end
    raise FormatError(path, "truncated PNG: the end chunk is missing; copy the file again")


def _inflate(path: str | Path, packed: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Inflate compressed bytes into a buffer that each thread reuses. Return the `size` bytes.

    Allocating and freeing megabytes in several threads would cost more time than inflating. The system's zlib
    writes into the buffer in one call without the interpreter lock. Python's zlib is used if there is no
    system library, and for the error message about corrupt data.
    """
    raw = thread_workspace().take("png", (size,), np.uint8)
    uncompress = _system_uncompress()
    if uncompress is not None:
        written = ctypes.c_ulong(size)
        if uncompress(raw.ctypes.data, ctypes.byref(written), packed.ctypes.data, len(packed)) == 0:
            if written.value == size:
                return raw
            raise FormatError(path, _wrong_size(size))
    return _inflate_in_steps(path, packed, raw)


def _wrong_size(size: int) -> str:
    return f"corrupt PNG: the pixel data does not have the expected {size} bytes"


@cache
def _system_uncompress() -> Any:
    """Return the function `uncompress` of the system's zlib. None if the system has no zlib."""
    try:
        found = ctypes.CDLL("libz.so.1").uncompress
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_ulong), ctypes.c_void_p, ctypes.c_ulong)
    found.restype = ctypes.c_int
    return found


def _inflate_in_steps(
    path: str | Path, packed: NDArray[np.uint8], raw: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    unpacker, at, size = zlib.decompressobj(), 0, len(raw)
    try:
        for i in range(0, len(packed), _STEP):
            piece = unpacker.decompress(packed[i : i + _STEP].data)
            if at + len(piece) > size:
                at = size + 1
                break
            raw[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    except zlib.error as e:
        raise FormatError(path, f"corrupt PNG data: {e}") from e
    if at != size or not unpacker.eof:
        raise FormatError(path, _wrong_size(size))
    return raw
