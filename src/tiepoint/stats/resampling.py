# SPDX-License-Identifier: BSD-3-Clause
"""Strata of scenes, resamples within them as counts, and products with those that have no rounding."""

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

RESAMPLES = 10_000
Array = NDArray[np.float64]


def seed_of(*parts: object) -> int:
    """A seed from the content of what is resampled, so that it never depends on workers or order of calls.

    >>> seed_of(["i_a", "v_b"]) == seed_of(["i_a", "v_b"])
    True
    """
    return int(hash_json(list(parts))[:16], 16)


def exact_product(
    counts: Array, values: Array, *, total: float | None = None, own_grid: bool = False
) -> Array:
    """`counts @ values` with the same bits for any number of threads and any block size.

    Values are rounded to multiples of a power of two so small that every partial sum is an integer below
    2^53 times it: then the order of summation cannot matter. With 116 scenes the rounding is below 2^-44
    of the largest value.

    All columns share one power of two, so differences between columns are exact as well.

    Args:
        counts: integers in float64 (positive or negative), (r, s).
        values: (s, k), finite.
        total: the largest sum of absolute counts of a row, if it is known.
        own_grid: each column has a power of two of its own, as if it were multiplied alone.

    >>> exact_product(np.array([[2.0, 0.0]]), np.array([[0.5], [9.0]]))
    array([[1.]])
    """
    if total is None:
        total = float(np.abs(counts).sum(axis=1).max(initial=1.0))
    largest = np.abs(values).max(axis=0, initial=0.0) if own_grid else np.abs(values).max(initial=0.0)
    scale = grid(largest * max(total, 1.0))
    rounded = np.rint(values * scale)
    if values.shape[1] <= 2:
        # A few columns are not worth waking the threads of BLAS, which on a busy machine takes far longer.
        product: Array = np.einsum("rs,sk->rk", counts, rounded)
    else:
        product = counts @ rounded
    return product / scale


def grid(largest_sum: Any) -> Any:
    """The power of two by which values are multiplied before rounding, if no sum exceeds `largest_sum`.

    >>> bool(grid(3.0) == 2.0**50)
    True
    """
    return 2.0 ** np.clip(52 - np.ceil(np.log2(np.maximum(largest_sum, 1e-300))), -1000, 1000)


@dataclass(frozen=True)
class Resamples:
    """Counts of resampled scenes, stratum by stratum.

    Each resample draws n_h - 1 of the n_h scenes of stratum h with replacement and multiplies by
    n_h / (n_h - 1): the variance of a resampled mean then is s²/n, without the factor (n-1)/n by which
    the ordinary bootstrap is too narrow (it matters: strata may hold few scenes).
    """

    members: tuple[NDArray[np.int64], ...]
    counts: tuple[Array, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """What a count is multiplied by to be a weight, for each stratum."""
        return tuple(len(m) / (len(m) - 1) if len(m) > 1 else 1.0 for m in self.members)

    def weigh(self, values: Array, *, own_grid: bool = False) -> Array:
        """Sum of values (s, k) over the scenes of each resample, (r, k); see `exact_product`."""
        parts = zip(self.members, self.counts, self.factors, strict=True)
        total = np.zeros((len(self.counts[0]), values.shape[1]))
        for member, counts, factor in parts:
            drawn = max(len(member) - 1, 1)
            total += factor * exact_product(counts, values[member], total=drawn, own_grid=own_grid)
        return total

    def weights(self) -> Array:
        """The weight of every scene in every resample, (r, s)."""
        out = np.empty((len(self.counts[0]), sum(len(m) for m in self.members)))
        for member, counts, factor in zip(self.members, self.counts, self.factors, strict=True):
            out[:, member] = factor * counts
        return out


def resample(strata: NDArray[np.int64], *, resamples: int = RESAMPLES, seed: int) -> Resamples:
    """Draw scenes with replacement within strata; equal arguments share one draw in memory.

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
        drawn = rng.integers(0, n, size=(resamples, max(n - 1, 1)))
        flat = np.bincount((drawn + n * np.arange(resamples)[:, None]).ravel(), minlength=resamples * n)
        counts.append(flat.reshape(resamples, n).astype(np.float64))
    return Resamples(tuple(members), tuple(counts))


def strata_of(kinds: Sequence[str]) -> NDArray[np.int64]:
    """Number the strata of scenes, 0 … H-1 in alphabetical order of their kinds.

    A kind with a single scene says nothing about its own spread. Such kinds form one stratum together;
    if that still holds one scene, it joins the smallest other stratum (the first of equals).

    Args:
        kinds: the kind of each scene, (S,).

    Returns:
        Stratum of each scene, int64 (S,).

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
    # Renumber by first occurrence among the sorted kinds, so that gaps left by merging vanish.
    return np.unique(stratum, return_inverse=True)[1].astype(np.int64)


def stratum_members(strata: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Indices of the scenes of each stratum, in the order of the strata.

    >>> [m.tolist() for m in stratum_members(np.array([1, 0, 1]))]
    [[1], [0, 2]]
    """
    return [np.flatnonzero(strata == h) for h in range(int(strata.max(initial=-1)) + 1)]


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
