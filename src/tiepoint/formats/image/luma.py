# SPDX-License-Identifier: BSD-3-Clause
"""Colour to grey as libpng does it for OpenCV's ``imread(…, IMREAD_GRAYSCALE)``, to the bit.

Checked against OpenCV 5.0.0 with libpng 1.6.58; the fixed point has been the same since libpng 1.5.5.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
