# SPDX-License-Identifier: BSD-3-Clause
"""Rank counts between groups of rows. The distance of two groups is the distance of their nearest rows.

Several descriptors may belong to one location, e.g. a keypoint with two orientations. The location is then
one group and counts once, with its smallest distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import tiles
from .duplicate_rows import find_distinct
from .error_bound import FLOAT32_UNIT, FLOAT64_UNIT
from .rank_counts import RankCounts, rank_counts
from .tiles import TileScores, make_team
from .torch_backend.device import run_on_device

Ints = NDArray[np.int64]
_BLOCK = 64


def group_rows(of: ArrayLike, valid: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Sort the valid rows by group.

    Return the row order, the non-empty groups and the start of each (g + 1,).

    >>> group_rows([1, 0, 1, 2], [True, True, True, False])
    (array([1, 0, 2]), array([0, 1]), array([0, 1, 3]))
    """
    group = np.asarray(of, np.int64)
    rows = np.flatnonzero(np.asarray(valid, bool))
    rows = rows[np.argsort(group[rows], kind="stable")]
    names, first = np.unique(group[rows], return_index=True)
    return rows, names, np.append(first, len(rows)).astype(np.int64)


def group_rank_counts(
    queries: NDArray[Any],
    query_start: Ints,
    pool: NDArray[Any],
    pool_start: Ints,
    pool_position: Ints,
    target_query: Ints,
    target_value: NDArray[np.float64],
    *,
    distance: str,
    limits: Ints,
) -> RankCounts:
    """Count the pool groups that are nearer than each target, and the groups that are equally near.

    Args:
        queries: rows of the query groups, sorted by group. Group g has the rows query_start[g] to
            query_start[g + 1] - 1, at least one.
        query_start: (g + 1,) start of each query group.
        pool: rows of the pool groups, sorted by group like `queries`.
        pool_start: (p + 1,) start of each pool group.
        pool_position: (p,) list position of each pool group.
        target_query: (t,) query group of each target, non-decreasing.
        target_value: (t,) reference value of the target: squared for l2, else the distance.
        distance: l2, l1, hamming, cosine or masked_l1.
        limits: (g, s). Column k of the result counts pool groups at positions < limits[group, k].

    Returns:
        RankCounts of shape (t, s); `eq_before` is zero, because positions are not a file order. A target that
        is itself in the pool is counted in `eq`.
    """
    lt = np.zeros((len(target_query), limits.shape[1]), np.int64)
    eq = np.zeros_like(lt)
    if len(target_query) and len(pool_start) > 1:
        sides = (np.asarray(queries), query_start, np.asarray(pool), pool_start, pool_position)
        targets = (target_query, target_value, distance, limits)
        lt, eq = run_on_device(lambda: _by_rows(*sides, *targets), lambda: _by_tiles(*sides, *targets))
    return RankCounts(lt, eq, np.zeros_like(lt))


