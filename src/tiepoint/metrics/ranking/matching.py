# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of image matching, where each reference patch is matched to the nearest target descriptor."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError
from .average_precision import Normaliser
from .chance import chance_average_precision
from .ties import Floats


def expected_validity(lt: ArrayLike, ties: ArrayLike, *, retrieved: ArrayLike | None = None) -> Floats:
    """Return the probability that the nearest neighbour is correct if ties are broken at random.

    For each reference patch (n,), `lt` targets are nearer than the correct answer, and `ties` >= 1 targets
    share the smallest distance. `retrieved` is False if the patch or its correct answer has no descriptor.
    The result is 1/ties if no target is nearer than the correct answer, else 0.

    Other rules favour a constant descriptor, for which all targets are tied. Choosing the target of lowest
    index gives it one correct match per image. Accepting any tied target makes all its matches correct.

    >>> expected_validity([0, 0, 2], [1, 4, 1])
    array([1.  , 0.25, 0.  ])
    """
    near, m = np.asarray(lt), np.asarray(ties, np.float64)
    if m.size and m.min() < 1:
        raise InputError("ties: every entry must be at least 1; count the nearest target itself")
    right = near == 0
    if retrieved is not None:
        right &= np.asarray(retrieved, bool)
    return np.where(right, 1.0 / m, 0.0)


def ratio_dissimilarity(d1: ArrayLike, d2: ArrayLike) -> Floats:
    """Return Lowe's ratio d1/d2 of first and second distance; a small ratio is a distinctive match.

    If both distances are 0 the ratio is 1. Without a finite second distance the ratio is infinite, so the
    match is never retrieved.

    >>> ratio_dissimilarity([1, 0, 0, 2], [2, 1, 0, np.inf])
    array([0.5, 0. , 1. , inf])
    """
    a, b = np.asarray(d1, np.float64), np.asarray(d2, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((a == 0) & (b == 0), 1.0, a / b)
    return np.where(np.isfinite(a) & np.isfinite(b), ratio, np.inf)


@cache
def chance_matching_average_precision(
    references: int, targets: int, *, normaliser: Normaliser | None = None
) -> float:
    """Return the expected matching AP of random guesses, each correct with probability 1/targets.

    By default, the AP is divided by `references`. With the normaliser `retrieved`, it is divided by the
    random (binomial) number of correct guesses, so the chance level is far higher. Without a correct guess,
    the AP is 0.

    >>> round(chance_matching_average_precision(1, 4), 4)
    0.25
    >>> round(chance_matching_average_precision(1000, 1000), 7)
    8.5e-06
    >>> round(chance_matching_average_precision(1000, 1000, normaliser="retrieved"), 4)
    0.0051
    """
    if normaliser is None:
        return chance_average_precision(
            references, references / targets, normaliser=references, certain=False
        )
    if normaliser != "retrieved":
        raise InputError(f"normaliser: unknown value {normaliser!r}; choose None or 'retrieved'")
    from scipy.stats import binom

    k = np.arange(1, min(references, int(references / targets) + 60) + 1)
    values = [chance_average_precision(references, int(r)) for r in k]
    return float(np.sum(binom.pmf(k, references, 1.0 / targets) * np.array(values)))
