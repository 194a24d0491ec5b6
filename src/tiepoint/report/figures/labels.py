# SPDX-License-Identifier: BSD-3-Clause
"""Names beside points, placed so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence

Box = tuple[float, float, float, float]
Place = tuple[float, float]

_WAYS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_REACH = (5.0, 10.0, 16.0, 24.0)


def place_labels(
    points: Sequence[Place], widths: Sequence[float], height: float, area: Box
) -> list[Place | None]:
    """Lower left corners of labels, in the units of the points; None where there is no free place.

    Labels are placed in the order given, each at the first place around its point, near ones first,
    that covers no label placed before, no point, and stays in the area.

    >>> place_labels([(50, 50), (50, 50)], [20, 20], 8, (0, 0, 100, 100))
    [(55.0, 46.0), (25.0, 46.0)]
    """
    taken: list[Box] = []
    dots = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    found: list[Place | None] = []
    for i, ((x, y), width) in enumerate(zip(points, widths, strict=True)):
        corner = None
        others = [d for j, d in enumerate(dots) if j != i and points[j] != points[i]]
        for reach in _REACH:
            for dx, dy in _WAYS:
                left = x + reach if dx > 0 else x - reach - width if dx < 0 else x - width / 2
                low = y - height / 2 + dy * (reach if dx == 0 else reach * 0.8)
                box = (left, low, left + width, low + height)
                if _inside(box, area) and not any(_meet(box, b) for b in [*taken, *others]):
                    corner = (left, low)
                    taken.append(box)
                    break
            if corner:
                break
        found.append(corner)
    return found


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(a: Box, area: Box) -> bool:
    return a[0] >= area[0] and a[1] >= area[1] and a[2] <= area[2] and a[3] <= area[3]
