# SPDX-License-Identifier: BSD-3-Clause
"""What a method without information scores where distractors are nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...model.errors import InputError

_NODES = 400


def chance_against_nearest(relevant: int, searched: Sequence[int]) -> float:
    """Expected AP of `relevant` random distances against the smallest of each of several random groups.

    The list of a query holds R right items at independent random distances and, for each distractor image,
    the smallest of m_i independent random distances. The k-th smallest right distance u has the density of
    Beta(k, R - k + 1); a distractor lies below it with probability p_i(u) = 1 - (1 - u)^m_i; and
    E[1/(k + X)] = integral of t^(k-1) prod_i (1 - p_i (1 - t)) dt over 0 … 1, so that

        chance = (1/R) sum_k integral Beta(u; k, R-k+1) k integral t^(k-1) prod_i (1 - p_i(u)(1 - t)) dt du.

    Both integrals are taken by Gauss-Legendre quadrature, far below 1e-6 of error.

    Trap: with 100 keypoints searched per image the chance level is far under R / (R + images), because a
    minimum of 100 beats one draw 100 times out of 101.

    >>> round(chance_against_nearest(1, [1]), 4), round(chance_against_nearest(5, []), 4)
    (0.75, 1.0)
    """
    if relevant < 1:
        raise InputError(f"chance needs at least one right item, found {relevant}")
    return _integral(relevant, tuple(sorted(int(m) for m in searched)))


@lru_cache(maxsize=4096)
def _integral(relevant: int, searched: tuple[int, ...]) -> float:
    u, wu = _rule(_NODES)
    # The inner integrand is a polynomial in t: so many nodes integrate it exactly.
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
