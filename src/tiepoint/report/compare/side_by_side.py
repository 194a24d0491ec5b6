# SPDX-License-Identifier: BSD-3-Clause
"""Tables that are too wide for a terminal: which columns to set beside each other."""

from __future__ import annotations

from collections.abc import Sequence


def blocks(widths: Sequence[int], width: int, *, keys: int = 1, between: int = 2) -> list[list[int]]:
    """Columns of tables below each other, each as wide as `width` at most; the first `keys` stand in all.

    Args:
        widths: Width of each column.
        width: What a line may take.
        keys: Columns that say what a row is.
        between: Width of what stands between two columns.

    Returns:
        The numbers of the columns of each table; nothing where not even one fits beside the keys.

    >>> blocks([6, 10, 10, 10], 80)
    [[0, 1, 2, 3]]
    >>> blocks([6, 10, 10, 10], 30)
    [[0, 1, 2], [0, 3]]
    >>> blocks([6, 10, 10, 40], 30)
    []
    """
    first = list(range(keys))
    taken = sum(widths[k] + between for k in first) - between
    if len(widths) <= keys:
        return [first] if taken <= width else []
    if any(taken + between + w > width for w in widths[keys:]):
        return []
    found: list[list[int]] = []
    room = -1
    for k in range(keys, len(widths)):
        room -= widths[k] + between
        if room < 0:
            found.append([*first])
            room = width - taken - between - widths[k]
        found[-1].append(k)
    return found
