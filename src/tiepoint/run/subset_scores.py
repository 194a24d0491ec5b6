# SPDX-License-Identifier: BSD-3-Clause
"""Estimate scores of a complete benchmark from the units of a subset."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..core.errors import InputError
from ..core.records import Records
from ..core.scores import Score
from ..stats.subsets import ORDERED, Z_95, Sample
from ..store.stored_run import SubsetFacts, SubsetStratum
from ..tasks.base import Task
from ..tasks.capabilities import unit_values_of

ESTIMATED = "estimated from"
"""Start of the notes of scores that a subset estimates."""


def subset_scores(subset: SubsetFacts, task: Task, records: Mapping[str, Records]) -> list[Score]:
    """Return the estimates of all scores of a subset, with intervals for the complete benchmark."""
    return [
        subset_score(subset, unit_values_of(task, records, subset.protocol, metric, group), metric, group)
        for metric, group in subset.scores
    ]


def subset_score(subset: SubsetFacts, values: Mapping[str, float], metric: str, group: str) -> Score:
    """Return the estimate of a score from the values of the units of a subset."""
    value, se = subset_estimate(subset, values)
    low, high = (None, None) if se is None else (value - Z_95 * se, value + Z_95 * se)
    n = len(subset.units)
    note = f"{ESTIMATED} {n:,} of {subset.total:,} {subset.unit}s; interval about these {subset.total:,}"
    return Score(metric, group, value, n, subset.protocol, low=low, high=high, note=note)


def subset_estimate(subset: SubsetFacts, values: Mapping[str, float]) -> tuple[float, float | None]:
    """Return the estimate of a score and its standard error.

    The error is None if a stratum has only one sampled unit. The design `ordered` estimates a stratum by the
    mean of its units, `pps` by the mean of the references plus the weighted deviations from them.
    """
    total, squares = 0.0, 0.0
    for stratum in subset.strata.values():
        own = _own(stratum, values)
        sample = sample_of(stratum)
        plain = subset.design == ORDERED
        total += stratum.weight * (sample.total(own) if plain else sample.difference(own))
        se = sample.standard_error(own if plain else own - np.array(stratum.expected))
        squares = math.nan if se is None else squares + (stratum.weight * se) ** 2
    return total, None if math.isnan(squares) else math.sqrt(squares)


def subset_difference(
    subset: SubsetFacts, first: Mapping[str, float], second: Mapping[str, float]
) -> tuple[float, float | None]:
    """Return the estimated difference first - second and its standard error, from the same units."""
    total, squares = 0.0, 0.0
    for stratum in subset.strata.values():
        gap = _own(stratum, first) - _own(stratum, second)
        sample = sample_of(stratum)
        total += stratum.weight * sample.total(gap)
        se = sample.standard_error(gap)
        squares = math.nan if se is None else squares + (stratum.weight * se) ** 2
    return total, None if math.isnan(squares) else math.sqrt(squares)


def sample_of(stratum: SubsetStratum) -> Sample:
    """Return the sample of a stratum."""
    return Sample(stratum.size, stratum.units, stratum.probability, stratum.expected, stratum.expected_mean)


def _own(stratum: SubsetStratum, values: Mapping[str, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    missing = [key for key in stratum.units if not math.isfinite(values.get(key, math.nan))]
    if missing:
        raise InputError(f"unit {missing[0]} has no value; a subset needs the values of all its units")
    return np.array([values[key] for key in stratum.units])
