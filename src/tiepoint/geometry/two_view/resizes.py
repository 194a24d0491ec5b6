# SPDX-License-Identifier: BSD-3-Clause
"""The sizes that evaluation scripts resize an image to."""

from __future__ import annotations

from ...core.errors import InputError
from .scaling import Resize, Size


def original_size(size: Size) -> Resize:
    """The frame of the original pixels."""
    return Resize((size[0], size[1]), (1.0, 1.0))


def stretched_to(size: Size, width: float, height: float) -> Resize:
    """Stretched to (width, height), aspect ratio not kept.

    >>> stretched_to((1296, 968), 640, 480).size
    (640, 480)
    """
    w, h = size
    return Resize((width, height), (width / w, height / h), (w / width, h / height))


def superglue_size(size: Size, resize: tuple[int, ...]) -> Resize:
    """SuperGlue's option of one or two numbers.

    Two numbers: that size exactly. One number n: the longer side becomes n, both sides rounded (half to
    even); -1: unchanged.

    >>> superglue_size((667, 1001), (1600,)).size
    (1066, 1600)
    """
    if len(resize) == 2 and resize[1] > -1:
        return stretched_to(size, *resize)
    if resize[0] == -1:
        return original_size(size)
    return long_side(size, resize[0], rounding="round")


def long_side(size: Size, n: float, rounding: str = "real") -> Resize:
    """The longer side becomes n; see `short_side` for `rounding`.

    >>> long_side((1600, 1185), 1000).size
    (1000.0, 740.625)
    """
    return _one_side(size, n, n / max(size), size[0] >= size[1], rounding)


def short_side(size: Size, n: float, rounding: str = "real") -> Resize:
    """The shorter side becomes n.

    `rounding` of the sides: `real` keeps fractions and one factor for both axes; `round` rounds half to even;
    `trunc` is int(n w/h) or int(n / (w/h)). The last two give slightly different factors for x and y.

    >>> short_side((1000, 700), 480, "trunc").size, short_side((1000, 700), 480, "round").size
    ((685, 480), (686, 480))
    """
    return _one_side(size, n, n / min(size), size[0] < size[1], rounding)


def _one_side(size: Size, n: float, factor: float, fixed_width: bool, rounding: str) -> Resize:
    w, h = size
    if rounding == "real":
        return Resize((w * factor, h * factor), (factor, factor))
    if rounding == "round":
        new: Size = (round(w * factor), round(h * factor))
    elif rounding == "trunc":
        new = (int(n), int(n / (w / h))) if fixed_width else (int(n * w / h), int(n))
    else:
        raise InputError(f"`rounding` is real, round or trunc, found {rounding!r}")
    return Resize(new, (new[0] / w, new[1] / h))
