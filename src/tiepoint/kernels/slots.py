# SPDX-License-Identifier: BSD-3-Clause
"""Which pool positions a tile of distinct rows stands for, and which of them a group leaves out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.errors import InputError
from .distinct import Distinct

Whole = NDArray[np.int64]


class Slots(NamedTuple):
    """Pool positions of one tile; empty `position` and `row` where position = first row + slot.

    group_slot[group_start[g]:group_start[g + 1]] are the slots of group g; `query_group` is the group each
    query leaves out, -1 for none, empty without groups.
    """

    position: Whole
    row: Whole
    group_slot: Whole
    group_start: Whole
    query_group: Whole


class Lookup(NamedTuple):
    """Positions of each distinct row, plain and by group; all empty where no rows repeat."""

    row_of: Whole
    positions: Whole
    grouped: Whole
    start: Whole
    pool_group: Whole


class Members:
    """Repeats and groups of a pool."""

    def __init__(
        self,
        distinct: Distinct | None,
        rows: int,
        query_group: ArrayLike | None,
        pool_group: ArrayLike | None,
        queries: int,
    ) -> None:
        empty = np.zeros(0, np.int64)
        self._distinct = distinct
        self._groups = 0
        self._query_group, group = empty, empty
        if query_group is not None or pool_group is not None:
            self._query_group, group, self._groups = _numbered(query_group, pool_group, queries, rows)
        if distinct is None:
            self.lookup = Lookup(empty, empty, empty, empty, group)
            return
        grouped = empty
        if self._groups:
            order = np.lexsort((group[distinct.positions], distinct.row_of[distinct.positions]))
            at = distinct.positions[order]
            grouped = group[at] * rows + at
        self.lookup = Lookup(distinct.row_of, distinct.positions, grouped, distinct.start, group)

    def slots(self, first: int, stop: int) -> Slots:
        """Slots of the distinct rows first ... stop - 1."""
        position = row = np.zeros(0, np.int64)
        if self._distinct is None:
            group = self.lookup.pool_group[first:stop]
        else:
            found = self._distinct
            position = np.sort(found.positions[found.start[first] : found.start[stop]])
            row = found.row_of[position] - first
            group = self.lookup.pool_group[position] if self._groups else position
        if not self._groups:
            return Slots(position, row, position[:0], position[:0], self._query_group)
        order = np.argsort(group, kind="stable")
        start = np.searchsorted(group[order], np.arange(self._groups + 1))
        return Slots(position, row, order, start, self._query_group)


def _numbered(
    query_group: ArrayLike | None, pool_group: ArrayLike | None, queries: int, rows: int
) -> tuple[Whole, Whole, int]:
    """Groups as numbers 0, 1, ...; -1 for a query whose group is not in the pool."""
    if query_group is None or pool_group is None:
        raise InputError("query_group and pool_group go together; give both or neither")
    q, p = np.asarray(query_group), np.asarray(pool_group)
    if q.shape != (queries,) or p.shape != (rows,):
        raise InputError(
            f"query_group {q.shape} and pool_group {p.shape} must name a group for each of the "
            f"{queries} queries and {rows} pool rows"
        )
    names, group = np.unique(p, return_inverse=True)
    at = np.minimum(np.searchsorted(names, q), max(len(names) - 1, 0))
    return np.where(names[at] == q, at, -1), group.astype(np.int64), len(names)
