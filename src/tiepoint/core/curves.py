# SPDX-License-Identifier: BSD-3-Clause
"""A curve as a mean of scene curves, so that it can have a band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SceneCurves:
    """One curve of a task in every scene, on a common grid.

    A task yields them from ``scene_curves(records)``. `curve` names what is drawn (``pr``,
    ``success_at_k`` …), `group` of what. `x` is (k,), `y` (scenes, k); the curve is the mean of the rows
    weighted by `weights` (scenes,), and `kinds` are the strata within which scenes are drawn for its band.
    """

    group: str
    curve: str
    x: NDArray[np.float64]
    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    y: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """The curve, (k,).

        >>> y = np.array([[0.0, 1.0], [1.0, 1.0]])
        >>> SceneCurves("all", "pr", np.arange(2.0), ("a", "b"), ("i", "i"), y, np.array([1.0, 3.0])).mean
        array([0.75, 1.  ])
        """
        return np.asarray(self.weights @ self.y / self.weights.sum())
