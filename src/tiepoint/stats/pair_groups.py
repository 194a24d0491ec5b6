# SPDX-License-Identifier: BSD-3-Clause
"""Negative pairs of a pooled score, grouped so that resampling them is a product of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
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
