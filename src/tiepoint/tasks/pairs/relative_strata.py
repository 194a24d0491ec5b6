# SPDX-License-Identifier: BSD-3-Clause
"""Strata of image pairs: by rotation, baseline, zoom, overlap, number of matches, and what the data says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records

EDGES: dict[str, tuple[float, ...]] = {
    "rotation_deg": (0, 15, 30, 60, 180),
    "overlap": (0.0, 0.1, 0.3, 0.5, 0.7, 1.0),
    "matches": (0, 50, 200, 1000, float("inf")),
    "zoom": (1.0, 1.25, 1.5, 2.0, float("inf")),
}
"""Limits of the bins; a bin holds its lower limit, the last one both."""
QUARTILES_FROM = 8
"""Below this many pairs the lengths of baselines are not told apart."""


def strata(records: Sequence[Records]) -> Iterator[tuple[dict[str, str], NDArray[np.bool_]]]:
    """Groups of pairs with more than one pair in all: their parts, and which records they hold."""
    for name, edges in EDGES.items():
        values = np.array([_stratum_number(r, name) for r in records])
        if np.isfinite(values).any():
            yield from _bins(name, values, edges)
    lengths = np.array([_stratum_number(r, "baseline") for r in records])
    if len(records) >= QUARTILES_FROM and np.isfinite(lengths).all():
        limits = np.quantile(lengths, [0.25, 0.5, 0.75])
        for i, label in enumerate(("shortest", "short", "long", "longest")):
            yield {"baseline": label}, np.searchsorted(limits, lengths, side="left") == i
    for name in sorted({k for r in records for k, v in r.meta["facts"].items() if isinstance(v, str)}):
        values_ = np.array([str(r.meta["facts"].get(name, "")) for r in records])
        for value in sorted(set(values_) - {""}):
            yield {name: value}, values_ == value


def _bins(
    name: str, values: NDArray[np.float64], edges: Sequence[float]
) -> Iterator[tuple[dict[str, str], NDArray[np.bool_]]]:
    for low, high in pairwise(edges):
        last = high == edges[-1]
        chosen = (values >= low) & ((values <= high) if last else (values < high))
        if chosen.any():
            yield {name: f"{low:g}+" if np.isinf(high) else f"{low:g}-{high:g}"}, chosen


def _stratum_number(record: Records, name: str) -> float:
    """The value of a pair, NaN where it is not known."""
    found = record.meta["matches"] if name == "matches" else record.meta["strata"].get(name)
    return float("nan") if found is None else float(found)
