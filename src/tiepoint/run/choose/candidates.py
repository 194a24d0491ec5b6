# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of methods between which the choice differs: hand-crafted or learned, sparse or dense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...methods.registry import METHODS

_OUTSIDE = ("files", "vismatch", "exec")
"""Methods whose matches come from elsewhere, so that it is unknown what they are."""
GRID_MATCHES = 100
"""Number of matches from which they are tested for a grid."""
GRID_LINES = 256
"""Number of lines along the longer side of an image up to which points are on a grid."""
GRID_STEP_PX = 2.0
"""Minimum step of a grid. Points at whole pixels have smaller ones."""


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


def is_grid(points: NDArray[np.float64], size: tuple[int, int]) -> bool:
    """Return whether points (n, 2) are on a coarse grid, as those of flows and semi-dense matchers.

    `size` is (width, height) of their image. Points at whole pixels of a smaller image are not.

    >>> y, x = np.mgrid[:240:8, :320:8]
    >>> points = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    >>> is_grid(points, (320, 240)), is_grid(points / 8, (320, 240))
    (True, False)
    """
    if len(points) < GRID_MATCHES:
        return False
    gaps = [np.diff(np.unique(np.round(points[:, k], 1))) for k in (0, 1)]
    step = max(GRID_STEP_PX, max(size) / GRID_LINES)
    return all(len(gap) > 0 and gap.min() >= step for gap in gaps)
