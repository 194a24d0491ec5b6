# SPDX-License-Identifier: BSD-3-Clause
"""Counts for one ranked list pooled over all pairs of many rows, without keeping or sorting the list.

A pooled list of 8000 x 40000 pairs has 320 million entries, and its average precision needs for each of the
few right ones only how many others are nearer. Tiles of reference values are sorted in among the values of
the right ones by binary search and dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.errors import InputError
from .ranks import RankCounts

_ROWS, _COLUMNS, _BUCKETS = 64, 4096, 1 << 16


class PooledCounts:
    """How many entries of a pooled list lie below, at, and at and before each right one.

    Entries are pairs with a reference value (squared for l2) and a list position. All entries are added,
    right ones too; `result` takes the right ones out again, so that only wrong ones are counted.

    >>> counts = PooledCounts([4.0, 1.0], [0, 3])
    >>> counts.add_values([0.5, 4.0, 4.0, 1.0], [2, 0, 1, 3])     # two wrong entries, then the right ones
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
            from ._group_loops import bucket_table

            if not np.isfinite(self._value).all():
                raise InputError("a right entry has no finite distance; leave it out and count it as missed")
            self._low = float(self._value[0])
            span = float(self._value[-1]) - self._low
            self._scale = (_BUCKETS - 1) / span if span > 0 else 0.0
            self._table = bucket_table()(self._value, self._low, self._scale, _BUCKETS)

    def _count(self, tile: Any, position: Any, stride: int, sums: Any) -> None:
        from ._group_loops import count_below

        look = (self._value, self._at, self._table, self._low, self._scale)
        count_below()(tile, np.ascontiguousarray(position), stride, *look, *sums)

    def add_values(self, value: ArrayLike, position: ArrayLike) -> None:
        """Add entries one by one: reference values (n,) and list positions (n,)."""
        v = np.ascontiguousarray(value, np.float64).reshape(-1, 1)
        if len(self._value) and len(v):
            self._count(v, np.ascontiguousarray(position, np.int64), 0, self._sums)

    def add_pairs(
        self,
        queries: NDArray[Any],
        pool: NDArray[Any],
        position: ArrayLike,
        *,
        distance: str,
        stride: int = 1,
    ) -> None:
        """Add all pairs of rows; query i and pool row j have list position position[i] + stride * j."""
        from .table import tiler
        from .threads import Team

        if not (len(self._value) and len(queries) and len(pool)):
            return
        a, b, tile_of = tiler(queries, pool, distance)
        at = np.ascontiguousarray(position, np.int64)

        def work(start: int, stop: int) -> NDArray[np.int64]:
            sums = np.zeros_like(self._sums)
            for i in range(start, stop, _ROWS):
                rows = slice(i, min(i + _ROWS, stop))
                for j in range(0, len(b), _COLUMNS):
                    tile = tile_of(a[rows], b[j : j + _COLUMNS])
                    self._count(tile, at[rows] + stride * j, stride, sums)
            return sums

        with Team() as team:
            for sums in team.split(len(a), work, smallest=_ROWS):
                self._sums += sums

    def result(self) -> RankCounts:
        """Wrong entries below, at, and at and before each right one, (n, 1), in the order they were given."""
        n = len(self._value)
        own = PooledCounts.__new__(PooledCounts)
        own.__dict__.update(self.__dict__, _sums=np.zeros_like(self._sums))
        own.add_values(self._value, self._at)
        sums = np.cumsum(self._sums - own._sums, axis=1)[:, :n]
        out = np.empty((3, n), np.int64)
        out[:, self._order] = sums
        return RankCounts(*(row[:, None] for row in out))
