# SPDX-License-Identifier: BSD-3-Clause
"""Means over lists by scene: over scenes with values, and with left-out queries as zeros."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Lists = dict[str, list[float]]


def exact_mean(values: Sequence[float], *, empty: float = 0.0) -> float:
    """Mean, exactly rounded whatever the order; `empty` where there is nothing.

    >>> exact_mean([0.8, 0.6, 0.9])
    0.7666666666666666
    """
    return math.fsum(values) / len(values) if values else empty


def macro_mean(lists: Mapping[str, Sequence[float]], *, empty: float = 0.0) -> float:
    """Mean over scenes with at least one value of the scene's mean.

    >>> round(macro_mean({"a": [0.8, 0.6], "b": [0.9], "c": []}), 12)
    0.8
    """
    return exact_mean([exact_mean(values) for values in lists.values() if values], empty=empty)


def macro_with_zeros(
    lists: Mapping[str, Sequence[float]], excluded: Mapping[str, int], *, empty: float = 0.0
) -> float:
    """Mean over scenes **that have values** of sum / (values + excluded).

    Quirk: a scene with exclusions alone is skipped, although it is the worst of all; compare
    `union_with_zeros`.

    >>> macro_with_zeros({"a": [1.0]}, {"a": 1, "b": 7})
    0.5
    """
    rows = [math.fsum(v) / (len(v) + excluded.get(s, 0)) for s, v in lists.items() if v]
    return exact_mean(rows, empty=empty)


def union_with_zeros(lists: Mapping[str, Sequence[float]], excluded: Mapping[str, int]) -> float:
    """The same over all scenes with values or exclusions; a scene with exclusions alone counts 0.

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
