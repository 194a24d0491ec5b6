# SPDX-License-Identifier: BSD-3-Clause
"""Rank counts in pools that do not fit into memory, and in one ranked list over all pairs.

A pooled ranked list of 8000 x 40000 pairs has 320 million entries. Its average precision needs only the
number of nearer entries for each of the few positives. The distances of each tile are therefore located among
those of the positives by binary search, and then discarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .rank_counts import RankCounts, RankTargets, check_targets, counts_on_device, rank_counts
from .torch_backend.device import block_bytes, on_torch, run_on_device

Ints = NDArray[np.int64]
Array = NDArray[Any]

_ROWS, _COLUMNS, _BUCKETS = 64, 4096, 1 << 16
_BLOCK_BYTES = 32 << 20
Part = tuple[int, Array]


def rank_counts_across(
    queries: Array,
    parts: Iterable[Part],
    target_query: ArrayLike,
    target_distance: ArrayLike,
    *,
    query_group: ArrayLike,
    distance: str = "l2",
    squared: bool = False,
) -> RankCounts:
    """Compute `rank_counts` for a pool that is read in parts and is never completely in memory.

    A part is a pair of a group number and rows (n, d). The rows may be memory-mapped or empty, and several
    parts may have the same group. Query i is compared with all rows except those of group query_group[i].
    Target j belongs to query target_query[j] and has distance target_distance[j], as in `rank_counts`. Each
    part is read once. The rows of several parts are processed together in blocks of 32 MiB.

    Returns:
        Counts (t, 1) of pool rows nearer (`lt`) and equally near (`eq`). `eq_before` is zero, because the
        pool has no order.

    >>> parts = [(0, np.array([[1.0], [9.0]])), (1, np.array([[3.0]])), (1, np.array([[2.0], [3.0]]))]
    >>> counts = rank_counts_across(np.array([[0.0]]), iter(parts), [0], [3.0], query_group=[0])
    >>> counts.lt, counts.eq
    (array([[1]]), array([[2]]))
    """
    zeros = np.zeros(np.shape(target_query), np.int64)
    query, target, position = check_targets(target_query, target_distance, zeros, len(queries))
    lt, eq = np.zeros((len(query), 1), np.int64), np.zeros((len(query), 1), np.int64)
    groups = np.asarray(query_group, np.int64)
    order = np.argsort(query, kind="stable")
    for rows, group in _blocks(parts, block_bytes() if on_torch() else _BLOCK_BYTES):
        widths = {r.shape[1:] for r in rows}
        if len(widths) > 1:
            raise InputError(
                f"parts: the rows of a pool must have equal length, found {sorted(widths)}; pass "
                "descriptors of one method"
            )
        limit = np.full((len(queries), 1), len(group))
        given = RankTargets(query[order], target[order], position, False, limit, distance, squared)

        def on_device(rows: Any = rows, group: Any = group, given: Any = given) -> Any:
            column = np.zeros_like(given.limit)
            return counts_on_device(np.asarray(queries), rows, given, groups, group, order, column)

        def compiled(rows: Any = rows, group: Any = group) -> Any:
            pool = rows[0] if len(rows) == 1 else np.concatenate(rows)
            named = {"query_group": groups, "pool_group": group, "distance": distance, "squared": squared}
            return rank_counts(queries, pool, query, target, position, **named)

        counts = run_on_device(on_device, compiled) if len(query) else compiled()
        lt += counts[0]
        eq += counts[1]
    return RankCounts(lt, eq, np.zeros_like(lt))


def _blocks(parts: Iterable[Part], size: int) -> Iterator[tuple[list[Array], Ints]]:
    """Yield blocks that combine the rows of several parts, of at most `size` bytes, and each row's group."""
    rows: list[Array] = []
    group: list[Ints] = []
    held = 0
    for number, part in parts:
        step = max(1, size // max(1, part.itemsize * part.shape[1])) if part.ndim == 2 else 1
        for start in range(0, len(part), step):
            piece = part[start : start + step]
            if rows and held + piece.nbytes > size:
                yield rows, np.concatenate(group)
                rows, group, held = [], [], 0
            rows.append(piece)
            group.append(np.full(len(piece), number, np.int64))
            held += piece.nbytes
    if rows:
        yield rows, np.concatenate(group)


class PooledCounts:
    """Counter of the negatives that precede or tie with each positive in a pooled ranked list.

    Entries of the list are pairs with a distance (squared for l2) and a list position. Add all entries,
    including the positives. `result` subtracts the positives, so that only negatives are counted.

    >>> counts = PooledCounts([4.0, 1.0], [0, 3])
    >>> counts.add_values([0.5, 4.0, 4.0, 1.0], [2, 0, 1, 3])     # two negatives, then the positives
    >>> counts.result().lt[:, 0], counts.result().eq[:, 0]
    (array([1, 1]), array([1, 0]))
    """

    def __init__(self, value: ArrayLike, position: ArrayLike) -> None:
        v, p = np.asarray(value, np.float64), np.asarray(position, np.int64)
        self._order = np.lexsort((p, v))
        self._value, self._at = v[self._order], p[self._order]
        n = len(v)
        self._sums = np.zeros((3, n + 1), np.int64)
        if n:
            from .numba_backend.group_counts import bucket_table

            if not np.isfinite(self._value).all():
                raise InputError(
                    "positives: a distance is not finite; exclude its pair and count it as missed"
                )
            self._low = float(self._value[0])
            span = float(self._value[-1]) - self._low
            self._scale = (_BUCKETS - 1) / span if span > 0 else 0.0
            self._table = bucket_table()(self._value, self._low, self._scale, _BUCKETS)

    def _count(self, tile: Any, position: Any, stride: int, sums: Any) -> None:
        from .numba_backend.group_counts import count_below

        look = (self._value, self._at, self._table, self._low, self._scale)
        count_below()(tile, np.ascontiguousarray(position), stride, *look, *sums)

    def add_values(self, value: ArrayLike, position: ArrayLike) -> None:
        """Add single entries, given by distances (squared for l2) and list positions, (n,) each."""
        v = np.ascontiguousarray(value, np.float64).reshape(-1, 1)
        if len(self._value) and len(v):
            self._count(v, np.ascontiguousarray(position, np.int64), 0, self._sums)

    def add_pairs(
        self, queries: Array, pool: Array, position: ArrayLike, *, distance: str, stride: int = 1
    ) -> None:
        """Add all pairs of rows. Query i and pool row j have the list position position[i] + stride * j."""
        if not (len(self._value) and len(queries) and len(pool)):
            return
        at = np.ascontiguousarray(position, np.int64)
        self._sums += run_on_device(
            lambda: self._on_device(queries, pool, at, distance, stride),
            lambda: self._compiled(queries, pool, at, distance, stride),
        )

    def _on_device(self, queries: Any, pool: Any, at: Any, distance: str, stride: int) -> Ints:
        from .torch_backend.counts import pooled_step_counts

        rows = np.asarray(queries), np.asarray(pool)
        return pooled_step_counts(*rows, at, stride, distance, self._value, self._at)

    def _compiled(self, queries: Any, pool: Any, at: Any, distance: str, stride: int) -> Ints:
        from .pair_distances import tiler
        from .threads import ThreadTeam

        a, b, tile_of = tiler(queries, pool, distance)

        def work(start: int, stop: int) -> Ints:
            sums = np.zeros_like(self._sums)
            for i in range(start, stop, _ROWS):
                rows = slice(i, min(i + _ROWS, stop))
                for j in range(0, len(b), _COLUMNS):
                    tile = tile_of(a[rows], b[j : j + _COLUMNS])
                    self._count(tile, at[rows] + stride * j, stride, sums)
            return sums

        return np.sum(ThreadTeam().split(len(a), work, smallest=_ROWS), axis=0)

    def result(self) -> RankCounts:
        """Return the counts of negatives nearer, equally near, and equally near but earlier, (n, 1) each."""
        n = len(self._value)
        own = PooledCounts.__new__(PooledCounts)
        own.__dict__.update(self.__dict__, _sums=np.zeros_like(self._sums))
        own.add_values(self._value, self._at)
        out = np.empty((3, n), np.int64)
        out[:, self._order] = np.cumsum(self._sums - own._sums, axis=1)[:, :n]
        return RankCounts(*(row[:, None] for row in out))
