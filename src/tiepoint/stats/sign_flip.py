# SPDX-License-Identifier: BSD-3-Clause
"""Studentised sign-flip tests of paired differences, for one pair or a family of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.array_cache import user_cached_arrays
from ..core.errors import InputError
from ..core.hashing import hash_array
from ..core.records import Arrays
from .multiplicity import SLACK, TestFamily, quantile_reached, step_down, unsort_family
from .resampling import grid, stratum_members

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
FLIPS = 100_000
_BLOCK = 2048
_IN_CACHE = 1 << 16  # statistics computed at a time
_COMPILED_FROM = 500
"""Minimum number of pairs for which compiled code is faster, including the time to load it."""

MAX_STATISTICS, MIN_FLIPS = 2_000_000_000, 500
"""Maximum number of pairs times sign patterns in `wide_family`, and its minimum number of patterns."""

_WIDTH, _METHODS = 256, 64
"""Numbers of sign patterns and of methods in a block."""


def is_exact(n_scenes: int, flips: int = FLIPS) -> bool:
    """Return whether the test is exact: n scenes have at most `flips` sign patterns, so all are used.

    >>> is_exact(17), is_exact(18)
    (True, False)
    """
    return n_scenes <= 60 and 2 ** (n_scenes - 1) <= flips


def sign_blocks(n_scenes: int, flips: int, seed: int) -> Iterator[Array]:
    """Yield sign patterns in blocks (scenes, r) of ±1. The first pattern is the data (all +1).

    If there are at most `flips` patterns with the first scene at +1, yield all of them. Otherwise yield the
    data and `flips` random patterns.
    """
    if is_exact(n_scenes, flips):
        total = 2 ** (n_scenes - 1)
        for start in range(0, total, _BLOCK):
            code = np.arange(start, min(start + _BLOCK, total))
            bits = (code[None, :] >> np.arange(n_scenes)[:, None]) & 1
            yield 1.0 - 2.0 * np.roll(bits, 1, axis=0)
        return
    rng = np.random.Generator(np.random.PCG64(seed))
    first = True
    for start in range(0, flips, _BLOCK):
        width = min(_BLOCK, flips - start)
        flipped = np.unpackbits(rng.integers(0, 256, (n_scenes, _BLOCK // 8), dtype=np.uint8), axis=1)
        signs = 1.0 - 2.0 * flipped[:, :width].astype(np.float64)
        if first:
            signs = np.concatenate([np.ones((n_scenes, 1)), signs], axis=1)
            first = False
        yield signs


def sign_flip_family(
    contributions: Array, pairs: Ints, strata: Ints, *, flips: int = FLIPS, seed: int = 0
) -> TestFamily:
    """Test pairs of methods jointly for a score difference on the same scenes.

    If two methods do not differ, positive and negative differences are equally likely in each scene. The
    statistic is |sum D| / se with D the difference of a scene's contributions and se² = sum over strata of
    n/(n-1) (sum D² - (sum D)²/n), recomputed for every sign pattern. One pattern flips a scene for all pairs,
    which preserves their dependence.

    `pairs` (k, 2) are column indices of `contributions` (scenes, methods). The test uses `flips` random sign
    patterns, or all patterns if there are at most `flips`. The statistics |t| have shape (k,). A pair without
    any difference has t = 0 and p = 1.

    >>> x = np.array([[0.9, 0.5], [0.8, 0.5], [0.7, 0.5], [0.8, 0.4], [0.6, 0.5], [0.7, 0.3]]) / 6
    >>> f = sign_flip_family(x, np.array([[0, 1]]), np.zeros(6, dtype=int))
    >>> f.p.tolist(), f.exact
    ([0.03125], True)
    """
    given = _Rounded.of(contributions, strata)
    members, rounded = given.members, given.values
    n = len(rounded)
    squares = [_squares(rounded[m], pairs) for m in members]
    floor = np.maximum(np.sum(squares, axis=0) * 1e-13, 1e-300)
    width = min(256, max(16, _IN_CACHE // max(len(pairs), 1)))

    def statistics(signs: Array, order: Ints) -> Array:
        first, second = pairs[order].T
        total = np.zeros((len(order), signs.shape[1]))
        spread = np.zeros_like(total)
        for member, square in zip(members, squares, strict=True):
            count = len(member)
            sums = rounded[member].T @ signs[member]
            part = sums[first]
            part -= sums[second]
            total += part
            part *= part
            part *= -1.0 / count
            part += square[order][:, None]
            part *= count / max(count - 1, 1)
            spread += part
        # Equal differences in all scenes leave no spread: then t is very large, but finite.
        np.maximum(spread, floor[order][:, None], out=spread)
        total *= total
        total /= spread
        return np.sqrt(total, out=total)

    def blocks(order: Ints) -> Iterator[Array]:
        for signs in sign_blocks(n, flips, seed):
            for start in range(0, signs.shape[1], width):
                yield statistics(signs[:, start : start + width], order)

    observed = statistics(np.ones((n, 1)), np.arange(len(pairs)))[:, 0]
    if len(pairs) < _COMPILED_FROM:
        return step_down(observed, blocks, exact=is_exact(n, flips))
    order = np.argsort(-observed, kind="stable")
    goal = _squared_goal(observed[order] * (1 - SLACK))
    counts = _sweep(given, pairs[order], np.array(squares)[:, order], floor[order], goal, flips, seed)
    return unsort_family(observed, order, *counts, exact=is_exact(n, flips))


@dataclass(frozen=True)
class _Rounded:
    """Contributions (scenes, methods), rounded to multiples of a power of two, and the strata.

    Because of the rounding, sums over scenes are exact, and equal statistics of two patterns stay equal.
    """

    values: Array
    members: list[Ints]

    @classmethod
    def of(cls, contributions: Array, strata: Ints) -> _Rounded:
        n = len(contributions)
        if n == 0:
            raise InputError("no scene has values of all methods; compare methods on common scenes")
        step = grid(float(np.abs(contributions).max(initial=0.0)) * n)
        return cls(np.rint(contributions * step) / step, stratum_members(strata))

    @property
    def sizes(self) -> Ints:
        """Number of scenes of each stratum."""
        return np.array([len(m) for m in self.members], dtype=np.int64)

    def sums(self, signs: Array) -> Array:
        """Return sums (strata, methods, r) over the scenes of each stratum for sign patterns (scenes, r)."""
        return np.stack([self.values[m].T @ signs[m] for m in self.members])


def _squared_goal(goal: Array) -> Array:
    """Return the smallest x whose rounded square root is at least `goal`, so that squares can be compared.

    >>> g = np.array([0.1, 3.0]); x = _squared_goal(g)
    >>> (np.sqrt(x) >= g).all(), (np.sqrt(np.nextafter(x, 0)) < g).all()
    (np.True_, np.True_)
    """
    x = goal * goal
    while (low := np.sqrt(x) < goal).any():
        x = np.where(low, np.nextafter(x, np.inf), x)
    while (high := (x > 0) & (np.sqrt(np.nextafter(x, 0.0)) >= goal)).any():
        x = np.where(high, np.nextafter(x, 0.0), x)
    return x


def _sweep(
    given: _Rounded, pairs: Ints, squares: Array, floor: Array, goal: Array, flips: int, seed: int
) -> tuple[Ints, Ints, Array]:
    """Return the counts and maxima of `step_down_sweep` over all sign patterns.

    The counts (k,) are of patterns in which a pair reaches its `goal`, and in which it or a later pair does.
    """
    from ..kernels import ThreadTeam, one_blas_thread
    from ._sign_flip_loops import step_down_sweep

    sweep = step_down_sweep()
    first, second = (np.ascontiguousarray(x, dtype=np.int64) for x in pairs.T)
    squares, sizes = np.ascontiguousarray(squares), given.sizes
    single, joint = np.zeros(len(pairs), np.int64), np.zeros(len(pairs), np.int64)
    maxima = []

    def work(signs: Array, start: int, stop: int) -> tuple[Any, Any, Array]:
        one, any_ = np.zeros(len(pairs), np.int32), np.zeros(len(pairs), np.int32)
        largest = np.empty(stop - start)
        for at in range(start, stop, _WIDTH):
            part = slice(at, min(at + _WIDTH, stop))
            target = largest[part.start - start : part.stop - start]
            sums = given.sums(signs[:, part])
            sweep(sums, first, second, squares, sizes, floor, goal, one, any_, target)
        return one, any_, largest

    team = ThreadTeam()
    with one_blas_thread():
        for signs in sign_blocks(len(given.values), flips, seed):
            for one, any_, largest in team.split(signs.shape[1], partial(work, signs), smallest=_WIDTH):
                single += one
                joint += any_
                maxima.append(np.sqrt(largest))
    return single, joint, np.concatenate(maxima)


WIDE_FAMILY = "wide-family"
_WIDE_VERSION = 1
"""Name of the cached results of `wide_family`, and their version: raise it if the results change."""

_CACHED_STATISTICS = 1 << 28
"""Number of statistics from which results are cached. Computing so many takes about 0.1 s."""


@dataclass(frozen=True)
class WideFamily:
    """Test result of all pairs of many methods as one family, by single-step max-T.

    `null_maximum` is the largest statistic of each sign pattern. `above` and `below` (m,) count the methods
    that are significantly better and worse than each method.
    """

    null_maximum: Array
    above: Ints
    below: Ints
    flips: int
    exact: bool

    def critical(self, level: float = 0.95) -> float:
        """Return the value that the maximum exceeds with probability 1 - level under the null hypothesis."""
        return quantile_reached(self.null_maximum, level)

    def adjusted_p(self, statistic: Array) -> Array:
        """Return family-wise p-values: the share of patterns whose maximum reaches the observed statistic."""
        ordered = np.sort(self.null_maximum)
        reached = len(ordered) - np.searchsorted(ordered, statistic * (1 - SLACK), side="left")
        return np.asarray(reached / len(ordered))


def wide_family(
    contributions: Array,
    strata: Ints,
    *,
    level: float = 0.95,
    flips: int = FLIPS,
    seed: int = 0,
    max_statistics: int = MAX_STATISTICS,
) -> WideFamily:
    """Test all pairs of many methods as one family, without storing the statistics of each pair.

    The statistic and the sign patterns are those of `sign_flip_family`. If the number of pairs times patterns
    would exceed `max_statistics`, fewer patterns are used, and the smallest possible p-value is larger.
    Single-step max-T compares every pair with the largest statistic of all pairs. Step-down max-T would
    separate a few more pairs.

    `contributions` has shape (scenes, methods). The number of random patterns is at least `MIN_FLIPS` and at
    most `flips`.

    >>> x = np.array([[9.0, 5.0], [8.0, 5.0], [7.0, 5.0], [8.0, 4.0], [6.0, 5.0], [7.0, 3.0]]) / 60
    >>> f = wide_family(x, np.zeros(6, dtype=int)); f.above.tolist(), f.below.tolist()
    ([0, 1], [1, 0])
    """
    n, m = contributions.shape
    flips = min(flips, max(max_statistics // max(m * (m - 1) // 2, 1), MIN_FLIPS))
    given = _Rounded.of(contributions, strata)

    def compute() -> Arrays:
        return _wide_arrays(given, n, m, level, flips, seed)

    if m * m * flips < _CACHED_STATISTICS:
        found = compute()
    else:
        facts = [hash_array(given.values), hash_array(np.asarray(strata)), level, flips, seed]
        found = user_cached_arrays(WIDE_FAMILY, [_WIDE_VERSION, *facts], compute)
    return WideFamily(found["null_maximum"], found["above"], found["below"], flips, is_exact(n, flips))


def _wide_arrays(given: _Rounded, n: int, m: int, level: float, flips: int, seed: int) -> Arrays:
    """Return the arrays of a `WideFamily`."""
    from ..kernels import ThreadTeam, one_blas_thread
    from ._sign_flip_loops import count_apart, largest_sweep

    sweep, count = largest_sweep(), count_apart()
    rows = np.ascontiguousarray(given.values[np.concatenate(given.members)].T)
    start = np.concatenate([[0], np.cumsum(given.sizes)]).astype(np.int64)
    # Split the pairs into equal shares. The first methods have the most pairs.
    cuts = np.unique(m - np.sqrt(np.linspace(1, 0, 17)) * m).astype(np.int64)
    parts = [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]
    maxima = []
    team = ThreadTeam()
    with one_blas_thread():
        for signs in sign_blocks(n, flips, seed):
            sums = given.sums(signs)

            def work(low: int, high: int, sums: Array = sums) -> Array:
                largest = np.zeros(sums.shape[2])
                sweep(sums, rows, start, low, high, _METHODS, _WIDTH, largest)
                return largest

            maxima.append(np.sqrt(np.max(team.each(parts, work), axis=0)))
    null_maximum = np.concatenate(maxima)
    counts = np.zeros((m, 2), np.int64)
    ordered = np.sort(null_maximum)[::-1]
    # A pair is separated if at most this many patterns reach its statistic.
    allowed = int(np.floor((1 - level + 1e-12) * len(ordered)))
    if allowed < len(ordered):
        least = _squared_goal(np.nextafter(ordered[allowed : allowed + 1], np.inf) / (1 - SLACK))[0]
        count(given.sums(np.ones((n, 1))), rows, start, float(least), counts)
    return {"null_maximum": null_maximum, "above": counts[:, 0], "below": counts[:, 1]}


def _squares(rounded: Array, pairs: Ints) -> Array:
    """Return the sum of squared differences over scenes for each pair, (k,). Sign flips do not change it."""
    columns = np.ascontiguousarray(rounded.T)
    out = np.empty(len(pairs))
    for start in range(0, len(pairs), _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = ((columns[pairs[part, 0]] - columns[pairs[part, 1]]) ** 2).sum(axis=1)
    return out
