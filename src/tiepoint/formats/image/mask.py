# SPDX-License-Identifier: BSD-3-Clause
"""Foreground masks: PNG of any kind, read as 8-bit grey by the rules OpenCV's `imread` follows."""

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
_SHIFT = 5  # of 16 bits the lookup tables of libpng use the upper 11


def luma8(rgb: NDArray[np.uint8], gamma: int = 0) -> NDArray[np.uint8]:
    """Grey values (h, w) of 8-bit colours (h, w, 3): ``(9797 R + 19234 G + 3737 B) >> 15``, truncated.

    A pixel with R = G = B keeps its value. `gamma` is what the file states (see `png_gamma`), or 0. Where
    it is not about 1 (100,000), the sum is taken in linear light, and rounded.

    >>> luma8(np.array([[[255, 0, 0], [9, 9, 9]]], np.uint8)).tolist()
    [[76, 9]]
    """
    if not _matters(gamma):
        grey = _mixed(rgb) >> np.uint32(15)
    else:
        there, back = (_table8(g) for g in _there_and_back(gamma))
        grey = back[(_mixed(there[rgb]) + _HALF) >> np.uint32(15)]
    return np.where(_same(rgb), rgb[..., 0], grey).astype(np.uint8)


def luma16(rgb: NDArray[np.uint16], gamma: int = 0) -> NDArray[np.uint8]:
    """The same of 16-bit colours, uint8: the sum is rounded, then its high byte is kept.

    >>> luma16(np.array([[[65535, 0, 0], [0x1280, 0x1280, 0x1280]]], np.uint16)).tolist()
    [[76, 18]]
    """
    if not _matters(gamma):
        grey = (_mixed(rgb) + _HALF) >> np.uint32(15)
        same = rgb[..., 0] >> 8
    else:
        there, back = (_table16(g) for g in _there_and_back(gamma))
        grey = back[((_mixed(there[rgb >> _SHIFT]) + _HALF) >> np.uint32(15)) >> np.uint32(_SHIFT)]
        same = _table16_to_8(gamma)[rgb[..., 0] >> _SHIFT]
    return np.where(_same(rgb), same, grey >> 8).astype(np.uint8)


def _mixed(rgb: NDArray[Any]) -> NDArray[np.uint32]:
    r, g, b = (rgb[..., i].astype(np.uint32) for i in range(3))
    return r * np.uint32(_RED) + g * np.uint32(_GREEN) + b * np.uint32(_BLUE)


def _same(rgb: NDArray[Any]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (rgb[..., 0] == rgb[..., 1]) & (rgb[..., 0] == rgb[..., 2])
    return same


def _inverse(gamma: int) -> int:
    """1/gamma in fixed point; 0 where that does not fit."""
    inverse = math.floor(1e10 / gamma + 0.5)
    return inverse if inverse <= _MAX_FIXED else 0


def _bends(gamma: int) -> bool:
    return not 95_000 <= gamma <= 105_000


def _matters(gamma: int) -> bool:
    return gamma > 0 and (_bends(gamma) or _bends(_inverse(gamma)))


def _there_and_back(gamma: int) -> tuple[int, int]:
    """Exponents, times 100,000, to linear light and from it."""
    inverse = _inverse(gamma)
    return inverse, _inverse(inverse) if inverse else gamma


def _power(values: NDArray[Any], top: int, exponent: int) -> NDArray[np.int64]:
    bent = np.floor(top * np.power(values, exponent * 1e-5) + 0.5).astype(np.int64)
    return np.where(values <= 0, 0, bent)


def _table8(exponent: int) -> NDArray[np.int64]:
    levels = np.arange(256)
    return _power(levels / 255.0, 255, exponent) if _bends(exponent) else levels


def _table16(exponent: int) -> NDArray[np.int64]:
    top = (1 << (16 - _SHIFT)) - 1
    levels = np.arange(top + 1)
    if _bends(exponent):
        return _power(levels * (1 / top), 65535, exponent)
    return (levels * 65535 + (top + 1) // 2) // top


def _table16_to_8(gamma: int) -> NDArray[np.int64]:
    """For the upper 11 bits of a grey pixel its 8-bit value, by the bounds between these."""
    top = (1 << (16 - _SHIFT)) - 1
    product = math.floor(gamma * 1e-5 * _inverse(gamma) + 0.5) or _ONE
    bounds = _power((np.arange(255) * 257 + 128) / 65535.0, 65535, product)
    return np.searchsorted((bounds * top + 32768) // 65535 + 1, np.arange(top + 1), side="right")


def read_mask(path: str | Path, *, space: Workspace | None = None, name: str = "mask") -> NDArray[np.uint8]:
    """A mask as uint8 (height, width), raw values.

    Grey is taken as it is (1, 2, 4 bits spread to 0..255), 16 bits keep their high byte, palettes are looked
    up, alpha is dropped, and colour becomes luma in the fixed point of libpng (see `luma8`), untouched where
    R = G = B. This is what ``cv2.imread(path, IMREAD_GRAYSCALE)`` of OpenCV 5.0.0 gives, to the bit; only of
    interlaced 16-bit colour we mix the high bytes alone. Trap: a mask file that holds 0 and 1 is nearly
    black, not 0 and 255; `tiepoint` warns about it where it scores masks. With a `space` the mask of a plain
    grey file is its array `name`.

    Raises:
        FormatError: for anything that is not a readable PNG, and for sizes its bytes cannot fill.

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
        with suppress(FormatError):  # Pillow forgives more, and says what it does not
            return decode_plain(path, data, GREY8, out)
    for kind in (RGB16, RGBA16):
        if is_plain(header, kind):  # Pillow would drop the low bytes before they are mixed
            with suppress(FormatError):
                samples = decode_plain(path, data, kind).view(">u2").reshape(*size, kind.channels)
                return _by_rows(lambda rows: luma16(rows.astype(np.uint16), gamma), samples)
    values = _decode(path, data)
    return _by_rows(lambda rows: luma8(rows, gamma), values) if values.ndim == 3 else values


def _by_rows(mix: Callable[[NDArray[Any]], NDArray[np.uint8]], values: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey of colours, some rows at a time: mixing takes many times the memory of what is mixed."""
    step = max(1, BAND // values.shape[1])
    if len(values) <= step:
        return mix(values[..., :3])
    out = np.empty(values.shape[:2], np.uint8)
    for top in range(0, len(values), step):
        out[top : top + step] = mix(values[top : top + step, :, :3])
    return out


def read_mask_size(path: str | Path) -> tuple[int, int]:
    """(height, width) of a mask from its header alone; errors as in `read_mask`, as far as a header tells."""
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
        raise FormatError(path, "not a readable PNG: its chunks are damaged") from e
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(path, f"not a readable PNG: {e}") from e


def write_mask(path: str | Path, mask: NDArray[Any]) -> None:
    """Write a mask (height, width) as 8-bit grey PNG: booleans as 0 and 255, uint8 as it is."""
    from PIL import Image

    values = np.asarray(mask)
    if values.ndim != 2 or values.dtype not in (np.bool_, np.uint8):
        raise InputError(f"a mask is boolean or uint8 (height, width), found {values.dtype} {values.shape}")
    if values.dtype == np.bool_:
        values = values.astype(np.uint8) * np.uint8(255)
    with atomic_path(path) as temporary:
        Image.fromarray(values).save(temporary, format="PNG")
