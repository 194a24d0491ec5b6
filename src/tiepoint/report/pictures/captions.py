# SPDX-License-Identifier: BSD-3-Clause
"""Pictures with captions on one sheet, and the keys of their colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...geometry.flow.color import flow_color
from ...geometry.flow.reference_resize import resize_u8
from .error_colours import INK, PAPER, font, wrap_text
from .flow import error_map

Image = NDArray[np.uint8]
SMALL, STEP, GAP, WHEEL = 13, 18, 6, 64
"""Height of letters, of a line, of gaps and of the colour wheel, in pixels."""


@dataclass(frozen=True)
class CaptionedPanel:
    """A picture (h, w, 3) and what it shows."""

    picture: Image
    caption: str


def flow_key(longest_px: float, unknown: tuple[int, int, int]) -> CaptionedPanel:
    """The wheel of directions as a flow is coloured, and what its colours mean.

    >>> flow_key(12.0, (128, 128, 128)).caption.split("; ")[1]
    'white is no motion, full colour 12.0 px, darker beyond'
    """
    y, x = np.mgrid[:WHEEL, :WHEEL]
    place = np.stack([x, y], axis=2) * 2.0 / (WHEEL - 1) - 1
    outside = np.hypot(place[..., 0], place[..., 1]) > 1
    wheel = flow_color(place, longest=1.0)
    wheel[outside] = PAPER
    grey = "grey" if len(set(unknown)) == 1 else f"RGB {unknown[0]}, {unknown[1]}, {unknown[2]}"
    words = f"white is no motion, full colour {longest_px:.1f} px, darker beyond; {grey} is unknown"
    return CaptionedPanel(wheel, f"flow: the colour is the direction; {words}")


def error_key(white_px: float) -> CaptionedPanel:
    """The bar of errors as an error map is coloured.

    >>> error_key(34.0).caption
    'error: black 0 px, over red and yellow to white, 34 px and more; grey: truth unknown, blue: flow unknown'
    """
    ramp = np.zeros((WHEEL // 4, 2 * WHEEL, 2))
    ramp[..., 0] = np.linspace(0, 1, 2 * WHEEL)
    bar = error_map(ramp, np.zeros_like(ramp), longest_px=1.0)
    words = f"black 0 px, over red and yellow to white, {white_px:g} px and more"
    return CaptionedPanel(bar, f"error: {words}; grey: truth unknown, blue: flow unknown")


def captioned_sheet(
    rows: Sequence[Sequence[CaptionedPanel]],
    *,
    title: Sequence[str] = (),
    keys: Sequence[CaptionedPanel] = (),
    width: int = 320,
    least: int = 560,
) -> Image:
    """A title, rows of pictures `width` pixels wide with captions below them, and keys; RGB on white.

    Captions are wrapped to the width of their picture, title and keys to that of the sheet, which has at
    least `least` pixels.

    >>> captioned_sheet([[CaptionedPanel(np.zeros((10, 20, 3), np.uint8), "one")]], width=40, least=0).shape
    (56, 52, 3)
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw

    across = max(max(len(row) for row in rows) * (width + GAP) + GAP, least)
    head = [line for text in title for line in wrap_text(text, across - GAP)]
    fitted = [[(_at_width(p.picture, width), _lines(p.caption, width)) for p in row] for row in rows]
    keyed = [(key.picture, _lines(key.caption, across - key.picture.shape[1] - 3 * GAP)) for key in keys]
    heights = [max(p.shape[0] for p, _ in row) + STEP * max(len(w) for _, w in row) for row in fitted]
    below = [max(p.shape[0], STEP * len(words)) for p, words in keyed]
    total = 22 * len(head) + sum(h + GAP for h in heights) + sum(h + GAP for h in below) + 2 * GAP
    canvas = Pillow.new("RGB", (across, total), PAPER)
    draw = ImageDraw.Draw(canvas)
    y = GAP
    for line in head:
        draw.text((GAP, y), line, fill=INK, font=font())
        y += 22
    for row, height in zip(fitted, heights, strict=True):
        tallest = max(p.shape[0] for p, _ in row)
        for k, (picture, words) in enumerate(row):
            left = GAP + k * (width + GAP)
            canvas.paste(Pillow.fromarray(picture), (left, y))
            _write(draw, words, left, y + tallest + 1)
        y += height + GAP
    for (picture, words), height in zip(keyed, below, strict=True):
        canvas.paste(Pillow.fromarray(picture), (GAP, y + (height - picture.shape[0]) // 2))
        _write(draw, words, 2 * GAP + picture.shape[1], y + (height - STEP * len(words)) // 2)
        y += height + GAP
    return np.asarray(canvas)


def _at_width(picture: Image, width: int) -> Image:
    return resize_u8(picture, max(1, round(picture.shape[0] * width / picture.shape[1])), width)


def _lines(caption: str, width: int) -> list[str]:
    return wrap_text(caption, width, size_px=SMALL)


def _write(draw: Any, words: Sequence[str], x: int, y: int) -> None:
    for k, line in enumerate(words):
        draw.text((x, y + k * STEP), line, fill=INK, font=font(SMALL))
