# SPDX-License-Identifier: BSD-3-Clause
"""What guessing scores where lists without a right item are skipped."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .chance import chance_average_precision

_TAIL = 1e-15


@lru_cache(maxsize=4096)
def chance_of_found_matches(matches: int, probability: float) -> float:
    """Expected AP of a list in random order, each match right with a probability, given that one is.

    sum over r >= 1 of P(r right) / P(at least one) x the chance AP of r right among `matches`.

    Trap: skipping the lists without a right match makes this larger the rarer right matches are; with 100
    matches and 4000 candidates it is about H(100)/100 = 0.05, not 1/4000.

    >>> round(chance_of_found_matches(100, 1e-9), 4), chance_of_found_matches(3, 1.0)
    (0.0519, 1.0)
    """
    from scipy.stats import binom

    r = np.arange(1, matches + 1)
    weight = binom.pmf(r, matches, probability)
    weight = weight / weight.sum()
    kept = np.flatnonzero(weight > _TAIL)
    return float(sum(weight[i] * chance_average_precision(matches, int(r[i])) for i in kept))
