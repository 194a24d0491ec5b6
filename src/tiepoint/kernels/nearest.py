# SPDX-License-Identifier: BSD-3-Clause
"""Find the nearest descriptors of queries in a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .inputs import first_outside
from .pair_distances import finish, pair_distances
from .threads import ThreadTeam, one_blas_thread
from .tiles import TileScores, make_team
from .torch_backend.device import run_on_device

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Array = NDArray[Any]


class Nearest(NamedTuple):
    """Nearest neighbours of q queries: `index` int64 (q, k) and `distance` float64 (q, k), nearest first."""

    index: Ints  # type: ignore[assignment]  # hides tuple.index
    distance: Floats


class FirstTwo(NamedTuple):
    """First and second neighbour of each query, all of shape (q,).

    `index` is the lowest pool index at the smallest distance `d1`. `ties` >= 1 is the number of pool rows at
    distance `d1`. `d2` is the second smallest distance. It equals `d1` if `ties` > 1, and is infinite if the
    pool has one row.
    """

    index: Ints  # type: ignore[assignment]  # hides tuple.index
    d1: Floats
    ties: Ints
    d2: Floats


def nearest(
    queries: Array,
    pool: Array,
    k: int,
    *,
    distance: str = "l2",
    exclude: ArrayLike | None = None,
    squared: bool = False,
) -> Nearest:
    """Find the k nearest pool rows of each query.

    Rows are sorted by distance, then by pool index. For l2 the order is that of the sums of squares, and the
    returned distance is their square root (the sum itself with `squared`). `exclude[i]` is a pool row that
    query i must not find, usually itself, or -1. k must not exceed the number of remaining rows.

    Returns:
        `index` int64 (q, k) and `distance` float64 (q, k).

    >>> pool = np.array([[0.0], [2.0], [2.0], [9.0]])
    >>> nearest(np.array([[2.0]]), pool, 2).index
    array([[1, 2]])
    >>> nearest(pool[1:2], pool, 1, exclude=[1]).index
    array([[2]])
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    excluded = None
    if exclude is not None:
        excluded = np.asarray(exclude)
        if excluded.shape != (len(queries),) or excluded.dtype.kind not in "iu":
            found = f"{excluded.dtype} {excluded.shape}"
            raise InputError(f"exclude: expected {len(queries)} integers, one for each query, found {found}")
        if (i := first_outside(excluded, -1, len(pool))) is not None:
            expected = f"expected a pool row below {len(pool)}, or -1"
            raise InputError(f"exclude[{i}] is {excluded[i]}; {expected}")
        excluded = excluded.astype(np.int64)
    rows = len(pool) - int(excluded is not None and bool(np.any(excluded >= 0)))
    if not 1 <= k <= rows:
        raise InputError(f"k is {k}, but a query has {rows} pool rows; choose 1 to {rows}")

    def on_device() -> tuple[Any, Any]:
        from .torch_backend.nearest_scan import nearest

        return nearest(queries, pool, k, distance, excluded)

    row, value = run_on_device(on_device, lambda: _compiled_nearest(queries, pool, k, distance, excluded))
    return Nearest(row, finish(value, distance, squared=squared))


def _compiled_nearest(queries: Any, pool: Any, k: int, distance: str, excluded: Any) -> tuple[Any, Any]:
    from .numba_backend.nearest_scan import expand, select

    scores = TileScores(queries, pool, distance, make_team(queries, pool, distance))
    keep = min(k + int(excluded is not None), len(scores.b))
    value, row = np.empty((len(queries), keep)), np.empty((len(queries), keep), np.int64)
    filled = np.zeros(len(queries), np.int64)

    def visit(tile: Any) -> int:
        return int(select(scores.dtype, scores.row_dtype)(*tile, value, row, filled))

    scores.run(visit, free=4.0 * keep)
    if excluded is None and scores.distinct is None:
        return row, value
    # Expand the best distinct rows to the best pool positions, without the excluded position.
    if scores.distinct is None:
        positions, start = np.arange(len(pool)), np.arange(len(pool) + 1)
    else:
        positions, start = scores.distinct.positions, scores.distinct.start
    skip = np.full(len(row), -1) if excluded is None else excluded
    index, out = np.empty((len(row), k), np.int64), np.empty((len(row), k))
    expand()(value, row, positions, start, skip, index, out)
    return index, out


