# SPDX-License-Identifier: BSD-3-Clause
"""Foreground masks: PNG of any kind, read as 8-bit grey by the rules OpenCV's `imread` follows."""

from __future__ import annotations

import struct
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.errors import FormatError, InputError
from ..model.workspace import Workspace
from .png_plain import GREY8, MAX_DEFLATE_RATIO, SIGNATURE, decode_plain, is_plain

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_RED, _GREEN, _BLUE = 9798, 19235, 3735
_HALF = 1 << 14


def read_mask(path: str | Path, *, space: Workspace | None = None, name: str = "mask") -> NDArray[np.uint8]:
    """A mask as uint8 (height, width), raw values.

    Grey is taken as it is (1, 2, 4 bits spread to 0..255), 16 bits keep their high byte, palettes are looked
    up, alpha is dropped, and colour becomes luma in the fixed point of libpng,
    ``(9798 R + 19235 G + 3735 B + 2^14) >> 15``, untouched where R = G = B. Trap: a mask file that holds 0
    and 1 is nearly black, not 0 and 255; `tiepoint` warns about it where it scores masks. With a `space` the
    mask of a plain grey file is its array `name`.

    Raises:
        FormatError: for anything that is not a readable PNG, and for sizes its bytes cannot fill.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "m.png"
    >>> write_mask(name, np.array([[True, False]]))
    >>> read_mask(name).tolist()
    [[255, 0]]
    """
    try:
        with open(path, "rb", buffering=0) as f:
            data = f.readall()
    except OSError as e:
        raise FormatError(path, f"cannot be read: {e.strerror or e}") from e
    size = _check_size(path, data, len(data))
    if is_plain(data, GREY8):
        out = None if space is None else space.take(name, size, np.uint8)
        with suppress(FormatError):  # Pillow forgives more, and says what it does not
            return decode_plain(path, data, GREY8, out)
    values = _decode(path, data)
    if values.ndim == 3:
        values = _luma(values[..., :3])
    return values


def read_mask_size(path: str | Path) -> tuple[int, int]:
    """(height, width) of a mask from its header alone; errors as in `read_mask`, as far as a header tells."""
    p = Path(path)
    try:
        size = p.stat().st_size
        with p.open("rb") as f:
            return _check_size(p, f.read(64), size)
    except OSError as e:
        raise FormatError(p, f"cannot be read: {e.strerror or e}") from e


def _check_size(path: str | Path, data: bytes, size: int) -> tuple[int, int]:
    if not data.startswith(SIGNATURE) or data[12:16] != b"IHDR" or len(data) < 33:
        raise FormatError(path, "not a PNG file")
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    if colour not in _CHANNELS:
        raise FormatError(path, f"damaged PNG: unknown colour type {colour}")
    row_bytes = (width * depth * _CHANNELS[colour] + 7) // 8
    if not width or not height or height * row_bytes > MAX_DEFLATE_RATIO * size:
        raise FormatError(path, f"{width} x {height} pixels cannot come from {size} bytes")
    return int(height), int(width)


def _decode(path: str | Path, data: bytes) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        image: Any
        with Image.open(BytesIO(data), formats=["PNG"]) as image:
            image.load()
            if image.mode.startswith("I"):
                return (np.asarray(image).astype(np.int64) >> 8).astype(np.uint8)
            if image.mode in ("1", "LA"):
                image = image.convert("L")
            elif image.mode not in ("L", "RGB", "RGBA"):
                image = image.convert("RGB")
            return np.array(image, np.uint8)
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(path, f"not a readable PNG: {e}") from e


def _luma(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    r, g, b = (rgb[..., i].astype(np.int32) for i in range(3))
    grey = (r * _RED + g * _GREEN + b * _BLUE + _HALF) >> 15
    return np.where((r == g) & (g == b), r, grey).astype(np.uint8)


def write_mask(path: str | Path, mask: NDArray[Any]) -> None:
    """Write a mask (height, width) as 8-bit grey PNG: booleans as 0 and 255, uint8 as it is."""
    from PIL import Image

    values = np.asarray(mask)
    if values.ndim != 2 or values.dtype not in (np.bool_, np.uint8):
        raise InputError(f"a mask is boolean or uint8 (height, width), found {values.dtype} {values.shape}")
    if values.dtype == np.bool_:
        values = values.astype(np.uint8) * np.uint8(255)
    Image.fromarray(values).save(path, format="PNG")
