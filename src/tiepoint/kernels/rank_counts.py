# SPDX-License-Identifier: BSD-3-Clause
"""Find the ranks of targets in the pools of their queries by counting nearer rows, without sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .duplicate_rows import Members, Slots, number_groups
from .inputs import first_outside
from .tiles import TileScores, make_team
from .torch_backend.device import run_on_device

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Array = NDArray[Any]


class RankCounts(NamedTuple):
    """Counts of pool rows for each of t targets and s limits, int64 (t, s).

    `lt` counts the rows nearer than the target, `eq` the rows equally near, and `eq_before` those of the
    latter at an earlier pool position.
    """

    lt: Ints
    eq: Ints
    eq_before: Ints


def rank_counts(
    queries: Array,
    pool: Array,
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
    """Count pool rows nearer than each target, equally near, and equally near at an earlier position.

    Target j belongs to query target_query[j], has distance target_distance[j] (from `pair_distances`;
    infinite for a failed target) and position target_position[j]. Column s of `limits` (q, s) restricts query
    i to pool positions < limits[i, s]; without limits there is one column for the entire pool. Pool rows
    whose `pool_group` equals the query's `query_group` are skipped. With `target_in_pool` the target's own
    row, at target_position, is skipped too.

    With l2, different sums of squares can have the same rounded square root. By default, targets are
    distances and are compared with the rounded square root of each row's sum. With `squared`, targets are
    sums of squares (`pair_distances_sq`) and are compared with sums, as in `nearest` and `first_two`.

    Returns:
        Counts of shape (t, s).

    >>> pool = np.array([[1.0], [3.0], [3.0], [5.0]])
    >>> rank_counts(np.array([[0.0]]), pool, [0], [3.0], [2])
    RankCounts(lt=array([[1]]), eq=array([[2]]), eq_before=array([[1]]))
    """
    queries, pool = np.asarray(queries), np.asarray(pool)
    if squared and distance != "l2":
        raise InputError(f"squared: squared distances exist for l2 only, found {distance}; omit `squared`")
    query, target, position = check_targets(target_query, target_distance, target_position, len(queries))
    if target_in_pool and (i := first_outside(position, 0, len(pool))) is not None:
        raise InputError(f"target_position[{i}] is {position[i]}, but the pool has {len(pool)} rows")
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
    """Input of a device for `rank_counts`: targets sorted by query, ascending position limits, the distance.

    With `own`, the target's own row is skipped. `squared` is as in `rank_counts`.
    """

    query: Ints
    target: Floats
    position: Ints
    own: bool
    limit: Ints
    distance: str
    squared: bool


def counts_on_device(
    queries: Array,
    pool: Sequence[Array],
    given: RankTargets,
    query_group: Any,
    pool_group: Any,
    order: Ints,
    column: Ints,
) -> Ints:
    """Compute the counts (3, t, s) of `rank_counts` on the torch device. The pool may consist of parts.

    `order` is the original index of each sorted target. `column` (q, s) is the original column of each sorted
    limit.
    """
    from .torch_backend.counts import Targets
    from .torch_backend.counts import rank_counts as count
    from .torch_backend.nearest_scan import DeviceScores

    rows = sum(len(p) for p in pool)
    groups = None
    if query_group is not None or pool_group is not None:
        groups = np.asarray(query_group), np.asarray(pool_group)
        if groups[0].dtype.kind not in "iu" or groups[1].dtype.kind not in "iu":
            groups = number_groups(query_group, pool_group, len(queries), rows)[:2]
        elif groups[0].shape != (len(queries),) or groups[1].shape != (rows,):
            number_groups(query_group, pool_group, len(queries), rows)  # raises
        groups = groups[0].astype(np.int64), groups[1].astype(np.int64)
    scores = DeviceScores(queries, [pool], given.distance)
    value, root = _values(given.target, given.distance, given.squared, scores.exact)
    sorted_targets = (given.query, value, given.position, root, given.own, given.limit)
    return count(scores, Targets(*sorted_targets, order, column), groups)


def _compiled(
    queries: Any, pool: Any, given: RankTargets, order: Any, column: Any, query_group: Any, pool_group: Any
) -> Ints:
    from .numba_backend.rank_counts import ranks

    # Farthest target of a query first: if no row precedes it, none precedes the others; see `ranks`.
    by_distance = np.lexsort((-given.target, given.query))
    query, target, position = given.query[by_distance], given.target[by_distance], given.position[by_distance]
    own, limit, distance, squared = given[3:]
    order = order[by_distance]
    start = np.searchsorted(query, np.arange(len(queries) + 1))
    counts = np.zeros((3, len(query), limit.shape[1]), np.int64)
    scores = TileScores(queries, pool, distance, make_team(queries, pool, distance))
    members = Members(scores.distinct, len(pool), query_group, pool_group, len(queries))
    value, root = _values(target, distance, squared, scores.exact)
    fixed = (start.astype(np.int64), value, root, position, own, limit, column)
    slots: list[Slots] = []

    def on_rows(first: int, stop: int) -> None:
        slots[:] = [members.slots(first, stop)]

    def visit(tile: Any) -> int:
        scan = ranks(scores.dtype, scores.row_dtype)
        return int(scan(*tile, *fixed, *slots[0], *members.lookup, *counts))

    scores.run(visit, free=4.0, targets=len(query) / len(queries), on_rows=on_rows)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return counts[:, back]


def check_targets(
    query: ArrayLike, distance: ArrayLike, position: ArrayLike, queries: int
) -> tuple[Any, Any, Any]:
    """Check queries, distances and positions of targets. Return them as int64, float64 and int64."""
    q, d, p = np.asarray(query), np.asarray(distance, dtype=np.float64), np.asarray(position)
    if q.ndim != 1 or not q.shape == d.shape == p.shape:
        raise InputError(
            f"target_query, target_distance and target_position: found shapes {q.shape}, {d.shape} and "
            f"{p.shape}; pass one-dimensional arrays of equal length"
        )
    if q.size and (q.dtype.kind not in "iu" or p.dtype.kind not in "iu"):
        raise InputError(
            f"target_query and target_position: expected integers, found {q.dtype} and {p.dtype}; convert "
            "them"
        )
    if (i := first_outside(q, 0, queries)) is not None:
        raise InputError(
            f"target_query[{i}] is {q[i]}, but there are {queries} queries; pass a valid query index"
        )
    if not np.all(d >= 0):
        i = int(np.argmin(d >= 0))
        raise InputError(f"target_distance[{i}] is {d[i]}; pass a value >= 0, or infinity for a failure")
    return q.astype(np.int64), d, p.astype(np.int64)


def _limits(limits: ArrayLike | None, queries: int, rows: int) -> tuple[Ints, Ints]:
    """Return the limits of each query in ascending order, and their original columns."""
    if limits is None:
        return np.full((queries, 1), rows), np.zeros((queries, 1), np.int64)
    values = np.asarray(limits)
    if values.ndim != 2 or len(values) != queries or values.dtype.kind not in "iu":
        raise InputError(
            f"limits: expected integers of shape ({queries}, limits per query), found {values.dtype} "
            f"{values.shape}; pass one row per query"
        )
    bounded = np.clip(values, 0, rows).astype(np.int64)
    column = np.argsort(bounded, axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(bounded, column, axis=1)), column


def _values(target: Floats, distance: str, squared: bool, exact: bool) -> tuple[Floats, bool]:
    """Return the targets in the form of reference values, and whether these are square roots.

    A reference value is the number that decides order and ties, e.g. the sum of squares for l2.
    """
    if distance == "cosine":
        return 2.0 * target, False
    if distance != "l2" or squared:
        return target.copy(), False
    if exact:
        # Sums of squares of integers: if every target is the root of one, compare the sums.
        with np.errstate(invalid="ignore"):
            square = np.rint(target * target)
        if np.array_equal(np.sqrt(square), target):
            return square, False
    return target.copy(), True
