# SPDX-License-Identifier: BSD-3-Clause
"""Means over scenes. Excluded queries are either skipped or counted as zeros."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Lists = dict[str, list[float]]


def exact_mean(values: Sequence[float], *, empty: float = 0.0) -> float:
    """Return the exactly rounded mean, which does not depend on the order of values; `empty` without values.

    >>> exact_mean([0.8, 0.6, 0.9])
    0.7666666666666666
    """
    return math.fsum(values) / len(values) if values else empty


def macro_mean(lists: Mapping[str, Sequence[float]], *, empty: float = 0.0) -> float:
    """Average within each scene, then over the scenes that have values.

    >>> round(macro_mean({"a": [0.8, 0.6], "b": [0.9], "c": []}), 12)
    0.8
    """
    return exact_mean([exact_mean(values) for values in lists.values() if values], empty=empty)


def macro_with_zeros(
    lists: Mapping[str, Sequence[float]], excluded: Mapping[str, int], *, empty: float = 0.0
) -> float:
    """Return the mean over scenes **that have values**, with each scene's excluded queries counted as zeros.

    A scene that has only excluded queries is skipped here, but counts as 0 in `union_with_zeros`.

    >>> macro_with_zeros({"a": [1.0]}, {"a": 1, "b": 7})
    0.5
    """
    rows = [math.fsum(v) / (len(v) + excluded.get(s, 0)) for s, v in lists.items() if v]
    return exact_mean(rows, empty=empty)


def union_with_zeros(lists: Mapping[str, Sequence[float]], excluded: Mapping[str, int]) -> float:
    """Return the mean over all scenes, with excluded queries counted as zeros.

    >>> union_with_zeros({"a": [1.0]}, {"a": 1, "b": 7})
    0.25
    """
    rows = []
    for scene in sorted({*lists, *excluded}):
        values = lists.get(scene, [])
        total = len(values) + excluded.get(scene, 0)
        if total:
            rows.append(math.fsum(values) / total)
    return exact_mean(rows)
