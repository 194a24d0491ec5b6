# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions of NumPy's legacy random generator: MT19937, bounded integers, permutations.

The random stream is bit-identical to that of `numpy.random.RandomState`. Only the first two entries of
permutations are computed, because the task lists need no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.numba_cache import cached_njit

_N, _M = 624, 397


@cached_njit(nogil=True)
def refill(state: Any, out: Any) -> None:
    """Advance the state of the generator by 624 words, and write its outputs to `out`."""
    upper, lower = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
    matrix, one = np.uint32(0x9908B0DF), np.uint32(1)
    for k in range(_N - _M):
        y = (state[k] & upper) | (state[k + 1] & lower)
        state[k] = state[k + _M] ^ (y >> one) ^ ((np.uint32(0) - (y & one)) & matrix)
    for k in range(_N - _M, _N - 1):
        y = (state[k] & upper) | (state[k + 1] & lower)
        state[k] = state[k + _M - _N] ^ (y >> one) ^ ((np.uint32(0) - (y & one)) & matrix)
    y = (state[_N - 1] & upper) | (state[0] & lower)
    state[_N - 1] = state[_M - 1] ^ (y >> one) ^ ((np.uint32(0) - (y & one)) & matrix)
    for k in range(_N):
        y = state[k]
        y ^= y >> np.uint32(11)
        y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
        y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
        out[k] = y ^ (y >> np.uint32(18))


@cached_njit(nogil=True)
def _mask(top: int) -> Any:
    """Return the smallest number of the form 2^b - 1 that is at least `top`."""
    mask = np.uint32(1)
    while mask < np.uint32(top):
        mask = (mask << np.uint32(1)) | np.uint32(1)
    return mask


@cached_njit(nogil=True)
def bounded_integers(state: Any, out: Any, pos: int, tops: Any, values: Any) -> int:
    """Fill `values` with uniform integers from 0 to tops[i], equal to `RandomState.randint(tops[i] + 1)`.

    `out` has the generator's outputs and `pos` the next one to use. Return the new `pos`.
    """
    for i in range(tops.size):
        top = np.uint32(tops[i])
        if top == np.uint32(0):
            values[i] = 0
            continue
        mask = _mask(tops[i])
        while True:
            if pos == _N:
                refill(state, out)
                pos = 0
            value = out[pos] & mask
            pos += 1
            if value <= top:
                break
        values[i] = value
    return pos


@cached_njit(nogil=True)
def first_two_of_permutation(
    state: Any, out: Any, pos: int, sizes: Any, first: Any, second: Any, swaps: Any
) -> int:
    """Compute the first two entries of `RandomState.permutation(sizes[r])` for every r, where sizes[r] >= 2.

    The shuffle swaps entry i with entry j_i <= i, for i = n - 1 down to 1. All j_i are sampled without a
    branch: the next sample overwrites a rejected one. The swaps are then undone in reverse order: if an entry
    is at position j_i, its value came from position i.
    """
    one = np.uint64(1)
    for r in range(sizes.size):
        i = np.uint64(sizes[r] - 1)
        while i >= one:
            mask = np.uint64(_mask(i))
            low = (mask >> one) + one
            while i >= low:
                if pos == _N:
                    refill(state, out)
                    pos = 0
                # A sample decreases i by at most one, so i stays >= low for this many samples.
                steps: Any = min(_N - pos, np.int64(i - low) + 1)
                for p in range(pos, pos + steps):
                    value = np.uint64(out[p]) & mask
                    swaps[i] = value
                    i -= np.uint64(value <= i)
                pos += steps
        b = np.uint32(swaps[1])
        a = np.uint32(1) - b
        for k in range(2, sizes[r]):
            j = swaps[k]
            if j == a:
                a = np.uint32(k)
            elif j == b:
                b = np.uint32(k)
        first[r] = a
        second[r] = b
    return pos
