# SPDX-License-Identifier: BSD-3-Clause
"""Joint resampling of pooled ranked lists that have the same pairs of scenes."""

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
    """Negative counts of the scene pairs of two strata: pairs within a scene, or of different scenes.

    `first` and `second` (p,) are the scene indices. `counts` (bins, p) are the numbers of negatives in each
    bin. `strata` are the two strata.
    """

    first: Ints
    second: Ints
    counts: Array
    strata: tuple[int, int]
    within: bool

    @property
    def total(self) -> float:
        """Total number of negatives in the group."""
        return float(self.counts.sum())

    @classmethod
    def stack(cls, parts: Sequence[PairGroup]) -> PairGroup:
        """Stack the bins of groups that have the same scene pairs."""
        counts = np.concatenate([p.counts for p in parts])
        return cls(parts[0].first, parts[0].second, counts, parts[0].strata, parts[0].within)

    def has_pairs_of(self, other: PairGroup) -> bool:
        """Return whether both groups have the same scene pairs in the same order."""
        same = (self.strata, self.within) == (other.strata, other.within)
        return same and all(
            np.array_equal(*sides) for sides in ((self.first, other.first), (self.second, other.second))
        )

    @cached_property
    def _single(self) -> NDArray[np.float32] | None:
        """Counts of negatives as float32. None if float32 cannot represent them exactly."""
        return self.counts.astype(np.float32) if self.counts.max(initial=0) < _FLOAT32_INTEGERS else None

    def factor(self, factors: Array) -> Array:
        """Return the factor that converts products of scene counts to pair weights, (r,)."""
        one, other = self.strata
        return factors[one] if self.within else factors[one] * factors[other]

    def product(self, scene_counts: NDArray[np.float32]) -> Array:
        """Count the negatives in each bin, weighted by the scene counts of each resample, (bins, r).

        The product is computed in float32 first. No term is negative, so if no sum exceeds 2^24, all partial
        sums are integers that float32 represents exactly. Otherwise the product is repeated in float64.
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
    """Group the negatives of a pooled score by the strata of their scenes. Add up repeated scene pairs.

    Raises:
        InputError: A scene index or bin index is out of range.

    >>> b = PooledBins(("a", "b"), ("i", "i"), np.ones((2, 1)), np.array([[1, 0, 0, 2], [0, 1, 0, 3]]), "ap")
    >>> [g.counts.tolist() for g in pair_groups(b, np.zeros(2, dtype=int))]
    [[[5.0]]]
    """
    n, width = np.asarray(bins.positives).shape
    rows = np.asarray(bins.negatives, dtype=np.int64).reshape(-1, 4)
    if n != len(bins.scenes) or len(bins.kinds) != n:
        raise InputError(
            f"pooled bins: {len(bins.scenes)} scenes, {len(bins.kinds)} kinds and {n} rows of positives; "
            "expected equal numbers"
        )
    if len(rows) and (rows.min() < 0 or rows[:, :2].max() >= n or rows[:, 2].max() >= width):
        raise InputError(
            f"pooled bins: negatives have a scene outside 0 to {n - 1} or a bin outside 0 to {width - 1}"
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
    """Return the distinct values (below `limit`), ascending, and for each entry the index of its value."""
    if limit > 16 * len(code) + _FLOAT32_INTEGERS:
        return np.unique(code, return_inverse=True)
    present = np.bincount(code, minlength=limit) > 0  # counting takes a tenth of the time of sorting
    return np.flatnonzero(present), (np.cumsum(present) - 1)[code]


Use = Callable[[PooledBins, Array, Array], Array]
_BLOCK = 512
_MIN_THREADED_OPS = 1 << 24
"""Minimum number of multiplications for which resamples are split among threads."""


@dataclass(frozen=True)
class SceneCounts:
    """How often each scene occurs in each of r resamples.

    `counts` (r, scenes) are integers. `strata` (scenes,) is the stratum of each scene. `factors` (r, strata)
    convert the counts of a stratum to weights.
    """

    counts: Array
    strata: Ints
    factors: Array


@dataclass(frozen=True)
class PairStack:
    """Ranked lists with the same pairs of scenes, stacked so that they are resampled together.

    `groups` has the negatives of all lists, with the bins of the lists concatenated. Lists with equal
    negatives share a table. `tables` has, for each table, its rows in the groups and its total count.
    `table_of` is the table index of each list.
    """

    lists: tuple[PooledBins, ...]
    groups: tuple[PairGroup, ...]
    tables: tuple[tuple[slice, float], ...]
    table_of: tuple[int, ...]

    @classmethod
    def of(cls, lists: Sequence[PooledBins], strata: Ints) -> PairStack:
        """Build a stack of the first ranked list and all other lists with the same scene pairs."""
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
        """Call `use(list, positives, negatives)` for each ranked list and return the results, (r, …).

        `use` receives the counts (rows, bins) of a block of resamples. All sums are exact integer sums, so
        the results are bit-identical for any block size, number of threads and set of lists.
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
        """Return the number of negatives in each bin, (r, bins), for each table."""
        q = np.zeros((self.tables[-1][0].stop, counts.shape[1]))
        for g in self.groups:
            q += g.factor(factors) * g.product(counts)
        return [_restore_total(q[rows], total) for rows, total in self.tables]


def _same_pairs(one: Sequence[PairGroup], other: Sequence[PairGroup]) -> bool:
    return len(one) == len(other) and all(a.has_pairs_of(b) for a, b in zip(one, other, strict=True))


_Parts = tuple[list[tuple[Ints, Array]], float]


def _by_stratum(bins: PooledBins, scenes: SceneCounts) -> _Parts:
    """Return the scenes and positive counts (bins, scenes) of each stratum, and the total of positives."""
    every = np.asarray(bins.positives, dtype=np.float64).T
    members = [np.flatnonzero(scenes.strata == h) for h in range(scenes.factors.shape[1])]
    return [(m, np.ascontiguousarray(every[:, m])) for m in members], float(every.sum())


def _resampled(parts: _Parts, counts: NDArray[np.float32], factors: Array) -> Array:
    """Return the number of positives in each bin of each resample, (r, bins)."""
    strata, total = parts
    p = np.zeros((len(strata[0][1]), counts.shape[1]))
    for h, (members, own) in enumerate(strata):
        p += factors[h] * (own @ counts[members].astype(np.float64))
    return _restore_total(p, total)


def _restore_total(counts: Array, total: float) -> Array:
    """Scale the counts (bins, r) of each resample to the given total and return them as (r, bins)."""
    counts = np.ascontiguousarray(counts.T)
    own = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(own > 0, counts * (total / own), 0.0)
