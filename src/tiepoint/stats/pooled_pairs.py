# SPDX-License-Identifier: BSD-3-Clause
"""Pooled lists on the same pairs of scenes, resampled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.scores import PooledBins

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
_FLOAT32_INTEGERS = 1 << 24


@dataclass(frozen=True)
class PairGroup:
    """Pairs of scenes of two given strata, all within scenes or all between them.

    `first`, `second` (p,) are the scenes, `counts` (bins, p) the pairs in each bin, `strata` those of the
    scenes.
    """

    first: Ints
    second: Ints
    counts: Array
    strata: tuple[int, int]
    within: bool

    @property
    def total(self) -> float:
        """Number of pairs in the group."""
        return float(self.counts.sum())

    @classmethod
    def stack(cls, parts: Sequence[PairGroup]) -> PairGroup:
        """Stack the bins of groups with the same pairs."""
        counts = np.concatenate([p.counts for p in parts])
        return cls(parts[0].first, parts[0].second, counts, parts[0].strata, parts[0].within)

    def has_pairs_of(self, other: PairGroup) -> bool:
        """Return whether both hold the same pairs in the same order."""
        same = (self.strata, self.within) == (other.strata, other.within)
        return same and all(
            np.array_equal(*sides) for sides in ((self.first, other.first), (self.second, other.second))
        )

    @cached_property
    def _single(self) -> NDArray[np.float32] | None:
        """Counts in float32; None if it cannot represent them."""
        return self.counts.astype(np.float32) if self.counts.max(initial=0) < _FLOAT32_INTEGERS else None

    def factor(self, factors: Array) -> Array:
        """Return the weight of a pair beyond its scene counts, (r,) per resample; factors are (strata, r)."""
        one, other = self.strata
        return factors[one] if self.within else factors[one] * factors[other]

    def product(self, scene_counts: NDArray[np.float32]) -> Array:
        """Count the pairs in each bin under scene counts, (bins, r).

        Float32 represents integers up to 2^24, and no term is negative: if no sum exceeds that, no partial
        sum did, and the result is exact in any order. Otherwise the product is repeated in float64.
        """
        joint = scene_counts[self.first]
        if not self.within:
            joint *= scene_counts[self.second]
        if self._single is not None:
            product = self._single @ joint
            if product.max(initial=0) < _FLOAT32_INTEGERS:
                return product.astype(np.float64)
        return self.counts @ joint.astype(np.float64)


def pair_groups(bins: PooledBins, strata: Ints) -> list[PairGroup]:
    """Group the negatives of a pooled score by stratum of their scenes, and add up repeated pairs.

    Raises:
        InputError: a scene or bin is not in the table.

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
            f"pooled bins: negatives with a scene outside 0…{n - 1} or a bin outside 0…{width - 1}"
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


def _distinct(code: Ints, limit: int) -> tuple[Ints, Ints]:
    """Return the numbers below `limit` that occur, ascending, and the index of each entry among them."""
    if limit > 16 * len(code) + _FLOAT32_INTEGERS:
        return np.unique(code, return_inverse=True)
    present = np.bincount(code, minlength=limit) > 0  # counting takes a tenth of the time of sorting
    return np.flatnonzero(present), (np.cumsum(present) - 1)[code]


Use = Callable[[PooledBins, Array, Array], Array]
_BLOCK = 512
_MIN_THREADED_OPS = 1 << 24
"""Multiplications from which on threads share the blocks of resamples."""


@dataclass(frozen=True)
class SceneCounts:
    """Counts of each scene, for r resamples or other selections of scenes.

    `counts` (r, scenes) are integers, `strata` is (scenes,), and `factors` (r, strata) convert the counts of
    a stratum to weights.
    """

    counts: Array
    strata: Ints
    factors: Array


@dataclass(frozen=True)
class PairStack:
    """Lists with the same pairs of scenes; the bins of their negatives are stacked in `groups`.

    Lists may share their table of negatives. `tables` are the rows of each table in the groups and its total;
    `table_of` is the table of each list.
    """

    lists: tuple[PooledBins, ...]
    groups: tuple[PairGroup, ...]
    tables: tuple[tuple[slice, float], ...]
    table_of: tuple[int, ...]

    @classmethod
    def of(cls, lists: Sequence[PooledBins], strata: Ints) -> PairStack:
        """Stack the first list and all others with its pairs."""
        distinct = {id(b.negatives): b for b in lists}
        grouped = {key: pair_groups(b, strata) for key, b in distinct.items()}
        first = grouped[id(lists[0].negatives)]
        same = {key: own for key, own in grouped.items() if _same_pairs(own, first)}
        stacked = tuple(b for b in lists if id(b.negatives) in same)
        width = {id(b.negatives): int(np.shape(b.positives)[1]) for b in stacked}
        tables, at = [], 0
        for key, own in same.items():
            tables.append((slice(at, at + width[key]), float(sum(g.total for g in own))))
            at += width[key]
        groups = tuple(PairGroup.stack(parts) for parts in zip(*same.values(), strict=True))
        place = {key: i for i, key in enumerate(same)}
        return cls(stacked, groups, tuple(tables), tuple(place[id(b.negatives)] for b in stacked))

    def each(self, scenes: SceneCounts, use: Use) -> list[Array]:
        """Return `use(list, positives, negatives)` for each list, (r, …), from its counts by bin.

        Counts are (rows, bins) of a block of rows. All sums are of integers and exact, so that neither blocks
        nor threads nor the other lists change a bit.
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
        size = r * sum(g.counts.size for g in self.groups)
        if size < _MIN_THREADED_OPS:
            results = [block(*part) for part in parts]
        else:
            from ..kernels import ThreadTeam, one_blas_thread  # slow to import

            with one_blas_thread():
                results = ThreadTeam().each(parts, block)
        return [np.concatenate(own) for own in zip(*results, strict=True)]

    def _negatives(self, counts: NDArray[np.float32], factors: Array) -> list[Array]:
        """Return the negatives in each bin, (r, bins), by table."""
        q = np.zeros((self.tables[-1][0].stop, counts.shape[1]))
        for g in self.groups:
            q += g.factor(factors) * g.product(counts)
        return [_restore_total(q[rows], total) for rows, total in self.tables]


def _same_pairs(one: Sequence[PairGroup], other: Sequence[PairGroup]) -> bool:
    return len(one) == len(other) and all(a.has_pairs_of(b) for a, b in zip(one, other, strict=True))


_Parts = tuple[list[tuple[Ints, Array]], float]


def _by_stratum(bins: PooledBins, scenes: SceneCounts) -> _Parts:
    """Return scenes and positives (bins, scenes) of each stratum, and the number of all positives."""
    every = np.asarray(bins.positives, dtype=np.float64).T
    members = [np.flatnonzero(scenes.strata == h) for h in range(scenes.factors.shape[1])]
    return [(m, np.ascontiguousarray(every[:, m])) for m in members], float(every.sum())


def _resampled(parts: _Parts, counts: NDArray[np.float32], factors: Array) -> Array:
    """Return the positives in each bin, (r, bins)."""
    strata, total = parts
    p = np.zeros((len(strata[0][1]), counts.shape[1]))
    for h, (members, own) in enumerate(strata):
        p += factors[h] * (own @ counts[members].astype(np.float64))
    return _restore_total(p, total)


def _restore_total(counts: Array, total: float) -> Array:
    """Scale counts (bins, r) of every list to the given total; return (r, bins)."""
    counts = np.ascontiguousarray(counts.T)
    own = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(own > 0, counts * (total / own), 0.0)
