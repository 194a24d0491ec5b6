# SPDX-License-Identifier: BSD-3-Clause
"""In which pixels the threshold of a homography estimator and its corner errors are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ....core.errors import InputError
from ....geometry.two_view.resizes import long_side, original_size, short_side
from ....geometry.two_view.scaling import Resize

Size = tuple[int, int]
_TEXT = re.compile(
    r"original|(?P<rule>long|short|unit|divided):(?P<side>\d+(\.\d+)?)(:(?P<rounding>real|round|trunc))?"
)


@dataclass(frozen=True)
class ThresholdFrame:
    """Resized images, or original ones with another unit.

    `original`; `short` or `long`: the shorter or longer side of both images becomes `side`, sides rounded by
    `rounding` (`real`, `round`, `trunc`); `unit`: original images, and a pixel is min(w2, h2)/`side` of them,
    for the threshold as well as for errors; `divided`: for errors alone.
    """

    rule: str = "original"
    side: float = 0.0
    rounding: str = "real"

    def resizes(self, sizes: tuple[Size, Size], *, single: bool = False) -> tuple[Resize, Resize]:
        """How both images are resized; `single`: factors are rounded to float32.

        >>> ThresholdFrame("short", 480, "trunc").resizes(((1000, 700), (640, 480)))[0].size
        (685, 480)
        """
        if self.rule not in ("short", "long"):
            made = [original_size(size) for size in sizes]
        else:
            rule = short_side if self.rule == "short" else long_side
            made = [rule(size, self.side, self.rounding) for size in sizes]
        if single:
            made = [
                Resize(r.size, (float(np.float32(r.scale[0])), float(np.float32(r.scale[1])))) for r in made
            ]
        return made[0], made[1]

    def unit(self, sizes: tuple[Size, Size]) -> float:
        """What errors are divided by.

        >>> ThresholdFrame("divided", 480).unit(((100, 100), (1440, 960)))
        2.0
        """
        return min(sizes[1]) / self.side if self.rule in ("unit", "divided") else 1.0

    def threshold_unit(self, sizes: tuple[Size, Size]) -> float:
        """What a threshold is multiplied by."""
        return self.unit(sizes) if self.rule == "unit" else 1.0

    def __str__(self) -> str:
        if self.rule == "original":
            return "original"
        more = f":{self.rounding}" if self.rule in ("short", "long") and self.rounding != "real" else ""
        return f"{self.rule}:{self.side:g}{more}"


ORIGINAL = ThresholdFrame()


def parse_threshold_frame(text: str) -> ThresholdFrame:
    """The frame of a text: ``original``, ``short:480``, ``short:480:round``, ``long:1024``, ``unit:480``.

    >>> str(parse_threshold_frame("short:480:trunc")), parse_threshold_frame("original") == ORIGINAL
    ('short:480:trunc', True)
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None or (found["rule"] and float(found["side"]) <= 0):
        raise InputError(
            f"unknown frame {text!r}; it is original, short:SIDE or long:SIDE with :round or :trunc behind "
            "it where sides are whole numbers, unit:SIDE or divided:SIDE"
        )
    if not found["rule"]:
        return ORIGINAL
    if found["rounding"] and found["rule"] in ("unit", "divided"):
        raise InputError(f"frame {text!r}: {found['rule']} resizes nothing; leave out {found['rounding']}")
    return ThresholdFrame(found["rule"], float(found["side"]), found["rounding"] or "real")
