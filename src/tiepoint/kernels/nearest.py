# SPDX-License-Identifier: BSD-3-Clause
"""Nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .pair_distances import finish, pair_distances
from .threads import ThreadTeam, one_blas_thread
from .tiles import TileScores, make_team
from .torch_backend.device import run_on_device


class Nearest(NamedTuple):
    """`index` int64 (q, k) and `distance` float64 (q, k), each row sorted by (distance, pool index)."""

    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    distance: NDArray[np.float64]


class FirstTwo(NamedTuple):
    """First and second neighbour of each query, all of shape (q,).

    `index` is the lowest pool index at the smallest distance `d1`; `ties` >= 1 counts the pool rows at it;
    `d2` is the second smallest distance, equal to `d1` when tied and infinite in a pool of one row.
    """

    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    d1: NDArray[np.float64]
    ties: NDArray[np.int64]
    d2: NDArray[np.float64]


def nearest(
    queries: NDArray[Any],
    pool: NDArray[Any],
    k: int,
    *,
    distance: str = "l2",
    exclude: ArrayLike | None = None,
    squared: bool = False,
) -> Nearest:
    """The k nearest pool rows of each query: `index` int64 (q, k), `distance` float64 (q, k).

    Sorted by (reference value, pool index); for l2 the reference value is the sum of squares, of which the
    returned distance is the square root (or itself, with `squared`). `exclude[i]` is a pool row that query i
    must not find, usually itself, or -1. k must not exceed the rows on offer.

    >>> pool = np.array([[0.0], [2.0], [2.0], [9.0]])
    >>> nearest(np.array([[2.0]]), pool, 2).index
    array([[1, 2]])
    >>> nearest(pool[1:2], pool, 1, exclude=[1]).index
    array([[2]])
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    left_out = _excluded(exclude, len(queries), len(pool))
    rows = len(pool) - int(left_out is not None and bool(np.any(left_out >= 0)))
    if not 1 <= k <= rows:
        raise InputError(f"k is {k}, but the pool offers {rows} rows to a query; k must be 1 to {rows}")
    row, value = run_on_device(
        lambda: _torch_nearest(queries, pool, k, distance, left_out),
        lambda: _compiled_nearest(queries, pool, k, distance, left_out),
    )
    return Nearest(row, finish(value, distance, squared=squared))


def _torch_nearest(queries: Any, pool: Any, k: int, distance: str, left_out: Any) -> tuple[Any, Any]:
    from .torch_backend.nearest_scan import nearest

    return nearest(queries, pool, k, distance, left_out)


def _compiled_nearest(queries: Any, pool: Any, k: int, distance: str, left_out: Any) -> tuple[Any, Any]:
    with make_team(queries, pool, distance) as team:
        scores = TileScores(queries, pool, distance, team)
        keep = min(k + int(left_out is not None), len(scores.b))
        value, row = np.empty((len(queries), keep)), np.empty((len(queries), keep), np.int64)
        filled = np.zeros(len(queries), np.int64)

        def visit(tile: Any) -> int:
            from .numba_backend.nearest_scan import select

            return int(select(scores.dtype, scores.row_dtype)(*tile, value, row, filled))

        scores.run(visit, free=4.0 * keep)
    if left_out is not None or scores.distinct is not None:
        row, value = _expand(scores, value, row, left_out, k, len(pool))
    return row, value


