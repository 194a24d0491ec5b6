# SPDX-License-Identifier: BSD-3-Clause
"""Studentised sign-flip tests of paired differences, alone and in families."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..model.errors import InputError
from .families import Family, step_down
from .resample import grid, stratum_members

Array = NDArray[np.float64]
FLIPS = 100_000
_BLOCK = 2048
_IN_CACHE = 1 << 16  # statistics worked on at a time


def is_exact(n_scenes: int, flips: int = FLIPS) -> bool:
    """Whether all sign patterns of the scenes (2^(n-1) up to a common sign) are no more than `flips`.

    >>> is_exact(17), is_exact(18)
    (True, False)
    """
    return n_scenes <= 60 and 2 ** (n_scenes - 1) <= flips


def sign_blocks(n_scenes: int, flips: int, seed: int) -> Iterator[Array]:
    """Signs in blocks (scenes, r) of ±1; the first pattern is the data themselves (all +1).

    All patterns with the first scene at +1 when there are no more than `flips`, else `flips` random ones
    behind the first.
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
        drawn = np.unpackbits(rng.integers(0, 256, (n_scenes, _BLOCK // 8), dtype=np.uint8), axis=1)
        signs = 1.0 - 2.0 * drawn[:, :width].astype(np.float64)
        if first:
            signs = np.concatenate([np.ones((n_scenes, 1)), signs], axis=1)
            first = False
        yield signs


def sign_flip_family(
    contributions: Array,
    pairs: NDArray[np.int64],
    strata: NDArray[np.int64],
    *,
    flips: int = FLIPS,
    seed: int = 0,
) -> Family:
    """Test pairs of methods for a difference on the same scenes, all at once.

    If two methods do not differ, the difference in each scene may as well have the other sign. The statistic
    is |sum D| / se with D the difference of a scene's contributions and se² = sum over strata of
    n/(n-1) (sum D² - (sum D)²/n), taken anew for every pattern of signs. One pattern flips a scene for all
    pairs, which keeps how they depend on each other.

    Args:
        contributions: what each scene adds to the score of each method, (scenes, methods).
        pairs: (k, 2), columns of `contributions`.
        strata: (scenes,).
        flips: number of random patterns; all patterns are taken if there are no more.
        seed: of the patterns.

    Returns:
        The family, with statistics |t| (k,). A pair without any difference has t = 0 and p = 1.

    >>> x = np.array([[0.9, 0.5], [0.8, 0.5], [0.7, 0.5], [0.8, 0.4], [0.6, 0.5], [0.7, 0.3]]) / 6
    >>> f = sign_flip_family(x, np.array([[0, 1]]), np.zeros(6, dtype=int))
    >>> f.p.tolist(), f.exact
    ([0.03125], True)
    """
    n = len(contributions)
    if n == 0:
        raise InputError("no scene has a value for all methods, so there is nothing to test")
    # Multiples of one power of two: sums over scenes are exact, so ties between patterns stay ties.
    step = grid(float(np.abs(contributions).max(initial=0.0)) * n)
    rounded = np.rint(contributions * step) / step
    members = stratum_members(strata)
    squares = [_squares(rounded[m], pairs) for m in members]
    floor = np.maximum(np.sum(squares, axis=0) * 1e-13, 1e-300)
    width = min(256, max(16, _IN_CACHE // max(len(pairs), 1)))

    def statistics(signs: Array, order: NDArray[np.int64]) -> Array:
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
        # Equal differences in all scenes leave no spread: then t is very large, not infinite.
        np.maximum(spread, floor[order][:, None], out=spread)
        total *= total
        total /= spread
        return np.sqrt(total, out=total)

    def blocks(order: NDArray[np.int64]) -> Iterator[Array]:
        for signs in sign_blocks(n, flips, seed):
            for start in range(0, signs.shape[1], width):
                yield statistics(signs[:, start : start + width], order)

    observed = statistics(np.ones((n, 1)), np.arange(len(pairs)))[:, 0]
    return step_down(observed, blocks, exact=is_exact(n, flips))


def _squares(rounded: Array, pairs: NDArray[np.int64]) -> Array:
    """Sum over scenes of the squared difference of each pair, which no pattern of signs changes, (k,)."""
    out: Array = np.array([((rounded[:, a] - rounded[:, b]) ** 2).sum() for a, b in pairs])
    return out
