# SPDX-License-Identifier: BSD-3-Clause
"""Informative subsets: sample units along a line of expected values, and estimate the score from them.

The units of a stratum are sorted by their mean value over reference methods, and sampled systematically along
this line. The sample then has easy, medium and hard units in the proportions of the complete list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .racing import keyed_uniform

Array = NDArray[np.float64]
ORDERED, PPS = DESIGNS = ("ordered", "pps")
PREFIX = "tiepoint-subset"
FLOOR = 0.05
"""Amount added to the variance of a unit's values over references, so that every unit can be sampled."""
DIGITS = 9
"""Decimals to which expected values are rounded before sorting."""
_SLACK = 1e-12
Z_95 = 1.96


@dataclass(frozen=True)
class Sample:
    """Sampled units of one stratum, in the order of their expected values.

    `size` is the number of units of the stratum. `probability` and `expected` have the inclusion probability
    and the mean over references of every sampled unit, `expected_mean` that of the complete stratum.
    """

    size: int
    units: tuple[str, ...]
    probability: tuple[float, ...]
    expected: tuple[float, ...]
    expected_mean: float

    @property
    def weights(self) -> Array:
        """Weights of the sampled units: 1 / (size times probability)."""
        return 1.0 / (self.size * np.array(self.probability))

    def total(self, values: ArrayLike) -> float:
        """Return the Horvitz-Thompson estimate of the stratum's mean: the weighted sum of the values."""
        return float((self.weights * np.asarray(values)).sum())

    def hajek(self, values: ArrayLike) -> float:
        """Return the Hájek estimate of the stratum's mean: the weighted sum divided by the sum of weights."""
        return self.total(values) / float(self.weights.sum())

    def difference(self, values: ArrayLike) -> float:
        """Return the difference estimate: the mean expected value plus the weighted sum of deviations."""
        return self.expected_mean + self.total(np.asarray(values) - np.array(self.expected))

    def standard_error(self, values: ArrayLike) -> float | None:
        """Return the standard error of a weighted sum of values. None if only one unit is sampled.

        It is 0 if all units are sampled. It is computed from differences between neighbours in the order of
        expected values, because the sample is systematic.
        """
        n = len(self.units)
        if n >= self.size:
            return 0.0
        if n < 2:
            return None
        z = self.weights * np.asarray(values)
        squares = float((np.diff(z) ** 2).sum())
        return math.sqrt(max(0.0, 1 - sum(self.probability) / self.size) * n / (2 * (n - 1)) * squares)


def sample_units(
    references: Sequence[Mapping[str, float]],
    n: int,
    *,
    design: str = ORDERED,
    seed: int = 0,
    stratum: str = "",
) -> Sample:
    """Sample n units of a stratum.

    Args:
        references: values of all units of the stratum, between 0 and 1, for every reference method.
        n: number of units to sample; all units if the stratum has no more.
        design: `ordered` samples every unit with the same probability. `pps` prefers units on which the
            references differ.
        seed: seed of the start and of the order of equal units.
        stratum: name of the stratum, part of the random start.

    >>> made = sample_units([{"a": 0.1, "b": 0.9, "c": 0.5, "d": 0.2}], 2)
    >>> made.units, made.weights.tolist()
    (('a', 'c'), [0.5, 0.5])
    """
    if design not in DESIGNS:
        raise InputError(f"`design` is {design!r}; expected {' or '.join(DESIGNS)}")
    if n < 1:
        raise InputError(f"a subset needs at least 1 unit, found {n}")
    if not references:
        raise InputError("a subset needs at least one reference; run a method on all units first")
    keys = list(references[0])
    table = np.array([[own[key] for key in keys] for own in references])
    expected, variance = table.mean(axis=0), table.var(axis=0)
    uniform = [keyed_uniform(PREFIX, seed, key) for key in keys]
    line = sorted(range(len(keys)), key=lambda i: (round(expected[i], DIGITS), uniform[i], keys[i]))
    probability = inclusion(variance, n, design)
    start = keyed_uniform(PREFIX, seed, f"start|{stratum}")
    chosen, before = [], 0.0
    for i in line:
        after = before + probability[i]
        if math.floor(after - start + _SLACK) > math.floor(before - start + _SLACK):
            chosen.append(i)
        before = after
    return Sample(
        len(keys),
        tuple(keys[i] for i in chosen),
        tuple(float(probability[i]) for i in chosen),
        tuple(float(expected[i]) for i in chosen),
        float(expected.mean()),
    )


def inclusion(variance: ArrayLike, n: int, design: str = ORDERED) -> Array:
    """Return the probability with which each unit of a stratum is sampled. They sum to n.

    >>> inclusion([0.0, 0.2], 1).tolist(), inclusion([0.0, 9.0, 0.0], 2, "pps").round(3).tolist()
    ([0.5, 0.5], [0.5, 1.0, 0.5])
    """
    spread = np.sqrt(np.asarray(variance, np.float64) + FLOOR)
    if n >= len(spread):
        return np.ones(len(spread))
    if design == ORDERED:
        return np.full(len(spread), n / len(spread))
    made = np.zeros(len(spread))
    free = np.ones(len(spread), bool)
    while True:
        made[free] = (n - (~free).sum()) * spread[free] / spread[free].sum()
        over = free & (made > 1)
        if not over.any():
            return made
        made[over], free[over] = 1.0, False