def _by_tiles(
    queries: Any, query_start: Any, pool: Any, pool_start: Any, pool_position: Any, target_query: Any,
    target_value: Any, distance: str, limits: Any,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Compute `group_rank_counts` from matrix products, tile by tile. Return the counts `lt` and `eq`.

    The score of a pool group is the score of its nearest row.
    """
    from .numba_backend.group_counts import group_ranks

    used = np.unique(target_query)
    size = np.diff(query_start)[used]
    start = np.append(0, np.cumsum(size)).astype(np.int64)
    rows = queries if len(used) == len(query_start) - 1 else queries[_expand(query_start[:-1][used], size)]
    layout = _Layout(pool_start, pool_position)
    # `group_ranks` requires the farthest target of a group first.
    order = np.lexsort((-target_value, target_query))
    first = np.searchsorted(target_query[order], np.append(used, len(query_start))).astype(np.int64)
    value = np.ascontiguousarray(target_value[order] * (2.0 if distance == "cosine" else 1.0), np.float64)
    bounds = np.searchsorted(np.sort(pool_position), limits[used], side="left").astype(np.int64)
    counts = np.zeros((2, len(value), limits.shape[1]), np.int64)
    team = make_team(rows, pool, distance)
    scores = TileScores(rows, pool[layout.rows], distance, team, collapse=False)
    repeated = find_distinct(scores.b, team)
    same = np.zeros(0, np.int64) if repeated is None else repeated.row_of
    block: list[Any] = []
    cached: list[Any] = [None, None]

    def on_rows(u: int, _: int) -> None:
        block[:] = layout.block_at[u]

    def visit(tile: Any) -> int:
        key = (scores.largest, scores.dtype)
        if cached[0] != key:
            cached[:] = [key, _slack(scores)]
        group = int(np.searchsorted(start, tile.first_query))
        state = (start, group, first, value, *cached[1], bounds)
        count = group_ranks(scores.dtype, scores.row_dtype)
        return int(count(*tile, *state, *block, same, *counts))

    targets = len(value) / len(used)
    scores.run(visit, free=8.0, targets=targets, on_rows=on_rows, blocks=layout.blocks, cuts=start)
    back = np.empty((2, *counts.shape[1:]), np.int64)
    back[:, order] = counts
    return back[0], back[1]


def _slack(scores: TileScores) -> tuple[NDArray[np.float64], bool]:
    """Return a bound (q,) on the rounding error of score plus offset, and whether the sum is exact.

    The offset is A^2/2, where A is the norm of the query and B that of the pool row; u is the unit roundoff.
    Rounding the offset has an error of at most u A^2/2. Its sum with a score is rounded too, and the score is
    at most B^2/2 + (1 + g) A B (see `ambiguity_band`). Both errors together are below 2 u (A + B)^2. If all
    values are integers, the sum is half of a squared distance, which is exact in float32 up to 2^23.
    """
    if scores.kind != "l2":
        return np.zeros(len(scores.a)), True
    bound = (scores.norm + scores.largest) ** 2
    if scores.exact:
        return np.ones(len(bound)), bool(0.5 * bound.max() <= 2.0**23)
    unit = FLOAT32_UNIT if scores.dtype == np.float32 else FLOAT64_UNIT
    return 2.0 * unit * (1.0 + 1e-9) * bound + 2.0**-120, False


class _Layout:
    """Order of the pool rows for `_by_tiles`: groups sorted by position and split into blocks.

    A block contains the first row of each group, and then the other rows, group by group. `block_at[u]`
    describes the block that starts at row u: the number of its groups, the number of groups in earlier
    blocks, where the other rows of each group start, and the group of each of the other rows.
    """

    def __init__(self, pool_start: Ints, position: Ints) -> None:
        order = np.argsort(position, kind="stable")
        size = np.diff(pool_start)[order]
        ends = np.cumsum(size)
        rows, self.blocks, self.block_at = [], [], {}
        g, at = 0, 0
        while g < len(order):
            stop = max(g + 1, int(np.searchsorted(ends, at + tiles.TILE_COLUMNS, side="right")))
            lead, more = pool_start[:-1][order[g:stop]], size[g:stop] - 1
            rows += [lead, _expand(lead + 1, more)]
            extra = np.append(0, np.cumsum(more)).astype(np.int64)
            self.block_at[at] = (stop - g, g, extra, np.repeat(np.arange(stop - g), more))
            self.blocks.append((at, int(ends[stop - 1])))
            g, at = stop, int(ends[stop - 1])
        self.rows = np.concatenate(rows)


def _by_rows(
    queries: Any, query_start: Any, pool: Any, pool_start: Any, pool_position: Any, target_query: Any,
    target_value: Any, distance: str, limits: Any,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Compute `group_rank_counts` with `rank_counts`, for devices without code for groups.

    `rank_counts` compares single rows. It counts the pairs of groups that have one row each, which are nearly
    all. The other pairs are evaluated one by one.
    """
    lt = np.zeros((len(target_query), limits.shape[1]), np.int64)
    eq = np.zeros_like(lt)
    one_query, one_pool = np.diff(query_start) == 1, np.diff(pool_start) == 1
    easy = one_query[target_query]
    if easy.any() and one_pool.any():
        chosen = np.unique(target_query[easy])
        rank = np.zeros(len(one_query), np.int64)
        rank[chosen] = np.arange(len(chosen))
        order = np.argsort(pool_position[one_pool], kind="stable")
        rows = pool_start[:-1][one_pool][order]
        bounds = np.searchsorted(pool_position[one_pool][order], limits[chosen], side="left")
        counts = rank_counts(
            queries[query_start[:-1][chosen]],
            pool[rows],
            rank[target_query[easy]],
            target_value[easy],
            np.zeros(int(easy.sum()), np.int64),
            distance=distance,
            limits=bounds,
            squared=distance == "l2",
        )
        lt[easy] += counts.lt
        eq[easy] += counts.eq
    _direct(queries, query_start, pool, pool_start, pool_position, target_query, target_value, distance,
            limits, one_query, one_pool, lt, eq)  # fmt: skip
    return lt, eq


def _direct(
    queries: Any, query_start: Any, pool: Any, pool_start: Any, position: Any, target_query: Any,
    target_value: Any, distance: str, limits: Any, one_query: Any, one_pool: Any, lt: Any, eq: Any,
) -> None:  # fmt: skip
    """Add the counts of pairs of groups in which at least one group has several rows to `lt` and `eq`."""
    from .numba_backend.group_counts import count_groups
    from .pair_distances import tiler
    from .threads import ThreadTeam

    a, b, tile_of = tiler(queries, pool, distance)
    count = count_groups()
    value, bounds = np.ascontiguousarray(target_value, np.float64), np.ascontiguousarray(limits, np.int64)
    first = np.searchsorted(target_query, np.arange(len(query_start)))
    used = np.diff(first) > 0
    for single in (True, False):
        groups = np.flatnonzero(used & (one_query == single))
        # `rank_counts` already counted the pairs of groups with one row each.
        chosen = np.flatnonzero(~one_pool) if single else np.arange(len(one_pool))
        if len(groups) == 0 or len(chosen) == 0:
            continue
        size = np.diff(pool_start)[chosen]
        rows = _expand(pool_start[:-1][chosen], size)
        part_b = np.ascontiguousarray(b[rows])
        start_b = np.append(0, np.cumsum(size))

        at = np.ascontiguousarray(position[chosen], np.int64)

        def work(
            i: int, j: int, groups: Any = groups, place: Any = at, b: Any = part_b, s: Any = start_b
        ) -> None:
            for k in range(i, j, _BLOCK):
                block = groups[k : min(k + _BLOCK, j)]
                size_a = np.diff(query_start)[block]
                part_a = np.ascontiguousarray(a[_expand(query_start[:-1][block], size_a)])
                start_a = np.append(0, np.cumsum(size_a))
                tile = tile_of(part_a, b)
                count(tile, start_a, s, place, block, first, value, bounds, lt, eq)

        ThreadTeam().split(len(groups), work, smallest=_BLOCK)


def _expand(start: Ints, size: Ints) -> Ints:
    """Return the concatenated ranges start[i], start[i] + 1, … start[i] + size[i] - 1."""
    return np.repeat(start - np.append(0, np.cumsum(size))[:-1], size) + np.arange(size.sum())
