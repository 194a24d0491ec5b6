# SPDX-License-Identifier: BSD-3-Clause
"""Chance levels: expected scores of lists in random order and of random matches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .average_precision import Normaliser, normalise_precision
from .ties import TieBlocks

_TAIL = 1e-15
_NODES = 400


def chance_average_precision(
    items: int,
    relevant: float,
    *,
    flavour: str = "trec",
    normaliser: Normaliser = "all",
    cutoff: int | None = None,
    certain: bool = True,
) -> float:
    """Return the expected average precision of `items` in random order, `relevant` of them correct.

    It equals the average precision of a list in which all items are tied, such as the list of a constant
    descriptor. With one correct answer among n items it is H(n)/n, where H is the harmonic number. For long
    lists it tends to relevant/items from above.

    Args:
        items: list length.
        relevant: number of relevant items; a fraction only with `certain=False`.
        flavour: as in `average_precision`.
        normaliser: as in `average_precision`.
        cutoff: as in `average_precision`.
        certain: True if exactly `relevant` items are relevant. False if each item is relevant independently
            with probability relevant/items, as for random nearest neighbours.

    >>> round(chance_average_precision(4, 1), 6), round(chance_average_precision(1200, 200), 4)
    (0.520833, 0.1713)
    """
    if items < 1 or not 0 <= relevant <= items:
        raise InputError(
            f"chance AP: needs items >= 1 and 0 <= relevant <= items, found items {items} and relevant "
            f"{relevant}"
        )
    r = float(relevant)
    pairs = r * (r - 1.0) if certain else r * r * (1.0 - 1.0 / items)
    columns = (0.0, 0.0, float(items), r, pairs)
    blocks = TieBlocks(np.zeros(1, np.int64), *(np.array([c]) for c in columns))
    value = normalise_precision(blocks, np.array([r]), flavour, normaliser, "expected", cutoff)
    return float(value[0])


@lru_cache(maxsize=4096)
def chance_of_found_matches(matches: int, probability: float) -> float:
    """Return the expected AP of random matches in random order, given that at least one is correct.

    `probability` is the chance of a match to be correct. The result is the chance AP of r correct items among
    `matches`, weighted by P(r correct) / P(at least one correct) and summed over r >= 1. It applies to scores
    that skip lists without a correct match. Skipping raises the chance level: with 100 matches and 4000
    candidates it is about H(100)/100 = 0.05 instead of 1/4000, where H is the harmonic number.

    >>> round(chance_of_found_matches(100, 1e-9), 4), chance_of_found_matches(3, 1.0)
    (0.0519, 1.0)
    """
    from scipy.stats import binom

    r = np.arange(1, matches + 1)
    weight = binom.pmf(r, matches, probability)
    weight = weight / weight.sum()
    likely = np.flatnonzero(weight > _TAIL)
    return float(sum(weight[i] * chance_average_precision(matches, int(r[i])) for i in likely))


def chance_against_nearest(relevant: int, searched: Sequence[int]) -> float:
    """Return the expected AP of random distances if each distractor is the minimum of several distances.

    The list of a query holds R = `relevant` correct items at independent random distances. For each
    distractor image i it holds the smallest of m_i = `searched[i]` independent random distances. The k-th
    smallest correct distance u has the density of Beta(k, R - k + 1). A distractor is below it with
    probability p_i(u) = 1 - (1 - u)^m_i. With X distractors below, E[1/(k + X)] = integral of t^(k-1) prod_i
    (1 - p_i (1 - t)) dt over 0 … 1, so that

        chance = (1/R) sum_k integral Beta(u; k, R-k+1) k integral t^(k-1) prod_i (1 - p_i(u)(1 - t)) dt du.

    Gauss-Legendre quadrature evaluates both integrals with an error far below 1e-6. With 100 keypoints
    searched per image, the chance level is far below R / (R + images), because the minimum of 100 random
    distances is below a single one with probability 100/101.

    >>> round(chance_against_nearest(1, [1]), 4), round(chance_against_nearest(5, []), 4)
    (0.75, 1.0)
    """
    if relevant < 1:
        raise InputError(f"chance AP: needs at least one relevant item, found {relevant}")
    return _integral(relevant, tuple(sorted(int(m) for m in searched)))


@lru_cache(maxsize=4096)
def _integral(relevant: int, searched: tuple[int, ...]) -> float:
    u, wu = _rule(_NODES)
    # The inner integrand is a polynomial in t: this many nodes integrate it exactly.
    t, wt = _rule((len(searched) + relevant) // 2 + 1)
    sizes, times = np.unique(np.asarray(searched, np.int64), return_counts=True)
    log_product = np.zeros((len(u), len(t)))
    for m, n in zip(sizes, times, strict=True):
        miss = (1.0 - u) ** m
        log_product += n * np.log(miss[:, None] + (1.0 - miss[:, None]) * t[None])
    product = np.exp(log_product)
    total = 0.0
    density = np.full(len(u), float(relevant)) * (1.0 - u) ** (relevant - 1)
    for k in range(1, relevant + 1):
        inner = k * (product * (t ** (k - 1) * wt)[None]).sum(axis=1)
        total += float((wu * density * inner).sum())
        if k < relevant:
            density = density * (relevant - k) / k * u / (1.0 - u)
    return total / relevant


@cache
def _rule(nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1.0) / 2.0, w / 2.0
