# SPDX-License-Identifier: BSD-3-Clause
"""Distances as the 2016 tool printed them and read them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.hbench.matching_results import matlab_numbers
from ...model.records import Records
from .protocols import HbenchQuirks

Floats = NDArray[np.float64]


def six_decimals(values: Floats) -> Floats:
    """What ``%.6f`` and reading back make of each value; infinity stays.

    Rounding the product with a million decides all but values next to a half, which go through the text.

    >>> six_decimals(np.array([0.12345649, 2.0, np.inf]))
    array([0.123456, 2.      ,      inf])
    """
    out = np.array(values, np.float64)
    finite = np.flatnonzero(np.isfinite(out))
    x = out[finite]
    scaled = x * 1e6
    unsure = np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) <= 2.0 * np.spacing(
        np.maximum(np.abs(scaled), 1.0)
    )
    unsure |= np.abs(scaled) >= 2.0**52
    rounded = np.rint(scaled) / 1e6
    for i in np.flatnonzero(unsure):
        rounded[i] = float(f"{x[i]:.6f}")
    out[finite] = rounded
    return out


def six_digits(values: Floats) -> Floats:
    """What MATLAB's ``%d`` (``%e`` for what is not whole) and reading back make of each value.

    >>> six_digits(np.array([7.17484312, 12.0, np.inf]))
    array([ 7.174843, 12.      ,       inf])
    """
    if not len(values):
        return np.array(values, np.float64)
    return np.array(matlab_numbers(np.asarray(values, np.float64)).split(","), np.float64)


def as_distance(records: Records, values: NDArray[Any], rules: HbenchQuirks) -> Floats:
    """Kept reference values as the rules want them: squared or not, single precision or not.

    Values that came from a results file are the method's own and stay as they are.
    """
    kept = np.asarray(values, np.float64)
    if records.meta["source"] == "results":
        return kept
    if records.meta["squared"] and not rules.squared:
        kept = np.sqrt(kept)
    if rules.single_precision:
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32).astype(np.float64)
    return kept


def printed_classification(records: Records, values: NDArray[Any], rules: HbenchQuirks) -> Floats:
    """Distances of a classification run after the round trip through its text, where the rules ask for it."""
    kept = as_distance(records, values, rules)
    return six_decimals(kept) if rules.six_decimals and records.meta["source"] != "results" else kept


def printed_matching(records: Records, values: NDArray[Any], rules: HbenchQuirks) -> Floats:
    """The same for a matching run."""
    kept = as_distance(records, values, rules)
    return six_digits(kept) if rules.six_digits and records.meta["source"] != "results" else kept
