# SPDX-License-Identifier: BSD-3-Clause
"""Random generators named after what is drawn."""

from __future__ import annotations

import numpy as np

from .hashing import hash_json


def named_generator(seed: int, *names: str) -> np.random.Generator:
    """A PCG64 generator seeded by the hash of a seed and names, e.g. (0, "cut", "v_wall", "hard", "3").

    What is drawn for one name does not depend on which others are drawn, in which order, or how many work.

    >>> named_generator(0, "a").integers(1000) == named_generator(0, "a").integers(1000)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(int(hash_json([seed, *names]), 16)))