def first_two(queries: Array, pool: Array, *, distance: str = "l2", squared: bool = False) -> FirstTwo:
    """Find the nearest neighbour of each query, the number of ties, and the second distance; see `FirstTwo`.

    With `squared`, l2 distances are returned as sums of squares.

    >>> first_two(np.array([[0.0]]), np.array([[3.0], [-1.0], [1.0]]))
    FirstTwo(index=array([1]), d1=array([1.]), ties=array([2]), d2=array([1.]))
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    if len(pool) == 0:
        raise InputError("the pool is empty; pass at least one row to find a nearest neighbour")
    i, d1, ties, d2, *_ = run_on_device(
        lambda: _on_device(queries, [pool], distance, False)[0],
        lambda: _compiled_first_two(queries, pool, distance),
    )
    return FirstTwo(i, finish(d1, distance, squared=squared), ties, finish(d2, distance, squared=squared))


def first_two_aligned(
    queries: Array, pools: Sequence[Array], *, distance: str = "l2", squared: bool = False
) -> list[tuple[FirstTwo, Floats]]:
    """Compute `first_two` for several pools, and the distance of query i to row i of each pool, (q,).

    All pools are searched with the same queries. Each pool must have as many rows as there are queries.

    >>> [(near, own)] = first_two_aligned(np.array([[0.0], [5.0]]), [np.array([[4.0], [6.0]])])
    >>> near.index.tolist(), own.tolist()
    ([0, 0], [4.0, 1.0])
    """
    queries, pools = np.asarray(queries), [np.asarray(p) for p in pools]
    if len(queries) == 0 or any(len(p) != len(queries) for p in pools):
        sizes = [len(p) for p in pools]
        raise InputError(f"pools: expected {len(queries)} rows in each, one for each query, found {sizes}")
    rows = np.arange(len(queries))

    def one(i: int, _: int) -> tuple[Any, ...]:
        # Reference values, as in d1 and d2: sums of squares for l2, twice the distance for cosine.
        own = pair_distances(queries, pools[i], rows, rows, distance=distance, squared=distance == "l2")
        own = own * 2.0 if distance == "cosine" else own
        return *_compiled_first_two(queries, pools[i], distance), own

    def compiled() -> list[tuple[Any, ...]]:
        # One thread for each pool: one such kernel is too small to keep several threads busy.
        with one_blas_thread():
            return ThreadTeam().each([(i, i + 1) for i in range(len(pools))], one)

    if len({p.dtype for p in pools}) == 1:
        results = run_on_device(lambda: _on_device(queries, pools, distance, True), compiled)
    else:
        results = compiled()
    out = []
    for i, d1, ties, d2, own in results:
        d1, d2, own = (finish(x, distance, squared=squared) for x in (d1, d2, own))
        out.append((FirstTwo(i, d1, ties, d2), own))
    return out


def _on_device(queries: Any, pools: Sequence[Any], distance: str, aligned: bool) -> list[tuple[Any, ...]]:
    from .torch_backend.nearest_scan import first_two

    return first_two(queries, pools, distance, aligned)


def _compiled_first_two(queries: Any, pool: Any, distance: str) -> tuple[Any, ...]:
    from .numba_backend.nearest_scan import first_two as scan

    n = len(queries)
    d1, d2 = np.full(n, np.inf), np.full(n, np.inf)
    row, ties = np.zeros(n, np.int64), np.zeros(n, np.int64)
    scores = TileScores(queries, pool, distance, make_team(queries, pool, distance))
    distinct = scores.distinct
    copies = np.zeros(0, np.int64) if distinct is None else np.diff(distinct.start)

    def visit(tile: Any) -> int:
        return int(scan(scores.dtype, scores.row_dtype)(*tile, copies, d1, d2, row, ties))

    scores.run(visit, free=8.0)
    return row if distinct is None else distinct.first[row], d1, ties, d2
