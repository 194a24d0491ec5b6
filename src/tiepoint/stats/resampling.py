# SPDX-License-Identifier: BSD-3-Clause
"""Stratified bootstrap resampling of scenes, and exact products with the resampled counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.hashing import hash_json
from ..core.scores import SceneValues

Ints = NDArray[np.int64]

RESAMPLES = 10_000
Array = NDArray[np.float64]


def seed_of(*parts: object) -> int:
    """Derive a random seed from the data to resample, independent of workers and call order.

    >>> seed_of(["i_a", "v_b"]) == seed_of(["i_a", "v_b"])
    True
    """
    return int(hash_json(list(parts))[:16], 16)


def exact_product(
    counts: Array, values: Array, *, total: float | None = None, own_grid: bool = False
) -> Array:
    """Compute `counts @ values`, bit-identical for any number of threads and any block size.

    Values are rounded to multiples of a small power of two. It is chosen so that every partial sum is exact
    in float64, and the order of summation does not matter. With 116 scenes the rounding is below 2^-44 of the
    largest value. All columns share one power of two, so that differences between columns are exact as well.

    `counts` (r, s) are integers in float64, and `values` (s, k) are finite. `total` is the largest sum of
    absolute counts of a row, if known. With `own_grid` each column has a separate power of two, as if it were
    multiplied alone.

    >>> exact_product(np.array([[2.0, 0.0]]), np.array([[0.5], [9.0]]))
    array([[1.]])
    """
    if total is None:
        total = float(np.abs(counts).sum(axis=1).max(initial=1.0))
    largest = np.abs(values).max(axis=0, initial=0.0) if own_grid else np.abs(values).max(initial=0.0)
    scale = grid(largest * max(total, 1.0))
    rounded = np.rint(values * scale)
    if values.shape[1] <= 2:
        # For few columns starting BLAS threads takes far longer on a busy machine.
        product: Array = np.einsum("rs,sk->rk", counts, rounded)
    else:
        product = counts @ rounded
    return product / scale


def grid(largest_sum: Any) -> Any:
    """Return the power of two that scales values before rounding, given the largest possible sum.

    >>> bool(grid(3.0) == 2.0**50)
    True
    """
    return 2.0 ** np.clip(52 - np.ceil(np.log2(np.maximum(largest_sum, 1e-300))), -1000, 1000)


@dataclass(frozen=True)
class Resamples:
    """Bootstrap resamples of scenes, as counts by stratum.

    Each resample contains n_h - 1 of the n_h scenes of stratum h, sampled with replacement, and counts are
    multiplied by n_h / (n_h - 1). The variance of a resampled mean is then s²/n. The ordinary bootstrap
    underestimates it by the factor (n-1)/n, which matters for strata with few scenes.
    """

    members: tuple[Ints, ...]
    counts: tuple[Array, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """Factor that converts counts to weights, for each stratum."""
        return tuple(len(m) / (len(m) - 1) if len(m) > 1 else 1.0 for m in self.members)

    def weigh(self, values: Array, *, own_grid: bool = False) -> Array:
        """Return the sum of values (s, k) over the scenes of each resample, (r, k); see `exact_product`."""
        parts = zip(self.members, self.counts, self.factors, strict=True)
        total = np.zeros((len(self.counts[0]), values.shape[1]))
        for member, counts, factor in parts:
            draws = max(len(member) - 1, 1)
            total += factor * exact_product(counts, values[member], total=draws, own_grid=own_grid)
        return total

    def weights(self) -> Array:
        """Return the weight of every scene in every resample, (r, s)."""
        out = np.empty((len(self.counts[0]), sum(len(m) for m in self.members)))
        for member, counts, factor in zip(self.members, self.counts, self.factors, strict=True):
            out[:, member] = factor * counts
        return out


def resample(strata: Ints, *, resamples: int = RESAMPLES, seed: int) -> Resamples:
    """Sample scenes with replacement within strata. Results are cached by arguments.

    >>> r = resample(np.array([0, 0, 0, 1, 1]), resamples=4, seed=1)
    >>> [c.sum(axis=1).tolist() for c in r.counts]
    [[2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0]]
    """
    return _resample(np.ascontiguousarray(strata, dtype=np.int64).tobytes(), resamples, seed)


@lru_cache(maxsize=8)
def _resample(strata: bytes, resamples: int, seed: int) -> Resamples:
    rng = np.random.Generator(np.random.PCG64(seed))
    members = stratum_members(np.frombuffer(strata, dtype=np.int64))
    counts = []
    for member in members:
        n = len(member)
        sampled = rng.integers(0, n, size=(resamples, max(n - 1, 1)))
        flat = np.bincount((sampled + n * np.arange(resamples)[:, None]).ravel(), minlength=resamples * n)
        counts.append(flat.reshape(resamples, n).astype(np.float64))
    return Resamples(tuple(members), tuple(counts))


def strata_of(kinds: Sequence[str]) -> Ints:
    """Number the strata of scenes, 0 … H-1 in alphabetical order of their kinds.

    The spread of a kind with a single scene is unknown. All such kinds form one stratum. If that stratum has
    only one scene, it is merged into the smallest other stratum (the first one if several are equally small).

    Returns int64 (scenes,).

    >>> strata_of(["v", "i", "v", "i"]).tolist(), strata_of(["v", "i", "v", "x"]).tolist()
    ([1, 0, 1, 0], [1, 0, 1, 0])
    """
    names, stratum = np.unique(np.asarray(kinds, dtype=object).astype(str), return_inverse=True)
    size = np.bincount(stratum, minlength=len(names))
    single = np.flatnonzero(size == 1)
    if len(single) and len(names) > 1:
        if len(single) == 1:
            others = np.flatnonzero(size > 1)
            target = others[np.argmin(size[others])]
        else:
            target = single[0]
        stratum = np.where(np.isin(stratum, single), target, stratum)
    # Renumber without the gaps left by merging.
    return np.unique(stratum, return_inverse=True)[1].astype(np.int64)


def stratum_members(strata: Ints) -> list[Ints]:
    """Return the indices of the scenes of each stratum, in the order of the strata.

    >>> [m.tolist() for m in stratum_members(np.array([1, 0, 1]))]
    [[1], [0, 2]]
    """
    return [np.flatnonzero(strata == h) for h in range(int(strata.max(initial=-1)) + 1)]


@dataclass(frozen=True)
class SceneScore:
    """Checked scene values: `values` and `weights` (cells, scenes). A missing value has weight 0."""

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Array
    weights: Array

    @property
    def strata(self) -> Ints:
        """Stratum of each scene."""
        return strata_of(self.kinds)

    @property
    def singleton_scenes(self) -> tuple[str, ...]:
        """Scenes of unknown spread, because each is the only scene of a cell. Empty for a single scene."""
        if len(self.scenes) == 1:
            return ()
        present = self.weights > 0
        single = present[present.sum(axis=1) == 1].any(axis=0)
        return tuple(s for s, only in zip(self.scenes, single, strict=True) if only)

    def cell_means(self) -> Array:
        """Return the weighted mean over scenes of each cell, (cells,)."""
        means: Array = (self.weights * self.values).sum(axis=1) / self.weights.sum(axis=1)
        return means

    def value(self) -> float:
        """Return the score."""
        return float(self.cell_means().mean())

    def influence(self) -> Array:
        """Return the influence of each scene on the score, (scenes,). The sum over scenes is 0.

        u_s = mean over cells of w_cs (x_cs - mean_c) / W_c. For a plain mean of n scenes: (x_s - mean)/n.
        """
        share = self.weights / self.weights.sum(axis=1, keepdims=True)
        out: Array = (share * (self.values - self.cell_means()[:, None])).mean(axis=0)
        return out

    def contributions(self) -> Array:
        """Return the contribution of each scene to the score, (scenes,). The sum over scenes is the score."""
        share = self.weights / self.weights.sum(axis=1, keepdims=True)
        out: Array = (share * self.values).mean(axis=0)
        return out

    def has_even_weights(self, samples: Resamples) -> bool:
        """Return whether weights are equal within each stratum. Sums of weights are then constant."""
        return all((self.weights[:, m] == self.weights[:, m[:1]]).all() for m in samples.members)

    def resample_scores(self, samples: Resamples) -> Array:
        """Return the score of each resample, (r,): the mean over cells that have scenes in the resample."""
        if self.has_even_weights(samples):
            return samples.weigh(self.contributions()[:, None])[:, 0]
        above = samples.weigh((self.weights * self.values).T)
        below = samples.weigh(self.weights.T)
        with np.errstate(invalid="ignore", divide="ignore"):
            cells = np.where(below > 0, above / below, np.nan)
        if np.isnan(cells).any():
            present = np.isfinite(cells)
            out: Array = np.where(present, cells, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
            return out
        return np.asarray(cells.mean(axis=1))


@lru_cache(maxsize=64)
def _order_by_name(scenes: tuple[str, ...]) -> Ints:
    """Return the indices of scenes sorted by name. Raise an error for a duplicate scene."""
    if len(set(scenes)) != len(scenes):
        twice = next(s for s in scenes if scenes.count(s) > 1)
        raise InputError(f"scene values: duplicate scene {twice!r}; pass one column per scene")
    return np.array(sorted(range(len(scenes)), key=scenes.__getitem__), dtype=np.int64)


def make_scene_score(given: SceneValues) -> SceneScore:
    """Check scene values, sort scenes by name, and remove scenes and cells without any value.

    Raises:
        InputError: Shapes are inconsistent, values are infinite, or weights are negative or not finite.

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
    by_name = _order_by_name(tuple(given.scenes))
    weights = np.ones_like(values) if given.weights is None else np.asarray(given.weights, dtype=np.float64)
    weights = np.broadcast_to(weights, values.shape)
    if np.isinf(values).any() or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("scene values: values must not be infinite, weights must be finite and not negative")
    weights = np.where(np.isnan(values), 0.0, weights)
    values = np.where(weights > 0, values, 0.0)
    # By name, so that no result depends on the order of the input.
    used = by_name[np.any(weights[:, by_name] > 0, axis=0)]
    cells = np.flatnonzero((weights > 0).any(axis=1))
    scenes, kinds = given.scenes, given.kinds
    if len(used) < n or (np.diff(used) < 0).any():
        scenes, kinds = (tuple(names[s] for s in used) for names in (scenes, kinds))
    return SceneScore(tuple(scenes), tuple(kinds), values[cells][:, used], weights[cells][:, used])
