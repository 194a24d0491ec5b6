# SPDX-License-Identifier: BSD-3-Clause
"""Symmetric bootstrap-t tests of paired differences, for one pair or a family of pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .multiplicity import TestFamily, step_down
from .resampling import exact_product, stratum_members

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
BOOTSTRAPS = 10_000
_BLOCK = 500
_TINY = 1e-13
"""Smallest squared standard error of a resample, relative to the sum of squares."""


def bootstrap_t_family(
    contributions: Array, pairs: Ints, strata: Ints, *, resamples: int = BOOTSTRAPS, seed: int = 0
) -> TestFamily:
    """Test pairs of methods jointly for a mean score difference of 0 on the same scenes.

    The statistic is the |t| of `sign_flip_family`. Its distribution under the null hypothesis comes from
    resampling entire scenes within strata, after the differences are centred within strata. The standard
    error is recomputed for each resample. The test does not assume that differences are symmetric about 0.
    Its level is approximate, and it needs more scenes than sign flips for the same power.

    `pairs` (k, 2) are column indices of `contributions` (scenes, methods). A pair without any difference has
    t = 0 and p = 1.

    >>> x = np.random.default_rng(0).normal([0.4, 0.2], 0.05, (12, 2)) / 12
    >>> f = bootstrap_t_family(x, np.array([[0, 1]]), np.zeros(12, dtype=int)); bool(f.p[0] < 0.01)
    True
    """
    if len(contributions) == 0:
        raise InputError("no scene has a value for all methods; compare methods on common scenes")
    first, second = pairs.T
    gaps = contributions[:, first] - contributions[:, second]
    centred = gaps.copy()
    members = stratum_members(strata)
    for member in members:
        centred[member] -= centred[member].mean(axis=0)
    floor = np.maximum((gaps**2).sum(axis=0) * _TINY, 1e-300)

    def statistics(values: Array, counts: list[Array], order: Ints) -> Array:
        total = np.zeros((len(counts[0]), len(order)))
        spread = np.zeros_like(total)
        for member, count in zip(members, counts, strict=True):
            n, own = len(member), values[member][:, order]
            sums = exact_product(count, own, total=n)
            squares = exact_product(count, own**2, total=n)
            total += sums
            spread += n / max(n - 1, 1) * (squares - sums**2 / n)
        return np.asarray((np.abs(total) / np.sqrt(np.maximum(spread, floor[order]))).T)

    def blocks(order: Ints) -> Iterator[Array]:
        rng = np.random.Generator(np.random.PCG64(seed))
        yield observed[order][:, None]  # the data count as one of the samples
        for start in range(0, resamples, _BLOCK):
            rows = min(_BLOCK, resamples - start)
            counts = [
                rng.multinomial(len(m), np.full(len(m), 1 / len(m)), size=rows).astype(np.float64)
                for m in members
            ]
            yield statistics(centred, counts, order)

    every = np.arange(len(pairs))
    observed = statistics(gaps, [np.ones((1, len(m))) for m in members], every)[:, 0]
    return step_down(observed, blocks, exact=False)
