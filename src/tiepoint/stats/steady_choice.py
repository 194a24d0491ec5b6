# SPDX-License-Identifier: BSD-3-Clause
"""Order methods by their steadiness on image pairs without ground truth, with intervals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.hashing import splitmix64

Floats = NDArray[np.float64]

DRAWS = 2000
MIN_PAIRS = 5
"""Number of confirmed pairs below which there is no interval."""
MARGIN = 0.02
"""The leader is ahead of a method if the interval of their difference is above this value."""


@dataclass(frozen=True)
class Difference:
    """Score of the leader minus that of another method, with its 95 % interval.

    `low` and `high` are NaN if there are too few pairs.
    """

    mean: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.low))

    @property
    def ahead(self) -> bool:
        """Whether the leader is ahead. Otherwise the other method is level, or there are too few pairs."""
        return self.low > MARGIN


@dataclass(frozen=True)
class SteadyOrder:
    """Methods in the order of their steadiness.

    Attributes:
        methods: Names in order; the first is the leader.
        scores: Mean steadiness over the used pairs.
        pairs: Keys of the used pairs, sorted: the pairs that at least one method confirms.
        differences: Score of the leader minus the score of each other method.
    """

    methods: tuple[str, ...]
    scores: Mapping[str, float]
    pairs: tuple[str, ...]
    differences: Mapping[str, Difference]

    @property
    def leader(self) -> str | None:
        """First method. None if no method confirms any pair."""
        return self.methods[0] if self.pairs else None

    @property
    def level(self) -> tuple[str, ...]:
        """Methods whose interval does not separate them from the leader."""
        return tuple(
            m for m in self.methods[1:] if self.differences[m].known and not self.differences[m].ahead
        )


def steady_order(
    steady: Mapping[str, Mapping[str, float]],
    confirmed: Mapping[str, Mapping[str, bool]],
    seconds: Mapping[str, float],
) -> SteadyOrder:
    """Order methods by their mean steadiness over the pairs that at least one of them confirms.

    Methods whose means agree within 1e-9 are ordered by `seconds`. The order of the mapping `steady` has no
    effect.

    Args:
        steady: Steadiness by method and key of a pair, 0 if the method does not confirm the pair.
        confirmed: Whether a method confirms a pair.
        seconds: Seconds per pair of each method.
    """
    keys = sorted({key for found in confirmed.values() for key, is_so in found.items() if is_so})
    columns = {name: np.array([found[key] for key in keys]) for name, found in steady.items()}
    scores = {name: float(column.mean()) if keys else 0.0 for name, column in columns.items()}
    order = sorted(scores, key=lambda name: (-round(scores[name], 9), seconds[name], name))
    first = columns[order[0]]
    differences = {name: difference(first, columns[name], keys) for name in order[1:]}
    return SteadyOrder(tuple(order), scores, tuple(keys), differences)


def difference(leader: Floats, other: Floats, keys: Sequence[str]) -> Difference:
    """Return the mean difference of two methods and its interval, from a bootstrap over pairs.

    `keys` are the sorted keys of the pairs, which seed the bootstrap. `leader` and `other` (n,) are in that
    order.

    >>> difference(np.full(5, 0.9), np.full(5, 0.8), list("abcde")).ahead
    True
    >>> difference(np.full(4, 0.9), np.full(4, 0.8), list("abcd")).known
    False
    """
    apart = np.asarray(leader, np.float64) - np.asarray(other, np.float64)
    n = len(apart)
    mean = float(apart.mean()) if n else 0.0
    if n < MIN_PAIRS:
        return Difference(mean, np.nan, np.nan)
    uniform = (splitmix64(interval_seed(keys), DRAWS * n) >> np.uint64(11)) / 2.0**53
    rows = np.floor(uniform * n).astype(np.int64).reshape(DRAWS, n)
    means = np.sort(apart[rows].mean(axis=1))
    low, high = (float(means[int(np.floor(q * (DRAWS - 1) + 0.5))]) for q in (0.025, 0.975))
    return Difference(mean, low, high)


def interval_seed(keys: Sequence[str]) -> int:
    """Return the seed of the bootstrap over the pairs with these keys."""
    digest = hashlib.sha256(f"tiepoint-choose-interval|{'|'.join(sorted(keys))}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
