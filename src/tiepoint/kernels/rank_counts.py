# SPDX-License-Identifier: BSD-3-Clause
"""Where given targets stand in the ranked pools of their queries, without ranking the pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .duplicate_rows import Members, Slots, number_groups
from .tiles import TileScores, make_team
from .torch_backend.device import run_on_device


class RankCounts(NamedTuple):
    """For each target and limit, int64 (t, s): pool rows nearer, equal, equal and at an earlier position."""

    lt: NDArray[np.int64]
    eq: NDArray[np.int64]
    eq_before: NDArray[np.int64]


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
    """Pool rows nearer to the query than each target, as near, and as near at an earlier position; (t, s).

    Target j belongs to query target_query[j], lies at target_distance[j] (as `pair_distances` returns it;
    infinite for a failed target) and stands at position target_position[j]. Column s of `limits` (q, s)
    restricts query i to pool positions < limits[i, s]; without limits there is one column, the whole pool.
    Rows whose `pool_group` equals the query's `query_group` are left out, and with `target_in_pool` the
    target's own row, the one at target_position, is too.

    The trap: with l2, square roots can merge different sums of squares. Targets given as distances are
    compared with the rounded square root of each row's sum; with `squared`, targets are sums of squares
    (`pair_distances_sq`) and so is the comparison, as in `nearest` and `first_two`.

    >>> pool = np.array([[1.0], [3.0], [3.0], [5.0]])
    >>> rank_counts(np.array([[0.0]]), pool, [0], [3.0], [2])
    RankCounts(lt=array([[1]]), eq=array([[2]]), eq_before=array([[1]]))
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    if squared and distance != "l2":
        raise InputError(f"squared distances exist for l2 only, found {distance}")
    query, target, position = given_targets(target_query, target_distance, target_position, len(queries))
    if target_in_pool and len(position) and (position.min() < 0 or position.max() >= len(pool)):
        where = int(np.argmax((position < 0) | (position >= len(pool))))
        raise InputError(f"target_position[{where}] is {position[where]}; the pool has {len(pool)} rows")
    limit, column = _limits(limits, len(queries), len(pool))
    order = np.argsort(query, kind="stable")
    given = RankTargets(
        query[order], target[order], position[order], target_in_pool, limit, distance, squared
    )
    counts = np.zeros((3, len(query), limit.shape[1]), np.int64)
    if len(pool) and len(query):
        counts = run_on_device(
            lambda: counts_on_device(queries, [pool], given, query_group, pool_group, order, column),
            lambda: _compiled(queries, pool, given, order, column, query_group, pool_group),
        )
    return RankCounts(*counts)


class RankTargets(NamedTuple):
    """Targets sorted by query, and what they are counted against."""

    query: NDArray[np.int64]
    target: NDArray[np.float64]
    position: NDArray[np.int64]
    own: bool
    limit: NDArray[np.int64]
    distance: str
    squared: bool


