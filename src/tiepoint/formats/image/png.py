# SPDX-License-Identifier: BSD-3-Clause
"""Plain PNG files, read strictly and fast."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import thread_workspace
from ...core.errors import FormatError
from .png_header import COLOURS, SIGNATURE, PngKind, png_header

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
