# SPDX-License-Identifier: BSD-3-Clause
"""Matches in an order that does not depend on the file they came from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError


def canonical_order(x0: ArrayLike, x1: ArrayLike) -> NDArray[np.intp]:
    """Indices that sort matches by (x0, y0, x1, y1) and leave out exact duplicates.

    Robust estimators draw matches by their place, so a permuted file gives another pose; after this it
    gives the same bits. Of equal rows the first is kept. Non-finite numbers are an `InputError`.

    Args:
        x0: (n, 2) points of view 0.
        x1: (n, 2) points of view 1.

    >>> canonical_order([[5, 1], [2, 9], [5, 1]], [[0, 0], [0, 0], [0, 0]]).tolist()
    [1, 0]
    """
    a, b = (np.asarray(x, np.float64).reshape(-1, 2) for x in (x0, x1))
    if len(a) != len(b):
        raise InputError(f"matches are pairs of points, found {len(a)} and {len(b)}")
    rows = np.hstack([a, b])
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise InputError(f"match {int(bad.argmax())} is not finite: {rows[bad.argmax()].tolist()}")
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.asarray(order[new])