def first_two(
    queries: NDArray[Any], pool: NDArray[Any], *, distance: str = "l2", squared: bool = False
) -> FirstTwo:
    """First neighbour of each query, how many pool rows tie for it, and the second distance; all (q,).

    `index` is the lowest pool index among the `ties` rows at the smallest reference value; `d2` equals `d1`
    when there are ties, and is infinite where the pool has one row.

    >>> first_two(np.array([[0.0]]), np.array([[3.0], [-1.0], [1.0]]))
    FirstTwo(index=array([1]), d1=array([1.]), ties=array([2]), d2=array([1.]))
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    if len(pool) == 0:
        raise InputError("the pool is empty; a nearest neighbour needs at least one row")
    i, d1, ties, d2, *_ = run_on_device(
        lambda: _on_device(queries, [pool], distance, False)[0],
        lambda: _compiled_first_two(queries, pool, distance),
    )
    return FirstTwo(i, finish(d1, distance, squared=squared), ties, finish(d2, distance, squared=squared))


def first_two_aligned(
    queries: NDArray[Any], pools: Sequence[NDArray[Any]], *, distance: str = "l2", squared: bool = False
) -> list[tuple[FirstTwo, NDArray[np.float64]]]:
    """`first_two` of the same queries in several pools, and the distance of query i to row i of each.

    The pools have as many rows as there are queries.

    >>> [(near, own)] = first_two_aligned(np.array([[0.0], [5.0]]), [np.array([[4.0], [6.0]])])
    >>> near.index.tolist(), own.tolist()
    ([0, 0], [4.0, 1.0])
    """
    queries, pools = np.asarray(queries), [np.asarray(p) for p in pools]
    if len(queries) == 0 or any(len(p) != len(queries) for p in pools):
        found = [len(p) for p in pools]
        raise InputError(f"pools must have a row for each of the {len(queries)} queries, found {found}")
    rows = np.arange(len(queries))

    def one(i: int, _: int) -> tuple[Any, ...]:
        # Values that decide ties, as the others are: of l2 the sums, of cosine twice the distance.
        own = pair_distances(queries, pools[i], rows, rows, distance=distance, squared=distance == "l2")
        own = own * 2.0 if distance == "cosine" else own
        return *_compiled_first_two(queries, pools[i], distance), own

    def compiled() -> list[tuple[Any, ...]]:
        # Pool by pool on threads of their own: a kernel alone cannot keep several busy with so little.
        with ThreadTeam() as team, one_blas_thread():
            return team.each([(i, i + 1) for i in range(len(pools))], one)

    if len({p.dtype for p in pools}) == 1:
        made = run_on_device(lambda: _on_device(queries, pools, distance, True), compiled)
    else:
        made = compiled()
    out = []
    for i, d1, ties, d2, own in made:
        d1, d2, own = (finish(x, distance, squared=squared) for x in (d1, d2, own))
        out.append((FirstTwo(i, d1, ties, d2), own))
    return out


def _on_device(queries: Any, pools: Sequence[Any], distance: str, aligned: bool) -> list[tuple[Any, ...]]:
    from .torch_backend.nearest_scan import first_two

    return first_two(queries, pools, distance, aligned)


def _compiled_first_two(queries: Any, pool: Any, distance: str) -> tuple[Any, ...]:
    n = len(queries)
    d1, d2 = np.full(n, np.inf), np.full(n, np.inf)
    row, ties = np.zeros(n, np.int64), np.zeros(n, np.int64)
    with make_team(queries, pool, distance) as team:
        scores = TileScores(queries, pool, distance, team)
        found = scores.distinct
        copies = np.zeros(0, np.int64) if found is None else np.diff(found.start)

        def visit(tile: Any) -> int:
            from .numba_backend.nearest_scan import first_two as scan

            return int(scan(scores.dtype, scores.row_dtype)(*tile, copies, d1, d2, row, ties))

        scores.run(visit, free=8.0)
    return row if found is None else found.first[row], d1, ties, d2


def _excluded(exclude: ArrayLike | None, queries: int, rows: int) -> NDArray[np.int64] | None:
    if exclude is None:
        return None
    found = np.asarray(exclude)
    if found.shape != (queries,) or found.dtype.kind not in "iu":
        raise InputError(f"exclude must be {queries} integers, found {found.dtype} {found.shape}")
    if found.size and (found.min() < -1 or found.max() >= rows):
        where = int(np.argmax((found < -1) | (found >= rows)))
        raise InputError(f"exclude[{where}] is {found[where]}; expected a pool row below {rows}, or -1")
    return found.astype(np.int64)


def _expand(
    scores: TileScores, value: Any, row: Any, left_out: NDArray[np.int64] | None, k: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """From the best distinct rows to the best pool positions, without the excluded one."""
    from .numba_backend.nearest_scan import expand

    if scores.distinct is None:
        positions, start = np.arange(rows), np.arange(rows + 1)
    else:
        positions, start = scores.distinct.positions, scores.distinct.start
    skip = np.full(len(row), -1) if left_out is None else left_out
    index, out = np.empty((len(row), k), np.int64), np.empty((len(row), k))
    expand()(value, row, positions, start, skip, index, out)
    return index, out
