# SPDX-License-Identifier: BSD-3-Clause
"""Read and write patch strips: 8-bit grey PNG images of square patches stacked vertically.

The width of the image is the patch side. Patch k has the rows k*side to (k+1)*side. HPatches uses side 65 and
up to 2000 patches.
"""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ..file_io import read_bytes, reading, write_bytes
from ..image.png import COLOURS, GREY8, SIGNATURE, allow_large_images, decode_plain, png_header
from ..sniff import explain_wrong_type

_END = b"IEND\xaeB`\x82"
_MAX_PIXELS = 170_000_000
"""Maximum number of pixels of a strip, about 40,000 patches of side 65. Pillow's limit is slightly higher."""
_MIN_NUMBA_PIXELS = 1 << 20
"""Number of pixels above which the Numba decoder is faster than Pillow, including its loading time."""
_PLAIN = bytes(3)
"""Header bytes of a plain PNG: compression, filter method and interlacing."""


@dataclass(frozen=True)
class StripHeader:
    """Header of a patch strip: the side of the square patches and their number."""

    side: int
    count: int


def read_strip_header(path: str | Path) -> StripHeader:
    """Read patch side and count from the PNG header. Check that the file is not truncated.

    Raises:
        FormatError: The file is missing, empty or not an 8-bit grey PNG, or its height is not a multiple of
            its width.
    """
    with reading(path), open(path, "rb") as f:
        start, size = f.read(33), f.seek(0, 2)
        f.seek(max(0, size - 64))
        return _header(start, f.read(), size, path)


def _header(start: bytes, end: bytes, size: int, path: str | Path) -> StripHeader:
    if not start:
        raise FormatError(path, "the file is empty; expected a PNG patch strip")
    if not start.startswith(SIGNATURE):
        raise FormatError(path, explain_wrong_type(path, "is not a PNG file; a patch strip must be one"))
    if len(start) < 33 or _END not in end:
        raise FormatError(path, "is a truncated PNG (its end is missing); copy it again")
    header = png_header(path, start, size, limited=False)
    if (header.depth, header.colour) != (GREY8.depth, GREY8.colour):
        found = f"{header.depth}-bit {COLOURS[header.colour]}"
        raise FormatError(path, f"is {found}, expected an 8-bit grey patch strip; convert the image")
    width, height = header.width, header.height
    if height % width:
        found = f"is {width} pixels wide and {height} high"
        raise FormatError(path, f"{found}; the height must be a multiple of the width (the patch side)")
    if width * height > _MAX_PIXELS:
        raise FormatError(
            path, f"has {width * height} pixels; the limit is {_MAX_PIXELS}, so split the strip"
        )
    return StripHeader(width, height // width)


def read_strip(path: str | Path) -> NDArray[np.uint8]:
    """Read all patches of a strip, uint8 (count, side, side).

    Raises:
        FormatError: The header is invalid (see `read_strip_header`), or the PNG is truncated or corrupt.
    """
    return decode_strip(read_bytes(path), path=path)


def decode_strip(data: bytes, *, path: str | Path) -> NDArray[np.uint8]:
    """Decode the patches of a PNG given as bytes. `path` is used in error messages.

    `decode_plain` decodes large plain strips: 1123 real patches take 27 ms, compared to 46 ms with OpenCV and
    60 ms with Pillow. Pillow decodes small or interlaced strips, and those that `decode_plain` refuses.
    """
    header = _header(data[:33], data[-64:], len(data), path)
    shape = header.count, header.side, header.side
    if header.count * header.side**2 >= _MIN_NUMBA_PIXELS and data[26:29] == _PLAIN:
        with suppress(FormatError):
            return decode_plain(path, data, GREY8).reshape(shape)
    return _by_pillow(data, path).reshape(shape)


def _by_pillow(data: bytes, path: str | Path) -> NDArray[np.uint8]:
    from PIL import Image

    allow_large_images()
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.array(image)
    except (OSError, SyntaxError, ValueError, zlib.error, Image.DecompressionBombError) as e:
        raise FormatError(path, f"is a truncated or corrupt PNG ({e}); copy it again") from e


def write_strip(path: str | Path, patches: NDArray[np.uint8]) -> None:
    """Write patches, uint8 (count, side, side), as an 8-bit grey PNG."""
    from PIL import Image

    if (
        patches.dtype != np.uint8
        or patches.ndim != 3
        or patches.shape[1] != patches.shape[2]
        or not patches.size
    ):
        found = f"{patches.dtype} {patches.shape}"
        raise InputError(f"a patch strip needs uint8 patches of shape (n, side, side), n > 0; found {found}")
    out = io.BytesIO()
    Image.fromarray(patches.reshape(-1, patches.shape[2])).save(out, format="PNG", compress_level=4)
    write_bytes(path, (out.getvalue(),))
