# SPDX-License-Identifier: BSD-3-Clause
"""Pooled lists on the same pairs of scenes, whose counts are resampled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.scores import PooledBins

Array = NDArray[np.float64]
_WHOLE = 1 << 24


@dataclass(frozen=True)
class PairGroup:
    """Pairs of scenes of two given strata, all within scenes or all between them.

    `first`, `second` (p,) are scenes, `counts` (bins, p) how many pairs lie in each bin; `strata` are theirs.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    counts: Array
    strata: tuple[int, int]
    within: bool

    @property
    def total(self) -> float:
        """All pairs of the group."""
        return float(self.counts.sum())

    @classmethod
    def stack(cls, parts: Sequence[PairGroup]) -> PairGroup:
        """Groups with the same pairs as one, their bins one below the other."""
        counts = np.concatenate([p.counts for p in parts])
        return cls(parts[0].first, parts[0].second, counts, parts[0].strata, parts[0].within)

    def has_pairs_of(self, other: PairGroup) -> bool:
        """Whether both hold the same pairs, in the same order."""
        same = (self.strata, self.within) == (other.strata, other.within)
        return same and all(
            np.array_equal(*sides) for sides in ((self.first, other.first), (self.second, other.second))
        )

    @cached_property
    def _single(self) -> NDArray[np.float32] | None:
        """The counts in float32, None where it does not hold them."""
        return self.counts.astype(np.float32) if self.counts.max(initial=0) < _WHOLE else None

    def factor(self, factors: Array) -> Array:
        """The weight of a pair for each resample beyond its scene counts, (r,); factors are (strata, r)."""
        one, other = self.strata
        return factors[one] if self.within else factors[one] * factors[other]

    def product(self, scene_counts: NDArray[np.float32]) -> Array:
        """How many pairs lie in each bin when scenes are there as often as counted, (bins, r).

        Float32 holds whole numbers up to 2^24, and no term is negative: if no sum passes that, no partial
        sum did, and the result is exact in any order. Otherwise float64 does it again.
        """
        joint = scene_counts[self.first]
        if not self.within:
            joint *= scene_counts[self.second]
        if self._single is not None:
            found = self._single @ joint
            if found.max(initial=0) < _WHOLE:
                return found.astype(np.float64)
        return self.counts @ joint.astype(np.float64)


def pair_groups(bins: PooledBins, strata: NDArray[np.int64]) -> list[PairGroup]:
    """The negatives of a pooled score by stratum of their scenes, repeated pairs added up.

    Raises:
        InputError: scenes or bins that are not in the table.

    >>> b = PooledBins(("a", "b"), ("i", "i"), np.ones((2, 1)), np.array([[1, 0, 0, 2], [0, 1, 0, 3]]), "ap")
    >>> [g.counts.tolist() for g in pair_groups(b, np.zeros(2, dtype=int))]
    [[[5.0]]]
    """
    n, width = np.asarray(bins.positives).shape
    rows = np.asarray(bins.negatives, dtype=np.int64).reshape(-1, 4)
    if n != len(bins.scenes) or len(bins.kinds) != n:
        raise InputError(
            f"pooled bins: {len(bins.scenes)} scenes, {len(bins.kinds)} kinds, {n} rows of positives"
        )
    if len(rows) and (rows.min() < 0 or rows[:, :2].max() >= n or rows[:, 2].max() >= width):
        raise InputError(
            f"pooled bins: negatives name a scene outside 0…{n - 1} or a bin outside 0…{width - 1}"
        )
    one, other, place, times = np.ascontiguousarray(rows.T)
    code, pair = _distinct(np.minimum(one, other) * n + np.maximum(one, other), n * n)
    summed = np.bincount(pair * width + place, weights=times, minlength=len(code) * width)
    counts = summed.reshape(len(code), width).astype(np.float64)
    first, second = code // n, code % n
    within = first == second
    key = (within * len(strata) + strata[first]) * len(strata) + strata[second]
    groups = []
    for value in np.unique(key):
        at = np.flatnonzero(key == value)
        by_bin = counts[at].T.copy()
        kinds = (int(strata[first[at[0]]]), int(strata[second[at[0]]]))
        groups.append(PairGroup(first[at], second[at], by_bin, kinds, bool(within[at[0]])))
    return groups


