# SPDX-License-Identifier: BSD-3-Clause
"""A picture to look at: the same patches in all images of a sequence, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_GAP = 3
_LABEL = 14


def contact_sheet(strips: Mapping[str, NDArray[np.uint8]], *, rows: int = 12) -> NDArray[np.uint8]:
    """Patches of a sequence as a table: a row per patch (evenly spread over the strip), a column per image.

    Args:
        strips: image name -> patches uint8 (n, side, side), all of one shape; columns keep this order.
        rows: how many patches to show, at most.

    Returns:
        Grey image uint8 (h, w), image names on top, white gaps; a wider gap where the first letter changes.

    >>> contact_sheet({"ref": np.zeros((2, 5, 5), np.uint8), "e1": np.zeros((2, 5, 5), np.uint8)}).shape
    (33, 25)
    """
    from PIL import Image, ImageDraw

    first = next(iter(strips.values()))
    n, side = len(first), first.shape[1]
    shown = np.unique(np.linspace(0, n - 1, min(rows, n)).round().astype(np.int64))
    starts, x = [], _GAP
    names = list(strips)
    for before, name in zip([names[0], *names], names, strict=False):
        x += 2 * _GAP if before[0] != name[0] else 0
        starts.append(x)
        x += side + _GAP
    sheet = np.full((_LABEL + _GAP + len(shown) * (side + _GAP), x), 255, dtype=np.uint8)
    for name, left in zip(names, starts, strict=True):
        for row, k in enumerate(shown):
            top = _LABEL + _GAP + row * (side + _GAP)
            sheet[top : top + side, left : left + side] = strips[name][k]
    picture = Image.fromarray(sheet)
    draw = ImageDraw.Draw(picture)
    for name, left in zip(names, starts, strict=True):
        draw.text((left, 1), name, fill=0)
    return np.array(picture)
