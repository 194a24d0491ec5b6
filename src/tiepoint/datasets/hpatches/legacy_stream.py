# SPDX-License-Identifier: BSD-3-Clause
"""The random numbers of the published recipe of 2017, drawn as its generator drew them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError

Ints = NDArray[np.int64]


class LegacyStream:
    """What `numpy.random.RandomState(seed)` gives, bit for bit, only faster, for the calls the lists need.

    >>> stream, state = LegacyStream(42), np.random.RandomState(42)
    >>> bool((stream.integers(np.full(5, 40)) == state.randint(40, size=5)).all())
    True
    >>> [int(x[0]) for x in stream.first_two(np.array([100]))] == state.permutation(100)[:2].tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        _, key, pos, _, _ = np.random.RandomState(seed).get_state(legacy=True)
        self._pos = int(pos)
        self._state = np.asarray(key, np.uint32).copy()
        self._words = np.empty(624, np.uint32)

    def integers(self, n: Ints) -> Ints:
        """``randint(n[i])`` for every i, n[i] of at least 1."""
        from . import _mt19937_loops as kernel

        values = np.empty(len(n), np.int64)
        self._pos = kernel.bounded_integers(
            self._state, self._words, self._pos, np.asarray(n, np.int64) - 1, values
        )
        return values

    def first_two(self, n: Ints) -> tuple[Ints, Ints]:
        """``permutation(n[i])[:2]`` for every i, n[i] of at least 2, as two columns."""
        from . import _mt19937_loops as kernel

        sizes = np.asarray(n, np.int64)
        if sizes.size and sizes.min() < 2:
            raise InputError("a sequence has only one patch; two different ones cannot be drawn from it")
        first, second = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.int64)
        swaps = np.empty(int(sizes.max(initial=2)), np.uint32)
        self._pos = kernel.first_two_of_permutation(
            self._state, self._words, self._pos, sizes, first, second, swaps
        )
        return first, second
