# SPDX-License-Identifier: BSD-3-Clause
"""Classify methods as hand-crafted or learned and as sparse or dense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...methods.registry import METHODS

_OUTSIDE = ("files", "vismatch", "exec")
"""Methods that get their matches from other programs or files, so that their kind is unknown."""
GRID_MATCHES = 100
"""Minimum number of matches for the test whether they are on a grid."""
GRID_POSITIONS = 512
"""Maximum number of different coordinates per axis that points without a grid are assumed to have."""
GRID_SHARE = 0.5
"""Points are on a grid if they have at most this share of the expected number of different coordinates."""


def is_classical(config: Mapping[str, Any]) -> bool:
    """Return whether a method consists of built-in hand-crafted parts.

    >>> is_classical({"base": {"method": "keypoints/sift"}, "matcher": "mnn"})
    True
    >>> is_classical({"method": "pairs/vismatch"}), is_classical({"class": "Mine", "source": "…"})
    (False, False)
    """
    known = {f"{e.family}/{e.name}": e for e in METHODS}
    for part in _parts(config):
        if "class" in part:
            return False
        entry = known.get(str(part.get("method", "")))
        if entry is not None and (entry.needs not in (None, "opencv") or entry.name in _OUTSIDE):
            return False
    return True


def _parts(config: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping inside a config."""
    if isinstance(config, Mapping):
        yield config
        for value in config.values():
            yield from _parts(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _parts(value)


def is_dense_config(config: Mapping[str, Any]) -> bool:
    """Return whether a config is that of a method of the family `dense`."""
    return str(config.get("method", "")).startswith("dense/")


def is_grid(points: NDArray[np.float64]) -> bool:
    """Return whether points (n, 2) are on a coarse grid, as those of flows and semi-dense matchers.

    Points are on a grid if their x and their y coordinates have at most half as many distinct values as
    random whole pixels in the same area. The overlaid grids of a detector that works at a few scales count as
    one grid.

    >>> y, x = np.mgrid[:240:8, :320:8]
    >>> points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    >>> is_grid(points), is_grid(np.random.default_rng(0).integers(0, 240, (900, 2)).astype(float))
    (True, False)
    """
    n = len(points)
    if n < GRID_MATCHES:
        return False
    for values in np.round(points.T, 1):
        positions = min(float(np.ptp(values)) + 1, GRID_POSITIONS)
        expected = positions * (1 - (1 - 1 / positions) ** n)
        if len(np.unique(values)) > GRID_SHARE * expected:
            return False
    return True