def _distinct(code: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers below `limit` that occur, ascending, and the place of each among them."""
    if limit > 16 * len(code) + _WHOLE:
        return np.unique(code, return_inverse=True)
    there = np.bincount(code, minlength=limit) > 0  # counting takes a tenth of the time of sorting
    return np.flatnonzero(there), (np.cumsum(there) - 1)[code]


Use = Callable[[PooledBins, Array, Array], Array]
_BLOCK = 512
_MIN_THREADED_OPS = 1 << 24
"""Multiplications from which on threads share the blocks of resamples, and products keep to their thread."""


@dataclass(frozen=True)
class SceneCounts:
    """How often each scene is there, for r resamples or other choices of scenes.

    `counts` (r, scenes) are whole numbers, `strata` is (scenes,), and `factors` (r, strata) are what the
    counts of a stratum are multiplied by to be weights.
    """

    counts: Array
    strata: NDArray[np.int64]
    factors: Array


@dataclass(frozen=True)
class PairStack:
    """Lists with the same pairs of scenes: the bins of their negatives lie one below the other in `groups`.

    Lists may share their table of negatives. `tables` are, for each, its rows in the groups and its total;
    `table_of` says which one a list has.
    """

    lists: tuple[PooledBins, ...]
    groups: tuple[PairGroup, ...]
    tables: tuple[tuple[slice, float], ...]
    table_of: tuple[int, ...]

    @classmethod
    def of(cls, lists: Sequence[PooledBins], strata: NDArray[np.int64]) -> PairStack:
        """The first list and those of the others that have its pairs."""
        distinct = {id(b.negatives): b for b in lists}
        grouped = {key: pair_groups(b, strata) for key, b in distinct.items()}
        first = grouped[id(lists[0].negatives)]
        same = {key: own for key, own in grouped.items() if _same_pairs(own, first)}
        kept = tuple(b for b in lists if id(b.negatives) in same)
        width = {id(b.negatives): int(np.shape(b.positives)[1]) for b in kept}
        tables, at = [], 0
        for key, own in same.items():
            tables.append((slice(at, at + width[key]), float(sum(g.total for g in own))))
            at += width[key]
        groups = tuple(PairGroup.stack(parts) for parts in zip(*same.values(), strict=True))
        place = {key: i for i, key in enumerate(same)}
        return cls(kept, groups, tuple(tables), tuple(place[id(b.negatives)] for b in kept))

    def each(self, scenes: SceneCounts, use: Use) -> list[Array]:
        """For each list, what `use(list, positives, negatives)` makes of its counts by bin, (r, …).

        Counts are (rows, bins) of a block of rows. All sums are of whole numbers and exact, so that neither
        blocks nor threads nor the other lists change a bit.
        """
        positives = {id(b.positives): _by_stratum(b, scenes) for b in self.lists}

        def block(start: int, stop: int) -> list[Array]:
            c = np.ascontiguousarray(scenes.counts[start:stop].T, dtype=np.float32)
            f = scenes.factors[start:stop].T
            near = {key: _resampled(parts, c, f) for key, parts in positives.items()}
            far = self._negatives(c, f)
            lists = zip(self.lists, self.table_of, strict=True)
            return [use(b, near[id(b.positives)], far[k]) for b, k in lists]

        r = len(scenes.counts)
        parts = [(at, min(at + _BLOCK, r)) for at in range(0, max(r, 1), _BLOCK)]
        made = _shared(parts, block, r * sum(g.counts.size for g in self.groups))
        return [np.concatenate(own) for own in zip(*made, strict=True)]

    def _negatives(self, counts: NDArray[np.float32], factors: Array) -> list[Array]:
        """By table, how many negatives lie in each bin, (r, bins)."""
        q = np.zeros((self.tables[-1][0].stop, counts.shape[1]))
        for g in self.groups:
            q += g.factor(factors) * g.product(counts)
        return [_kept_total(q[rows], total) for rows, total in self.tables]


def _same_pairs(one: Sequence[PairGroup], other: Sequence[PairGroup]) -> bool:
    return len(one) == len(other) and all(a.has_pairs_of(b) for a, b in zip(one, other, strict=True))


_Parts = tuple[list[tuple[NDArray[np.int64], Array]], float]


def _by_stratum(bins: PooledBins, scenes: SceneCounts) -> _Parts:
    """Scenes and positives (bins, scenes) of each stratum, and all positives."""
    every = np.asarray(bins.positives, dtype=np.float64).T
    members = [np.flatnonzero(scenes.strata == h) for h in range(scenes.factors.shape[1])]
    return [(m, np.ascontiguousarray(every[:, m])) for m in members], float(every.sum())


def _resampled(parts: _Parts, counts: NDArray[np.float32], factors: Array) -> Array:
    """How many positives lie in each bin, (r, bins)."""
    strata, total = parts
    p = np.zeros((len(strata[0][1]), counts.shape[1]))
    for h, (members, own) in enumerate(strata):
        p += factors[h] * (own @ counts[members].astype(np.float64))
    return _kept_total(p, total)


def _kept_total(counts: Array, total: float) -> Array:
    """Counts (bins, r) with every list brought back to the total it had, as (r, bins)."""
    counts = np.ascontiguousarray(counts.T)
    now = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(now > 0, counts * (total / now), 0.0)


def _shared(
    parts: Sequence[tuple[int, int]], block: Callable[[int, int], list[Array]], work: int
) -> list[list[Array]]:
    """The blocks, by several threads where there is much to do."""
    if work < _MIN_THREADED_OPS:
        return [block(*part) for part in parts]
    from ..kernels import ThreadTeam, one_blas_thread  # takes longer to import than little work to do

    with one_blas_thread():
        return ThreadTeam().each(parts, block)
