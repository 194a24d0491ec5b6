# SPDX-License-Identifier: BSD-3-Clause
"""Patch strips: an 8-bit grey PNG whose width is the patch side and whose height is a multiple of it.

Patch k is the rows k*side to (k+1)*side. HPatches uses side 65 and up to 2000 patches.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError, InputError
from ..text_file import read_bytes, write_bytes

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_END = b"IEND\xaeB`\x82"
_COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGB with alpha"}
_MAX_PIXELS = 170_000_000
"""Under twice Pillow's own limit, at which it refuses to decode; 40,000 patches of side 65."""


@dataclass(frozen=True)
class StripHeader:
    """Side of the square patches and how many there are."""

    side: int
    count: int


def read_strip_header(path: str | Path) -> StripHeader:
    """Side and count from the first bytes of the file; no pixel is decoded.

    The end of the file is looked at, too: a strip that was cut off is found before any work starts.

    Raises:
        FormatError: Missing or empty file, not a PNG, not 8-bit grey, height not a multiple of the width.
    """
    try:
        with Path(path).open("rb") as f:
            start = f.read(33)
            f.seek(max(0, f.seek(0, 2) - 64))
            return _header(start, f.read(), path)
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except OSError as e:
        raise FormatError(path, f"cannot be read ({e.strerror or e})") from e


def _header(start: bytes, end: bytes, path: str | Path) -> StripHeader:
    if not start:
        raise FormatError(path, "the file is empty; expected a PNG patch strip")
    if start[:8] != _SIGNATURE or (len(start) >= 16 and start[12:16] != b"IHDR"):
        raise FormatError(path, "is not a PNG file; a patch strip must be one")
    if len(start) < 33 or _END not in end:
        raise FormatError(path, "is a truncated PNG (its end is missing); copy it again")
    width, height, depth, colour = struct.unpack(">IIBB", start[16:26])
    if depth != 8 or colour != 0:
        what = f"{depth}-bit {_COLOURS.get(colour, 'unknown colour')}"
        raise FormatError(path, f"is {what}; a patch strip must be 8-bit grey; convert it")
    if width == 0 or height == 0 or height % width:
        reason = (
            f"is {width} wide and {height} high; the height must be a multiple of the width (the patch side)"
        )
        raise FormatError(path, reason)
    if width * height > _MAX_PIXELS:
        raise FormatError(path, f"has {width * height} pixels; the limit is {_MAX_PIXELS}, split the strip")
    return StripHeader(width, height // width)


def read_strip(path: str | Path) -> NDArray[np.uint8]:
    """All patches, uint8 (count, side, side).

    Raises:
        FormatError: As `read_strip_header`, and for a truncated or damaged PNG.
    """
    data = read_bytes(path)
    return decode_strip(data, path=path)


def decode_strip(data: bytes, *, path: str | Path) -> NDArray[np.uint8]:
    """Patches of a PNG held in memory; `path` is named in errors."""
    from PIL import Image

    header = _header(data[:33], data[-64:], path)
    try:
        with warnings.catch_warnings():
            # A strip of 21,000 patches or more passes Pillow's warning level, and is legal here.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
                pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError, zlib.error, Image.DecompressionBombError) as e:
        raise FormatError(path, f"is a truncated or damaged PNG ({e}); copy it again") from e
    return pixels.reshape(header.count, header.side, header.side)


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
