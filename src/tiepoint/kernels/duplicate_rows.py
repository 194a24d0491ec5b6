# SPDX-License-Identifier: BSD-3-Clause
"""Find the distinct descriptors of a pool, and the pool positions of each.

Kernels compare each distinct descriptor only once. Otherwise a method with constant descriptors would be the
slowest, because all its distances are tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .threads import ThreadTeam

Ints = NDArray[np.int64]

# With a smaller share of duplicates the bookkeeping costs more than it saves.
WORTH = 0.125


@cache
def fingerprint_keys(width: int) -> NDArray[np.uint64]:
    """Return one odd multiplier for each word of a row, for use in `fingerprints`."""
    keys = np.random.Generator(np.random.PCG64(width)).integers(2**63, size=width, dtype=np.uint64)
    return np.asarray(keys | np.uint64(1))


@dataclass(frozen=True)
class DistinctRows:
    """Distinct rows of a pool, numbered by first appearance, and where each one occurs.

    `row_of[p]` is the index of the distinct row at pool position p. `positions[start[u]:start[u + 1]]` are
    the pool positions of distinct row u, in ascending order.
    """

    row_of: Ints
    positions: Ints
    start: Ints

    @property
    def first(self) -> Ints:
        """First pool position of each distinct row, in ascending order."""
        return self.positions[self.start[:-1]]


def find_distinct(rows: NDArray[Any], team: ThreadTeam) -> DistinctRows | None:
    """Return the distinct rows of a pool, compared bit by bit. None if duplicates are too rare to matter.

    Rows that differ only in the sign of a zero count as distinct. Their distances are equal, so results do
    not change.
    """
    from .numba_backend.row_statistics import fingerprints, same_rows

    words = rows.view(np.uint32 if rows.dtype == np.float32 else np.uint64)
    n = len(words)
    keys = fingerprint_keys(words.shape[1])
    print_of, fill = np.empty(n, np.uint64), fingerprints(words.dtype)
    team.split(n, lambda i, j: fill(words[i:j], keys, print_of[i:j]), smallest=512)
    ordered = np.sort(print_of)
    if np.count_nonzero(ordered[1:] == ordered[:-1]) < WORTH * n:
        return None
    _, first, group = np.unique(print_of, return_index=True, return_inverse=True)
    candidate = first[group]
    same = np.empty(n, np.bool_)
    same_rows(words.dtype)(words, candidate, same)
    # A row with an accidentally equal fingerprint stays distinct.
    candidate = np.where(same, candidate, np.arange(n))
    leaders, row_of = np.unique(candidate, return_inverse=True)
    start = np.zeros(len(leaders) + 1, np.int64)
    np.cumsum(np.bincount(row_of, minlength=len(leaders)), out=start[1:])
    return DistinctRows(row_of.astype(np.int64), np.argsort(row_of, kind="stable"), start)


class Slots(NamedTuple):
    """Pool positions whose rows are in one tile (a block of distinct rows), in ascending order.

    Slot s stands for pool position `position[s]`, whose row is row `row[s]` of the tile. Both arrays are
    empty if there are no duplicates: then position = first row + s. group_slot[group_start[g]:group_start[g +
    1]] are the slots of group g. `query_group` is the group that each query skips, or -1; it is empty if
    there are no groups.
    """

    position: Ints
    row: Ints
    group_slot: Ints
    group_start: Ints
    query_group: Ints


class Lookup(NamedTuple):
    """Pool positions of each distinct row, in total and by group; empty arrays if no row is duplicated.

    `pool_group` is the group of each pool position, empty without groups.
    """

    row_of: Ints
    positions: Ints
    grouped: Ints
    start: Ints
    pool_group: Ints


class Members:
    """Index of the duplicate rows and the groups of a pool, from which tiles take their pool positions."""

    def __init__(
        self,
        distinct: DistinctRows | None,
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
            self._query_group, group, self._groups = number_groups(query_group, pool_group, queries, rows)
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
        """Return the pool positions of the distinct rows first ... stop - 1 as `Slots`."""
        position = row = np.zeros(0, np.int64)
        if self._distinct is None:
            group = self.lookup.pool_group[first:stop]
        else:
            distinct = self._distinct
            position = np.sort(distinct.positions[distinct.start[first] : distinct.start[stop]])
            row = distinct.row_of[position] - first
            group = self.lookup.pool_group[position] if self._groups else position
        if not self._groups:
            return Slots(position, row, position[:0], position[:0], self._query_group)
        order = np.argsort(group, kind="stable")
        start = np.searchsorted(group[order], np.arange(self._groups + 1))
        return Slots(position, row, order, start, self._query_group)


def number_groups(
    query_group: ArrayLike | None, pool_group: ArrayLike | None, queries: int, rows: int
) -> tuple[Ints, Ints, int]:
    """Renumber the groups as 0, 1, ... Return those of queries and pool rows, and the number of groups.

    A query's group that is not in the pool becomes -1.
    """
    if query_group is None or pool_group is None:
        raise InputError("query_group and pool_group: one of them is missing; pass both or none")
    q, p = np.asarray(query_group), np.asarray(pool_group)
    if q.shape != (queries,) or p.shape != (rows,):
        raise InputError(
            f"query_group and pool_group have shapes {q.shape} and {p.shape}; expected one group for each of "
            f"{queries} queries and {rows} pool rows"
        )
    names, group = np.unique(p, return_inverse=True)
    at = np.minimum(np.searchsorted(names, q), max(len(names) - 1, 0))
    return np.where(names[at] == q, at, -1), group.astype(np.int64), len(names)
