# SPDX-License-Identifier: BSD-3-Clause
"""Nearest neighbours and rank counts from blocks of reference values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.errors import InputError
from .pairs import finish
from .results import FirstTwo, Nearest, RankCounts
from .rows import check_shapes, prepare
from .threads import for_ranges


def _blocks(queries: Any, pool: Any, distance: str, size: int = 64) -> Iterator[tuple[slice, Any]]:
    from ._loops import tile_hamming, tile_l1, tile_l2

    queries, pool = np.asarray(queries), np.asarray(pool)
    check_shapes(queries, pool, distance, names=("queries", "pool rows"))
    a, b = prepare(queries, distance, name="queries"), prepare(pool, distance, name="pool")
    if a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    loop = {"hamming": tile_hamming, "l2": tile_l2, "cosine": tile_l2}.get(distance, tile_l1)
    for i in range(0, len(a), size):
        part = a[i : i + size]
        out = np.empty((len(part), len(b)))
        for_ranges(len(part), lambda s, e, p=part, o=out: loop(p[s:e], b, o[s:e]), smallest=1)
        yield slice(i, i + len(part)), out


def nearest(
    queries: NDArray[Any],
    pool: NDArray[Any],
    k: int,
    *,
    distance: str = "l2",
    exclude: ArrayLike | None = None,
    squared: bool = False,
) -> Nearest:
    """K nearest pool rows of each query."""
    rows = len(pool) - (exclude is not None)
    if not 1 <= k <= rows:
        raise InputError(f"k is {k}, but the pool offers {rows} rows to each query")
    left_out = None if exclude is None else np.asarray(exclude, dtype=np.int64)
    index, value = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
    for part, tile in _blocks(queries, pool, distance):
        if left_out is not None:
            rows_out = np.flatnonzero(left_out[part] >= 0)
            tile[rows_out, left_out[part][rows_out]] = np.inf
        index[part] = np.argsort(tile, axis=1, kind="stable")[:, :k]
        value[part] = np.take_along_axis(tile, index[part], axis=1)
    return Nearest(index, finish(value, distance, squared=squared))


def first_two(
    queries: NDArray[Any], pool: NDArray[Any], *, distance: str = "l2", squared: bool = False
) -> FirstTwo:
    """First and second neighbour, with ties."""
    n = len(queries)
    index, d1, d2, ties = np.empty(n, np.int64), np.empty(n), np.full(n, np.inf), np.empty(n, np.int64)
    if len(pool) == 0:
        raise InputError("the pool is empty; a nearest neighbour needs at least one row")
    for part, tile in _blocks(queries, pool, distance):
        index[part] = tile.argmin(axis=1)
        d1[part] = tile.min(axis=1)
        ties[part] = (tile == d1[part][:, None]).sum(axis=1)
        if tile.shape[1] > 1:
            d2[part] = np.partition(tile, 1, axis=1)[:, 1]
    return FirstTwo(index, finish(d1, distance, squared=squared), ties, finish(d2, distance, squared=squared))


def rank_counts(
    queries: NDArray[Any],
    pool: NDArray[Any],
    target_query: ArrayLike,
    target_distance: ArrayLike,
    target_position: ArrayLike,
    *,
    distance: str = "l2",
    limits: ArrayLike | None = None,
    query_group: ArrayLike | None = None,
    pool_group: ArrayLike | None = None,
    target_in_pool: bool = False,
    squared: bool = False,
) -> RankCounts:
    """Pool rows nearer than, equal to, and equal to and before each target."""
    tq, td, tp = np.asarray(target_query), np.asarray(target_distance, float), np.asarray(target_position)
    bounds = np.full((len(queries), 1), len(pool)) if limits is None else np.asarray(limits)
    out = np.zeros((3, len(tq), bounds.shape[1]), np.int64)
    position = np.arange(len(pool))
    for part, tile in _blocks(queries, pool, distance):
        tile = finish(tile, distance, squared=squared)
        for t in np.flatnonzero((tq >= part.start) & (tq < part.stop)):
            q = tq[t]
            row = tile[q - part.start]
            keep = np.ones(len(pool), bool)
            if query_group is not None and pool_group is not None:
                keep &= np.asarray(pool_group) != np.asarray(query_group)[q]
            if target_in_pool:
                keep[tp[t]] = False
            for s, limit in enumerate(bounds[q]):
                inside = keep & (position < limit)
                out[0, t, s] = np.sum(inside & (row < td[t]))
                out[1, t, s] = np.sum(inside & (row == td[t]))
                out[2, t, s] = np.sum(inside & (row == td[t]) & (position < tp[t]))
    return RankCounts(*out)
