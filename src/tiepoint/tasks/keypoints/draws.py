# SPDX-License-Identifier: BSD-3-Clause
"""Portable draws of the keypoint tasks.

Streams are PCG64 seeded by the hash of what is drawn; only the raw 64-bit outputs of the generator are used
(numbers below n by remainder, whose bias is under n / 2^64; orders by sorting), so that the draws do not
depend on the version of NumPy, on the order of scenes, or on the number of workers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.hashing import hash_json

Ints = NDArray[np.int64]


def raw_stream(count: int, *names: str | int) -> NDArray[np.uint64]:
    """`count` raw outputs of the stream of these names.

    >>> bool((raw_stream(3, 0, "a") == raw_stream(3, 0, "a")).all())
    True
    """
    generator = np.random.PCG64(int(hash_json(list(names)), 16))
    return np.asarray(generator.random_raw(count), np.uint64).reshape(count)


def permutation(n: int, *names: str | int) -> Ints:
    """A random order of 0 … n-1.

    >>> sorted(permutation(5, "x").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_stream(n, *names), kind="stable").astype(np.int64)


def below(n: int, count: int, *names: str | int) -> Ints:
    """`count` independent numbers in 0 … n-1, n >= 1."""
    return (raw_stream(count, *names) % np.uint64(n)).astype(np.int64)


def subsets(n: int, size: int, count: int, *names: str | int) -> Ints:
    """`count` random subsets of min(size, n) different numbers in 0 … n-1, int64 (count, min(size, n)).

    Floyd's method, all subsets at once: step j takes a number up to j, or j itself if that is taken.

    >>> subsets(3, 5, 2, "x").shape
    (2, 3)
    """
    k = min(size, n)
    chosen = np.full((count, k), -1, np.int64)
    raw = raw_stream(count * k, *names).reshape(count, k)
    for i, j in enumerate(range(n - k, n)):
        t = (raw[:, i] % np.uint64(j + 1)).astype(np.int64)
        taken = (chosen[:, :i] == t[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, j, t)
    return chosen