def counts_on_device(
    queries: NDArray[Any],
    pool: Sequence[NDArray[Any]],
    given: RankTargets,
    query_group: Any,
    pool_group: Any,
    order: NDArray[np.int64],
    column: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Counts (3, t, s) on the torch device; the pool may be in parts.

    `order` says where each sorted target came from, `column` (q, s) where each sorted limit did.
    """
    from .torch_backend.counts import Targets
    from .torch_backend.counts import rank_counts as count
    from .torch_backend.nearest_scan import DeviceScores as TorchScores

    rows = sum(len(p) for p in pool)
    groups = None
    if query_group is not None or pool_group is not None:
        groups = np.asarray(query_group), np.asarray(pool_group)
        if groups[0].dtype.kind not in "iu" or groups[1].dtype.kind not in "iu":
            groups = number_groups(query_group, pool_group, len(queries), rows)[:2]
        elif groups[0].shape != (len(queries),) or groups[1].shape != (rows,):
            number_groups(query_group, pool_group, len(queries), rows)
        groups = groups[0].astype(np.int64), groups[1].astype(np.int64)
    scores = TorchScores(queries, [pool], given.distance)
    value, root = _values(given.target, given.distance, given.squared, scores.exact)
    sorted_targets = (given.query, value, given.position, root, given.own, given.limit)
    targets = Targets(*sorted_targets, order, column)
    return count(scores, targets, groups)


def _compiled(
    queries: Any, pool: Any, given: RankTargets, order: Any, column: Any, query_group: Any, pool_group: Any
) -> NDArray[np.int64]:
    # The farthest target of a query first: where it has nothing before it, no other has; see `_ranks`.
    again = np.lexsort((-given.target, given.query))
    query, target, position = given.query[again], given.target[again], given.position[again]
    own, limit, distance, squared = given[3:]
    order = order[again]
    start = np.searchsorted(query, np.arange(len(queries) + 1))
    counts = np.zeros((3, len(query), limit.shape[1]), np.int64)
    with make_team(queries, pool, distance) as team:
        scores = TileScores(queries, pool, distance, team)
        members = Members(scores.distinct, len(pool), query_group, pool_group, len(queries))
        value, root = _values(target, distance, squared, scores.exact)
        fixed = (start.astype(np.int64), value, root, position, own, limit, column)
        slots: list[Slots] = []

        def on_rows(first: int, stop: int) -> None:
            slots[:] = [members.slots(first, stop)]

        def visit(tile: Any) -> int:
            from .numba_backend.rank_counts import ranks

            scan = ranks(scores.dtype, scores.row_dtype)
            return int(scan(*tile, *fixed, *slots[0], *members.lookup, *counts))

        scores.run(visit, free=4.0, targets=len(query) / len(queries), on_rows=on_rows)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return counts[:, back]


def given_targets(
    query: ArrayLike, distance: ArrayLike, position: ArrayLike, queries: int
) -> tuple[Any, Any, Any]:
    """Targets as whole and real numbers, checked."""
    q, d, p = np.asarray(query), np.asarray(distance, dtype=np.float64), np.asarray(position)
    if q.ndim != 1 or not q.shape == d.shape == p.shape:
        raise InputError(
            f"target_query {q.shape}, target_distance {d.shape} and target_position {p.shape} "
            "must be three lists of equal length"
        )
    if q.size and (q.dtype.kind not in "iu" or p.dtype.kind not in "iu"):
        raise InputError(f"target_query and target_position must be integers, found {q.dtype} and {p.dtype}")
    if q.size and (q.min() < 0 or q.max() >= queries):
        where = int(np.argmax((q < 0) | (q >= queries)))
        raise InputError(f"target_query[{where}] is {q[where]}, but there are {queries} queries")
    if not np.all(d >= 0):
        where = int(np.argmin(d >= 0))
        raise InputError(f"target_distance[{where}] is {d[where]}; expected >= 0, infinite for a failure")
    return q.astype(np.int64), d, p.astype(np.int64)


def _limits(limits: ArrayLike | None, queries: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Limits of each query in ascending order, and the columns they came from."""
    if limits is None:
        return np.full((queries, 1), rows), np.zeros((queries, 1), np.int64)
    found = np.asarray(limits)
    if found.ndim != 2 or len(found) != queries or found.dtype.kind not in "iu":
        raise InputError(f"limits must be integers ({queries}, s), found {found.dtype} {found.shape}")
    bounded = np.clip(found, 0, rows).astype(np.int64)
    column = np.argsort(bounded, axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(bounded, column, axis=1)), column


def _values(
    target: NDArray[np.float64], distance: str, squared: bool, exact: bool
) -> tuple[NDArray[np.float64], bool]:
    """Targets in the domain of the comparison, and whether that is the square root of the value."""
    if distance == "cosine":
        return 2.0 * target, False
    if distance != "l2" or squared:
        return target.copy(), False
    if exact:
        # Sums of squares of whole numbers: where every target is the root of one, compare the sums.
        with np.errstate(invalid="ignore"):
            square = np.rint(target * target)
        if np.array_equal(np.sqrt(square), target):
            return square, False
    return target.copy(), True
