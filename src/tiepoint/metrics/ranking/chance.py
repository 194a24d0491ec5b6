# SPDX-License-Identifier: BSD-3-Clause
"""What a method without information scores: a list in random order."""

from __future__ import annotations

import numpy as np

from ...model.errors import InputError
from .blocks import Blocks
from .normaliser import Normaliser, normalised


def chance_average_precision(
    items: int,
    relevant: float,
    *,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    cutoff: int | None = None,
    certain: bool = True,
) -> float:
    """Expected average precision of `items` in random order, `relevant` of them right.

    It is the average precision of one tie over the whole list, so a constant descriptor scores it too. With
    one right answer it is H(n)/n; for long lists it tends to relevant/items from above.

    Args:
        items: list length.
        relevant: how many are relevant; a fraction only with `certain=False`.
        flavour: as in `average_precision`.
        normaliser: as in `average_precision`.
        cutoff: as in `average_precision`.
        certain: False when each item is relevant with probability relevant/items, independently (first
            neighbours that guess).

    >>> round(chance_average_precision(4, 1), 6), round(chance_average_precision(1200, 200), 4)
    (0.520833, 0.1713)
    """
    if items < 1 or not 0 <= relevant <= items:
        raise InputError(f"chance needs items >= 1 and relevant <= items, found {items}, {relevant}")
    r = float(relevant)
    pairs = r * (r - 1.0) if certain else r * r * (1.0 - 1.0 / items)
    columns = (0.0, 0.0, float(items), r, pairs)
    blocks = Blocks(np.zeros(1, np.int64), *(np.array([c]) for c in columns))
    value = normalised(
        blocks, np.array([r]), flavour=flavour, normaliser=normaliser, ties="expected", cutoff=cutoff
    )
    return float(value[0])
