# SPDX-License-Identifier: BSD-3-Clause
"""Tiles of reference values: every pair of rows of two blocks, evaluated in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from ._compile import compiled, matrix
from ._lanes import bit_count, sum_absolute, sum_squares
from .rows import check_shapes, prepare


def _tile(rows: Any) -> Any:
    return types.void(matrix(rows), matrix(rows), types.float64[:, ::1])


@compiled(_tile)
def _tile_l2(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = sum_squares(a, i, b, j)


@compiled(_tile)
def _tile_l1(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = sum_absolute(a, i, b, j)


@compiled(_tile)
def _tile_hamming(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = np.float64(bit_count(a, i, b, j))


Tiler = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


def tiler(
    queries: NDArray[Any], pool: NDArray[Any], distance: str
) -> tuple[NDArray[Any], NDArray[Any], Tiler]:
    """Both sides ready for the loops, and the function that makes a tile of two blocks of them.

    Values are what decides order and ties: squared sums for l2, the distance itself otherwise.
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    check_shapes(queries, pool, distance, names=("queries", "pool rows"))
    a, b = prepare(queries, distance, name="queries"), prepare(pool, distance, name="pool")
    if a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    loop = {"hamming": _tile_hamming, "l2": _tile_l2, "cosine": _tile_l2}.get(distance, _tile_l1)(a.dtype)

    def tile(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        out = np.empty((len(left), len(right)))
        loop(left, right, out)
        if distance == "cosine":
            out *= 0.5
        return out

    return a, b, tile
