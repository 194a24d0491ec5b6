# SPDX-License-Identifier: BSD-3-Clause
"""SplitMix64: random integers that depend on a seed and a position alone."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from .numba_cache import cached_njit


@cached_njit(nogil=True)
def splitmix64(state: np.uint64) -> np.uint64:
    """Return the SplitMix64 output of a state. The state is the one before the increment."""
    x = state + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@cached_njit(nogil=True)
def _fill(seed: np.uint64, out: NDArray[np.uint64]) -> None:
    for p in range(out.size):
        out[p] = splitmix64(seed + np.uint64(p))


def random_integers(seed: int, count: int) -> NDArray[np.uint64]:
    """Return the SplitMix64 outputs for the states seed, seed + 1, …, uint64 (count,).

    >>> random_integers(0, 2).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    out = np.empty(count, np.uint64)
    _fill(np.uint64(seed), out)
    return out


def seed_of(text: str) -> int:
    """Return the first 8 bytes of the SHA-256 of a text as a big-endian integer.

    >>> seed_of("tiepoint-stress|0|x")
    11339731914106603551
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
