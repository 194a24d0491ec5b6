# SPDX-License-Identifier: BSD-3-Clause
"""Colours of errors, sampling of matches to draw, and text in pictures."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...tasks.cases import MatchedPair

Colour = tuple[int, int, int]
Rows = NDArray[np.int64]


class ErrorGrade(NamedTuple):
    """A range of errors, from `low_px` to below `high_px`, with its colour. Bounds are NaN if unknown."""

    text: str
    colour: Colour
    low_px: float
    high_px: float


GRADES = (
    ErrorGrade("below 1 px", (0, 158, 115), 0.0, 1.0),
    ErrorGrade("1 to 3 px", (86, 180, 233), 1.0, 3.0),
    ErrorGrade("3 to 10 px", (240, 228, 66), 3.0, 10.0),
    ErrorGrade("10 px and more", (213, 94, 0), 10.0, np.inf),
)
"""Error ranges with colours that are distinguishable with red-green colour blindness."""
UNKNOWN = ErrorGrade("error unknown", (204, 121, 167), np.nan, np.nan)


def grades(matched: MatchedPair) -> Rows:
    """Return the index of the error grade of each match (n,), -1 for unknown errors."""
    if matched.errors_px is None:
        return np.full(len(matched), -1)
    bounds = [g.high_px for g in GRADES[:-1]]
    return np.where(np.isnan(matched.errors_px), -1, np.searchsorted(bounds, matched.errors_px, side="right"))


def count_grades(matched: MatchedPair) -> list[tuple[ErrorGrade, int]]:
    """Count the matches of each error grade, smallest error first. Add unknown errors if there are any.

    >>> a = np.zeros((3, 2))
    >>> some = MatchedPair("p", (None, None), ((1, 1), (1, 1)), a, a, np.array([0.5, 3.0, np.inf]))
    >>> [(g.text, n) for g, n in count_grades(some) if n]
    [('below 1 px', 1), ('3 to 10 px', 1), ('10 px and more', 1)]
    """
    found = grades(matched)
    known = [(g, int((found == k).sum())) for k, g in enumerate(GRADES)]
    unknown = int((found == -1).sum())
    if unknown == len(matched) > 0:
        return [(UNKNOWN, unknown)]
    return known + ([(UNKNOWN, unknown)] if unknown else [])


def spread(matched: MatchedPair, most: int) -> Rows:
    """Return the indices of at most `most` matches, sampled evenly in the order of their errors.

    The proportions of the colours are preserved. Without errors, matches are sampled in the given order.

    >>> a = np.zeros((4, 2))
    >>> errors = np.array([9.0, 1.0, 5.0, 3.0])
    >>> spread(MatchedPair("p", (None, None), ((1, 1), (1, 1)), a, a, errors), 2).tolist()
    [3, 0]
    """
    order = np.arange(len(matched))
    if matched.errors_px is not None:
        order = np.argsort(matched.errors_px, kind="stable")
    if len(order) <= most:
        return order
    middle = (np.arange(most) * 2 + 1) * len(order) // (2 * most)
    return order[middle]


def chosen_rows(matched: MatchedPair, lines: int, points: tuple[int, ...]) -> Rows:
    """Return the indices of the matches with epipolar lines: `points`, or `lines` evenly sampled matches.

    Raises:
        InputError: A match in `points` does not exist.
    """
    if lines and points:
        raise InputError("`lines` and `points` both select matches; pass one of them")
    for row in points:
        if not 0 <= row < len(matched):
            known = (
                f"its matches are numbered from 0 to {len(matched) - 1}"
                if len(matched)
                else "it has no matches"
            )
            raise InputError(f"pair {matched.name} has no match {row}; {known}")
    if points:
        return np.array(list(dict.fromkeys(points)), np.int64)
    return spread(matched, lines) if lines else np.empty(0, np.int64)


TEXT, LINE = 15, 22
"""Font size and line height in pixels."""
INK, PAPER = (32, 33, 36), (255, 255, 255)


@cache
def font(size_px: int = TEXT) -> Any:
    """Return the DejaVu Sans font of Matplotlib, so that text is the same on all machines."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size_px)


def wrap_text(text: str, width: int, *, size_px: int = TEXT) -> list[str]:
    """Wrap a text to lines of `width` pixels. Words that are too long are truncated.

    >>> wrap_text("one two", 400), wrap_text("one two", 50), wrap_text("", 50)
    (['one two'], ['one', 'two'], [])
    """
    letters, lines = font(size_px), [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if not lines[-1] or letters.getlength(longer) <= width - 4:
            lines[-1] = longer
        else:
            lines.append(word)
    return [_cut(line, width, size_px) for line in lines if line]


def _cut(text: str, width: int, size_px: int) -> str:
    letters = font(size_px)
    if letters.getlength(text) <= width - 4:
        return text
    while len(text) > 1 and letters.getlength(text + "…") > width - 4:
        text = text[:-1]
    return text + "…"
