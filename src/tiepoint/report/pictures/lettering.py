# SPDX-License-Identifier: BSD-3-Clause
"""Text in pictures: one font on every machine, lines that fit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

TEXT, LINE = 15, 22
"""Height of the letters and of a line, in pixels."""
INK, PAPER = (32, 33, 36), (255, 255, 255)


@cache
def font(size_px: int = TEXT) -> Any:
    """DejaVu Sans, which Matplotlib brings along: the same letters on every machine."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size_px)


def wrap_text(text: str, width: int, *, size_px: int = TEXT) -> list[str]:
    """A text in lines that fit into `width` pixels; a word that is too long by itself is cut.

    >>> wrap_text("one two", 400), wrap_text("one two", 50), wrap_text("", 50)
    (['one two'], ['one', 'two'], [])
    """
    letters, found = font(size_px), [""]
    for word in text.split(" "):
        longer = f"{found[-1]} {word}".strip()
        if not found[-1] or letters.getlength(longer) <= width - 4:
            found[-1] = longer
        else:
            found.append(word)
    return [_cut(line, width, size_px) for line in found if line]


def _cut(text: str, width: int, size_px: int) -> str:
    letters = font(size_px)
    if letters.getlength(text) <= width - 4:
        return text
    while len(text) > 1 and letters.getlength(text + "…") > width - 4:
        text = text[:-1]
    return text + "…"
