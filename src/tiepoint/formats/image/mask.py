# SPDX-License-Identifier: BSD-3-Clause
"""Read and write foreground masks. PNG files of any type are converted to grey as by OpenCV."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import Workspace
from ...core.errors import FormatError, InputError
from ..file_io import atomic_path, reading
from .png import BAND, GREY8, RGB16, RGBA16, decode_plain, is_plain, png_gamma, png_header

_RED, _GREEN, _BLUE = 9797, 19234, 3737
_HALF = np.uint32(1 << 14)
_ONE = 100_000
_MAX_FIXED = 2**31 - 1
_SHIFT = 5  # the lookup tables of libpng use the upper 11 of 16 bits


def luma8(rgb: NDArray[np.uint8], gamma: int = 0) -> NDArray[np.uint8]:
    """Convert 8-bit colours (h, w, 3) to grey (h, w): ``(9797 R + 19234 G + 3737 B) >> 15``.

    A pixel with R = G = B is unchanged. `gamma` is the gamma of the file times 100,000 (see `png_gamma`), or
    0 if the file has none. For a gamma other than 1, the sum is computed in linear light and rounded.

    >>> luma8(np.array([[[255, 0, 0], [9, 9, 9]]], np.uint8)).tolist()
    [[76, 9]]
    """
    if not _matters(gamma):
        grey = _weighted_sum(rgb) >> np.uint32(15)
    else:
        to_linear, from_linear = (_table8(g) for g in _exponents(gamma))
        grey = from_linear[(_weighted_sum(to_linear[rgb]) + _HALF) >> np.uint32(15)]
    return np.where(_is_grey(rgb), rgb[..., 0], grey).astype(np.uint8)


def luma16(rgb: NDArray[np.uint16], gamma: int = 0) -> NDArray[np.uint8]:
    """Convert 16-bit colours (h, w, 3) to uint8 grey (h, w).

    The weighted sum is that of `luma8`, rounded, of which the high byte is returned. `gamma` is as for
    `luma8`.

    >>> luma16(np.array([[[65535, 0, 0], [0x1280, 0x1280, 0x1280]]], np.uint16)).tolist()
    [[76, 18]]
    """
    if not _matters(gamma):
        grey = (_weighted_sum(rgb) + _HALF) >> np.uint32(15)
        same = rgb[..., 0] >> 8
    else:
        to_linear, from_linear = (_table16(g) for g in _exponents(gamma))
        linear = (_weighted_sum(to_linear[rgb >> _SHIFT]) + _HALF) >> np.uint32(15)
        grey = from_linear[linear >> np.uint32(_SHIFT)]
        same = _table16_to_8(gamma)[rgb[..., 0] >> _SHIFT]
    return np.where(_is_grey(rgb), same, grey >> 8).astype(np.uint8)


def _weighted_sum(rgb: NDArray[Any]) -> NDArray[np.uint32]:
    r, g, b = (rgb[..., i].astype(np.uint32) for i in range(3))
    return r * np.uint32(_RED) + g * np.uint32(_GREEN) + b * np.uint32(_BLUE)


def _is_grey(rgb: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (rgb[..., 0] == rgb[..., 1]) & (rgb[..., 0] == rgb[..., 2])
    return same


def _inverse(gamma: int) -> int:
    """Return 1/gamma as a fixed-point number (times 100,000). Return 0 if it overflows."""
    inverse = math.floor(1e10 / gamma + 0.5)
    return inverse if inverse <= _MAX_FIXED else 0


def _differs_from_one(gamma: int) -> bool:
    return not 95_000 <= gamma <= 105_000


def _matters(gamma: int) -> bool:
    return gamma > 0 and (_differs_from_one(gamma) or _differs_from_one(_inverse(gamma)))


def _exponents(gamma: int) -> tuple[int, int]:
    """Return the exponents that convert to linear light and back, each times 100,000."""
    inverse = _inverse(gamma)
    return inverse, _inverse(inverse) if inverse else gamma


def _power(values: NDArray[Any], top: int, exponent: int) -> NDArray[np.int64]:
    powers = np.floor(top * np.power(values, exponent * 1e-5) + 0.5).astype(np.int64)
    return np.where(values <= 0, 0, powers)


def _table8(exponent: int) -> NDArray[np.int64]:
    levels = np.arange(256)
    return _power(levels / 255.0, 255, exponent) if _differs_from_one(exponent) else levels


def _table16(exponent: int) -> NDArray[np.int64]:
    top = (1 << (16 - _SHIFT)) - 1
    levels = np.arange(top + 1)
    if _differs_from_one(exponent):
        return _power(levels * (1 / top), 65535, exponent)
    return (levels * 65535 + (top + 1) // 2) // top


def _table16_to_8(gamma: int) -> NDArray[np.int64]:
    """Return the 8-bit grey value for each value of the upper 11 bits of a 16-bit grey pixel."""
    top = (1 << (16 - _SHIFT)) - 1
    product = math.floor(gamma * 1e-5 * _inverse(gamma) + 0.5) or _ONE
    bounds = _power((np.arange(255) * 257 + 128) / 65535.0, 65535, product)
    return np.searchsorted((bounds * top + 32768) // 65535 + 1, np.arange(top + 1), side="right")


def read_mask(path: str | Path, *, space: Workspace | None = None, name: str = "mask") -> NDArray[np.uint8]:
    """Read the raw values of a mask, uint8 (height, width).

    Grey values of 1, 2 and 4 bits are scaled to 0..255. 16-bit values are reduced to their high byte. Palette
    indices are converted to colours, alpha is dropped, and colours are converted to grey in libpng's
    fixed-point arithmetic (see `luma8`). The result is bit-identical to ``cv2.imread(path,
    IMREAD_GRAYSCALE)`` of OpenCV 5.0.0, except for interlaced 16-bit colour, where grey is computed from the
    high bytes only.

    Trap: the values 0 and 1 are not scaled to 0 and 255. tiepoint warns when it scores such masks. If a
    workspace `space` is given, a plain grey mask is read into its array `name`.

    Raises:
        FormatError: The file is not a readable PNG, or is too short for its size in pixels.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "m.png"
    >>> write_mask(name, np.array([[True, False]]))
    >>> read_mask(name).tolist()
    [[255, 0]]
    """
    with reading(path), open(path, "rb", buffering=0) as f:
        data = f.readall()
    header = png_header(path, data, len(data))
    size, gamma = (header.height, header.width), png_gamma(data)
    if is_plain(header, GREY8):
        out = None if space is None else space.take(name, size, np.uint8)
        with suppress(FormatError):  # Pillow tries next and reports errors
            return decode_plain(path, data, GREY8, out)
    for kind in (RGB16, RGBA16):
        if is_plain(header, kind):  # Pillow would drop the low bytes before computing luma
            with suppress(FormatError):
                samples = decode_plain(path, data, kind).view(">u2").reshape(*size, kind.channels)
                return _by_rows(lambda rows: luma16(rows.astype(np.uint16), gamma), samples)
    values = _decode(path, data)
    return _by_rows(lambda rows: luma8(rows, gamma), values) if values.ndim == 3 else values


def _by_rows(mix: Callable[[NDArray[Any]], NDArray[np.uint8]], values: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert colours to grey by the function `mix`, in bands of rows to save memory."""
    step = max(1, BAND // values.shape[1])
    if len(values) <= step:
        return mix(values[..., :3])
    out = np.empty(values.shape[:2], np.uint8)
    for top in range(0, len(values), step):
        out[top : top + step] = mix(values[top : top + step, :, :3])
    return out


def read_mask_size(path: str | Path) -> tuple[int, int]:
    """Return (height, width) of a mask from its header. Errors are those of `read_mask`."""
    with reading(path), open(path, "rb") as f:
        header = png_header(path, f.read(64), f.seek(0, 2))
    return header.height, header.width


def _decode(path: str | Path, data: bytes) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        image: Any
        with Image.open(BytesIO(data), formats=["PNG"]) as image:
            image.load()
            if image.mode.startswith("I"):
                return (np.asarray(image) >> 8).astype(np.uint8)
            if image.mode in ("1", "LA"):
                image = image.convert("L")
            elif image.mode not in ("L", "RGB", "RGBA"):
                image = image.convert("RGB")
            return np.array(image, np.uint8)
    except UnidentifiedImageError as e:
        raise FormatError(path, "is not a readable PNG: its chunks are corrupt; copy it again") from e
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(path, f"is not a readable PNG: {e}") from e


def write_mask(path: str | Path, mask: NDArray[Any]) -> None:
    """Write a mask (height, width) as 8-bit grey PNG. Booleans become 0 and 255; uint8 is unchanged."""
    from PIL import Image

    values = np.asarray(mask)
    if values.ndim != 2 or values.dtype not in (np.bool_, np.uint8):
        raise InputError(
            f"a mask must be boolean or uint8 of shape (height, width), found {values.dtype} {values.shape}"
        )
    if values.dtype == np.bool_:
        values = values.astype(np.uint8) * np.uint8(255)
    with atomic_path(path) as temporary:
        Image.fromarray(values).save(temporary, format="PNG")
