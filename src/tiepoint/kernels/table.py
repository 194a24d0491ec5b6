# SPDX-License-Identifier: BSD-3-Clause
"""Tables of reference values: every pair of rows of two blocks, evaluated in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .device import served
from .rows import check_shapes, prepare

Tiler = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


def tiler(
    queries: NDArray[Any], pool: NDArray[Any], distance: str
) -> tuple[NDArray[Any], NDArray[Any], Tiler]:
    """Both sides ready for the loops, and the function that makes a tile of two blocks of them.

    Values are what decides order and ties: squared sums for l2, the distance itself otherwise.
    """
    from ._loops import table_hamming, table_l1, table_l2

    queries, pool = np.asarray(queries), np.asarray(pool)
    check_shapes(queries, pool, distance, names=("queries", "pool rows"))
    a, b = prepare(queries, distance, name="queries"), prepare(pool, distance, name="pool")
    if a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    loop = {"hamming": table_hamming, "l2": table_l2, "cosine": table_l2}.get(distance, table_l1)(a.dtype)

    def tile(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        out = np.empty((len(left), len(right)))
        loop(left, right, out)
        if distance == "cosine":
            out *= 0.5
        return out

    return a, b, tile


def value_table(queries: NDArray[Any], pool: NDArray[Any], *, distance: str) -> NDArray[np.float64]:
    """Reference value of every query and pool row, float64 (q, p), the whole table at once.

    Values are what decides order and ties: squared sums for l2, the distance itself otherwise.

    >>> value_table(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]), distance="l2")
    array([[25.,  1.]])
    """

    def compiled() -> NDArray[np.float64]:
        a, b, tile = tiler(queries, pool, distance)
        return tile(a, b)

    return served(lambda: _on_device(queries, pool, distance), compiled)


def _on_device(queries: NDArray[Any], pool: NDArray[Any], distance: str) -> NDArray[np.float64]:
    from .torch_counts import value_table

    return value_table(np.asarray(queries), np.asarray(pool), distance)
