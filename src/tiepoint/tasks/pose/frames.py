# SPDX-License-Identifier: BSD-3-Clause
"""In which size of the images a pixel threshold is meant."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...core.errors import InputError
from ...geometry.two_view.resizes import long_side, original_size, short_side, stretched_to
from ...geometry.two_view.scaling import Resize

Size = tuple[int, int]
_TEXT = re.compile(r"original|(?P<rule>long|short):(?P<side>\d+(\.\d+)?)|(?P<width>\d+)x(?P<height>\d+)")


@dataclass(frozen=True)
class ImageFrame:
    """A size that both images are brought to, without rounding: points and intrinsics are scaled by it.

    `rule` is `original`, `long` (longer side `side`), `short` (shorter side `side`) or `size` (width `side`,
    height `height`, whatever the shape of the image was).

    >>> ImageFrame("long", 1000).scales((500, 250)), ImageFrame("size", 640, 480).scales((1280, 1440))
    ((2.0, 2.0), (0.5, 0.3333333333333333))
    """

    rule: str = "original"
    side: float = 0.0
    height: float = 0.0

    def resize(self, size: Size) -> Resize:
        """How an image of (width, height) is resized."""
        if self.rule == "original":
            return original_size(size)
        if self.rule == "size":
            return stretched_to(size, self.side, self.height)
        return (long_side if self.rule == "long" else short_side)(size, self.side)

    def scales(self, size: Size) -> tuple[float, float]:
        """Factors of x and y for an image of (width, height)."""
        return self.resize(size).scale

    def __str__(self) -> str:
        if self.rule == "original":
            return "original"
        if self.rule == "size":
            return f"{self.side:g}x{self.height:g}"
        return f"{self.rule}:{self.side:g}"


ORIGINAL = ImageFrame()


def parse_image_frame(text: str) -> ImageFrame:
    """The frame of a text: ``original``, ``640x480``, ``long:1200`` or ``short:480``.

    >>> parse_image_frame("640x480"), str(parse_image_frame("long:1200"))
    (ImageFrame(rule='size', side=640.0, height=480.0), 'long:1200')
    """
    found = _TEXT.fullmatch(text.strip())
    numbers = [] if found is None else [float(v) for k, v in found.groupdict().items() if v and k != "rule"]
    if found is None or any(number <= 0 for number in numbers):
        raise InputError(
            f"unknown frame {text!r}; it is original, WIDTHxHEIGHT, long:SIDE or short:SIDE, such as 640x480"
        )
    if found["rule"]:
        return ImageFrame(found["rule"], float(found["side"]))
    if found["width"]:
        return ImageFrame("size", float(found["width"]), float(found["height"]))
    return ORIGINAL
