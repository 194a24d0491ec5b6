# SPDX-License-Identifier: BSD-3-Clause
"""Repeated rows of a pool, collapsed to one: a constant descriptor must not be the slowest of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .threads import Team

# Below this share of repeats the bookkeeping costs more than the rows it saves.
_WORTH = 0.125


@dataclass(frozen=True)
class Distinct:
    """The distinct rows of a pool, numbered by first appearance.

    `row_of[p]` is the distinct row at pool position p; `positions[start[u]:start[u + 1]]` are the pool
    positions of distinct row u, ascending.
    """

    row_of: NDArray[np.int64]
    positions: NDArray[np.int64]
    start: NDArray[np.int64]

    @property
    def first(self) -> NDArray[np.int64]:
        """First position of each distinct row, ascending."""
        return self.positions[self.start[:-1]]


def find_distinct(rows: NDArray[Any], team: Team) -> Distinct | None:
    """Collapse rows of equal bits; None where too few repeat to be worth it.

    Two rows that differ only in the sign of a zero stay two rows: they are equally far from everything, and
    nothing but time depends on collapsing.
    """
    from ._survey import fingerprints, same_rows

    words = rows.view(np.uint32 if rows.dtype == np.float32 else np.uint64)
    n = len(words)
    keys = np.random.Generator(np.random.PCG64(words.shape[1])).integers(
        2**63, size=words.shape[1], dtype=np.uint64
    )
    keys |= np.uint64(1)
    print_of, fill = np.empty(n, np.uint64), fingerprints(words.dtype)
    team.split(n, lambda i, j: fill(words[i:j], keys, print_of[i:j]), smallest=512)
    ordered = np.sort(print_of)
    if np.count_nonzero(ordered[1:] == ordered[:-1]) < _WORTH * n:
        return None
    _, first, group = np.unique(print_of, return_index=True, return_inverse=True)
    candidate = first[group]
    same = np.empty(n, np.bool_)
    same_rows(words.dtype)(words, candidate, same)
    # A row that shares a fingerprint by accident stands for itself.
    candidate = np.where(same, candidate, np.arange(n))
    leaders, row_of = np.unique(candidate, return_inverse=True)
    start = np.zeros(len(leaders) + 1, np.int64)
    np.cumsum(np.bincount(row_of, minlength=len(leaders)), out=start[1:])
    return Distinct(row_of.astype(np.int64), np.argsort(row_of, kind="stable"), start)
