# SPDX-License-Identifier: BSD-3-Clause
"""A score as a function of its scenes: mean over cells of the weighted mean over scenes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.scores import SceneValues
from .resampling import Resamples, strata_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SceneScore:
    """Checked scene values: `values` and `weights` are (cells, scenes), weight 0 where there is no value."""

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Array
    weights: Array

    @property
    def strata(self) -> NDArray[np.int64]:
        """Stratum of each scene."""
        return strata_of(self.kinds)

    @property
    def alone(self) -> tuple[str, ...]:
        """Scenes that are the only one of a cell, while the score has others: their spread is unknown.

        Such a scene is the mean of its cell, so that nothing shows how far it is from its kind.
        """
        if len(self.scenes) == 1:
            return ()
        there = self.weights > 0
        single = there[there.sum(axis=1) == 1].any(axis=0)
        return tuple(s for s, a in zip(self.scenes, single, strict=True) if a)

    def cell_means(self) -> Array:
        """Weighted mean over scenes of each cell, (cells,)."""
        means: Array = (self.weights * self.values).sum(axis=1) / self.weights.sum(axis=1)
        return means

    def value(self) -> float:
        """The score."""
        return float(self.cell_means().mean())

    def influence(self) -> Array:
        """What each scene adds to the error of the score, (scenes,); their sum is 0.

        u_s = mean over cells of w_cs (x_cs - mean_c) / W_c. For a plain mean of n scenes: (x_s - mean)/n.
        """
        share = self.weights / self.weights.sum(axis=1, keepdims=True)
        out: Array = (share * (self.values - self.cell_means()[:, None])).mean(axis=0)
        return out

    def contributions(self) -> Array:
        """What each scene adds to the score itself, (scenes,); their sum is the score."""
        share = self.weights / self.weights.sum(axis=1, keepdims=True)
        out: Array = (share * self.values).mean(axis=0)
        return out

    def evenly_weighed(self, draws: Resamples) -> bool:
        """Whether weights are equal within each stratum: then no resample changes the denominators."""
        return all((self.weights[:, m] == self.weights[:, m[:1]]).all() for m in draws.members)

    def resampled(self, draws: Resamples) -> Array:
        """The score of each resample, (r,). A cell that lost all its scenes is left out of that mean."""
        if self.evenly_weighed(draws):
            return draws.weigh(self.contributions()[:, None])[:, 0]
        above = draws.weigh((self.weights * self.values).T)
        below = draws.weigh(self.weights.T)
        with np.errstate(invalid="ignore", divide="ignore"):
            cells = np.where(below > 0, above / below, np.nan)
        if np.isnan(cells).any():
            present = np.isfinite(cells)
            out: Array = np.where(present, cells, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
            return out
        return np.asarray(cells.mean(axis=1))


def make_scene_score(given: SceneValues) -> SceneScore:
    """Check scene values, order scenes by name, leave out scenes and cells without any value.

    Raises:
        InputError: shapes that do not fit, infinite values, weights that are negative or not finite.

    >>> s = make_scene_score(SceneValues(("a", "b"), ("i", "i"), np.array([[0.2, 0.4], [np.nan, 0.8]])))
    >>> round(s.value(), 12)
    0.55
    """
    values = np.atleast_2d(np.asarray(given.cells, dtype=np.float64))
    n = len(given.scenes)
    if values.shape[1] != n or len(given.kinds) != n:
        raise InputError(
            f"scene values: {n} scenes, {len(given.kinds)} kinds and cells of shape {values.shape}; "
            "expected one kind and one column of cells per scene"
        )
    if len(set(given.scenes)) != n:
        twice = next(s for s in given.scenes if given.scenes.count(s) > 1)
        raise InputError(f"scene values: scene {twice!r} is listed twice; give one column per scene")
    weights = np.ones_like(values) if given.weights is None else np.asarray(given.weights, dtype=np.float64)
    weights = np.broadcast_to(weights, values.shape)
    if np.isinf(values).any() or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("scene values: values must not be infinite, weights must be finite and not negative")
    weights = np.where(np.isnan(values), 0.0, weights)
    values = np.where(weights > 0, values, 0.0)
    used = np.flatnonzero((weights > 0).any(axis=0))
    # By name, so that no result depends on the order in which scenes were given.
    used = np.array(sorted(used.tolist(), key=lambda s: given.scenes[s]), dtype=np.int64)
    kept = np.flatnonzero((weights > 0).any(axis=1))
    scenes = tuple(given.scenes[s] for s in used)
    kinds = tuple(given.kinds[s] for s in used)
    return SceneScore(scenes, kinds, values[kept][:, used], weights[kept][:, used])
