# SPDX-License-Identifier: BSD-3-Clause
"""Portable draws: streams named by what is drawn, the same with every version of NumPy.

Streams are PCG64 seeded by the hash of their names; only the raw 64-bit outputs of the generator are used, so
that the draws do not depend on the version of NumPy, on the order of work, or on the number of workers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .hashing import hash_json


def raw_stream(count: int, *names: str | int) -> NDArray[np.uint64]:
    """`count` raw outputs of the stream of these names.

    >>> bool((raw_stream(3, 0, "a") == raw_stream(3, 0, "a")).all())
    True
    """
    generator = np.random.PCG64(int(hash_json(list(names)), 16))
    return np.asarray(generator.random_raw(count), np.uint64).reshape(count)


def permutation(n: int, *names: str | int) -> NDArray[np.int64]:
    """A random order of 0 … n-1.

    >>> sorted(permutation(5, "x").tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_stream(n, *names), kind="stable").astype(np.int64)
