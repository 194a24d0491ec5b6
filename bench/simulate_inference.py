# SPDX-License-Identifier: BSD-3-Clause
"""Level and power of the tests of pooled scores by simulation, compared with other tests.

Usage: python bench/simulate_inference.py [SCENES ...] [--repeats 4000] [--bootstraps 2000] [--cases K ...]

The script samples benchmarks of SCENES scenes and five methods. Scenes differ in difficulty, for all methods
and for each one. If no two methods differ, the fraction of benchmarks in which a test finds any difference is
its level. Otherwise the fraction of differences that it finds is its power. The sign-flip test of tiepoint
(`flips`) is compared with another test. Below 40 scenes this is the Student t test by leaving out one scene
at a time, with Holm's adjustment (`t test`). From 40 scenes on it is the bootstrap of differences with step-
down max-T (`bootstrap`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from tiepoint.core.scores import PooledBins
from tiepoint.stats.interval_bounds import family_half_width, intervals_matching_tests, standard_error
from tiepoint.stats.multiplicity import TestFamily, step_down
from tiepoint.stats.paired import all_pairs
from tiepoint.stats.pooled import binned_statistic, pooled_contributions, scene_shares
from tiepoint.stats.resampling import resample, strata_of
from tiepoint.stats.samples import sample_of_pooled
from tiepoint.stats.sign_flip import sign_flip_family

Array = NDArray[np.float64]
METHODS, BINS, LINES = 5, 30, 40
FLIPS, RESAMPLES = 2000, 1000
BOOTSTRAP_SCENES = 40
EDGES = np.linspace(-4.5, 4.5, BINS - 1)
PAIRS = all_pairs(METHODS)
SCENE, OWN = 0.5, 0.25  # spread of scenes, for all methods and for each


@dataclass(frozen=True)
class Case:
    """Properties of the scenes of a benchmark; `opposite` methods win on one kind and lose on the other."""

    name: str
    statistic: str = "ap"
    kinds: int = 1
    between: bool = False
    unequal: bool = False
    opposite: float = 0.0
    spread: float = OWN


CASES = (
    Case("equal scenes"),
    Case("unequal scenes", unequal=True),
    Case("pairs between scenes", between=True),
    Case("between, unequal", between=True, unequal=True),
    Case("two kinds", kinds=2, between=True),
    Case("two kinds, unequal", kinds=2, between=True, unequal=True),
    Case("opposite in two kinds", kinds=2, between=True, opposite=0.15),
    Case("every other method varies more", statistic="auc", between=True, spread=0.75),
    Case("three kinds", kinds=3, between=True),
)


def binned(middle: Array) -> Array:
    """Return the fractions of normal distances by bin, (…, bins)."""
    edge = np.zeros((*middle.shape, 1))
    return np.diff(np.concatenate([edge, ndtr(EDGES - middle[..., None]), edge + 1], axis=-1), axis=-1)


def benchmarks(case: Case, n: int, gap: float, repeats: int) -> Iterator[list[PooledBins]]:
    """Yield benchmarks with newly sampled scenes; the distances of successive methods differ by `gap`."""
    rng = np.random.default_rng([n, CASES.index(case), int(1e6 * gap)])
    kinds = tuple("ivw"[k % case.kinds] for k in range(n))
    second = (np.arange(n) % case.kinds) * 2 - 1
    names = tuple(f"{kind}_{k:03d}" for k, kind in enumerate(kinds))
    steps = (1, 2, 3) if case.between else (0,)
    pairs = np.concatenate([np.stack([np.arange(n), (np.arange(n) + d) % n], axis=1) for d in steps])
    one, other = pairs.T
    odd = np.arange(METHODS) % 2
    own = np.where(odd == 1, case.spread, OWN)
    # Positives and negatives are normal, so this makes the AUC over all scenes independent of their spread.
    noise = 2 + 2 * SCENE**2
    wider = np.sqrt((noise + 2 * own**2) / (noise + 2 * OWN**2))
    apart = (0.8 + gap * np.arange(METHODS)) * wider
    middle = apart[:, None] + case.opposite * (2 * odd - 1)[:, None] * second * (case.kinds > 1)
    half = np.sqrt(0.5) if case.between else 0.5
    for _ in range(repeats):
        size = np.maximum(np.exp(rng.normal(0, 1, n)), 0.1) if case.unequal else np.ones(n)
        hard = SCENE * rng.normal(size=(2, 1, n)) + own[:, None] * rng.normal(size=(2, METHODS, n))
        near = rng.multinomial((LINES * size).astype(int), binned(hard[0] - middle))
        far_at = middle[:, one] / 2 + middle[:, other] / 2 + half * (hard[1][:, one] + hard[1][:, other])
        far = rng.multinomial((LINES * np.sqrt(size[one] * size[other])).astype(int), binned(far_at))
        rows = np.column_stack([np.repeat(pairs, BINS, axis=0), np.tile(np.arange(BINS), len(pairs))])
        yield [
            PooledBins(names, kinds, p.astype(float), np.column_stack([rows, q.ravel()]), case.statistic)
            for p, q in zip(near, far, strict=True)
        ]


class Scores:
    """Scores of all methods of a benchmark under rows of scene weights; all have the same pairs of scenes."""

    def __init__(self, first: list[PooledBins]) -> None:
        self.statistic = first[0].statistic
        self.pairs = first[0].negatives[::BINS, :2]
        self.strata = strata_of(first[0].kinds)
        n, size = len(self.strata), np.bincount(self.strata)
        more = (size / (size - 1))[self.strata]
        without = np.where(self.strata[:, None] == self.strata, more[:, None], 1.0) * (1 - np.eye(n))
        one = np.eye(n)
        self.few = self._joint(np.concatenate([np.ones((1, n)), 1 + one, 1 - one, without]))
        self.drawn = self._joint(resample(self.strata, resamples=RESAMPLES, seed=1).weights())
        self.lost = ((size - 1) / size)[self.strata]

    def _joint(self, weights: Array) -> tuple[Array, Array]:
        one, other = self.pairs.T
        return weights, np.where(one == other, weights[:, one], weights[:, one] * weights[:, other])

    def of(self, made: list[PooledBins], weights: tuple[Array, Array]) -> Array:
        """Return scores (rows, methods)."""
        tables = ([b.positives for b in made], [b.negatives[:, 3].astype(float) for b in made])
        both = []
        for side, table in zip(weights, tables, strict=True):
            counts = np.stack([x.reshape(-1, BINS) for x in table])
            now = side @ counts
            both.append(now * (counts.sum(axis=(1, 2)) / now.sum(axis=2).T).T[..., None])
        near, far = (x.reshape(-1, BINS) for x in both)
        return binned_statistic(near, far, self.statistic).reshape(len(made), -1).T

    def contributions(self, made: list[PooledBins]) -> tuple[Array, Array, Array]:
        """Return scores (methods,), contributions and leave-one-out influence (scenes, methods)."""
        rows = self.of(made, self.few)
        n = len(self.strata)
        value, twice, never, left = rows[0], rows[1 : 1 + n], rows[1 + n : 1 + 2 * n], rows[1 + 2 * n :]
        slopes = (twice - never) / 2
        parts = pooled_contributions(value, slopes, scene_shares(made[0]), self.strata)
        return value, parts, self.lost[:, None] * (value - left)


def holm(p: Array) -> Array:
    """Return family-wise p-values by Holm's step-down."""
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return out


def other_test(n: int) -> str:
    """Return the name of the test that sign flips are compared with, for a number of scenes."""
    return "t test" if n < BOOTSTRAP_SCENES else "bootstrap"


def other_p(scores: Scores, made: list[PooledBins], value: Array, influence: Array) -> tuple[Array, Array]:
    """Return the p-values of the other test, alone and family-wise."""
    a, b = PAIRS.T
    difference = value[a] - value[b]
    if len(scores.strata) < BOOTSTRAP_SCENES:
        se, df = standard_error(influence[:, a] - influence[:, b], scores.strata)
        p = 2 * stdtr(df, -np.abs(difference) / se)
        return p, holm(p)
    drawn = scores.of(made, scores.drawn)
    gaps = (drawn[:, a] - drawn[:, b]).T
    spread = gaps.std(axis=1, ddof=1)
    observed = np.abs(difference) / spread
    null = np.abs(gaps - gaps.mean(axis=1, keepdims=True)) / spread[:, None]
    null = np.concatenate([observed[:, None], null], axis=1)
    family: TestFamily = step_down(observed, lambda order: iter([null[order]]), exact=False)
    return family.p, family.adjusted


def simulate(case: Case, n: int, gap: float, repeats: int, with_other: int) -> str:
    """Return a line with both tests, alone and family-wise, in percent with Monte-Carlo errors."""
    other = other_test(n)
    found: dict[str, list[tuple[float, float]]] = {other: [], "flips": []}
    differences, reaches, separated = [], [], []
    scores = None
    for k, made in enumerate(benchmarks(case, n, gap, repeats)):
        if scores is None:
            scores = Scores(made)
            check = sample_of_pooled(made, resamples=2)
            assert check.contributions is not None
            _, parts, influence = scores.contributions(made)
            assert np.allclose(parts, check.contributions, rtol=0, atol=1e-9)
            assert np.allclose(influence, check.influence, rtol=0, atol=1e-9)
        value, parts, influence = scores.contributions(made)
        family = sign_flip_family(parts, PAIRS, scores.strata, flips=FLIPS, seed=k)
        results = {"flips": (family.p, family.adjusted)}
        if k < with_other:
            results[other] = other_p(scores, made, value, influence)
        for name, (p, adjusted) in results.items():
            joint = adjusted <= 0.05 + 1e-12
            alone = float((p <= 0.05 + 1e-12).mean())
            found[name].append((alone, float(joint.mean() if gap else joint.any())))
        if gap:
            gaps = influence[:, PAIRS[:, 0]] - influence[:, PAIRS[:, 1]]
            reach = family_half_width(influence, PAIRS, scores.strata, seed=k)
            differences.append(value[PAIRS[:, 0]] - value[PAIRS[:, 1]])
            reaches.append(reach * standard_error(gaps, scores.strata)[0])
            separated.append(family.adjusted <= 0.05 + 1e-12)
    line = f"{case.name:31s} {n:4d}  {'power' if gap else 'level'}"
    for name, rows in found.items():
        x = 100 * np.array(rows)
        mean, error = x.mean(axis=0), x.std(axis=0) / np.sqrt(len(x))
        line += f"  {name}: alone {mean[0]:5.1f} ±{error[0]:.1f}, family {mean[1]:5.1f} ±{error[1]:.1f}"
    if gap:
        d = np.array(differences)
        low, high = intervals_matching_tests(d, np.array(reaches), np.array(separated))
        held = 100 * ((low <= d.mean(axis=0)) & (d.mean(axis=0) <= high)).all(axis=1).mean()
        line += f"  all intervals hold: {held:.1f}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description="Level and power of tests of pooled scores.")
    parser.add_argument("scenes", nargs="*", type=int, default=[8, 20, 40, 115])
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument(
        "--bootstraps", type=int, default=2000, help="benchmarks on which the bootstrap is run"
    )
    parser.add_argument("--cases", nargs="*", type=int, default=range(len(CASES)))
    parser.add_argument("--what", choices=("level", "power", "both"), default="both")
    given = parser.parse_args()
    for n in given.scenes:
        for gap in {"level": (0.0,), "power": (1.0,), "both": (0.0, 1.0)}[given.what]:
            for case in (CASES[k] for k in given.cases):
                start = time.perf_counter()
                repeats = given.repeats if gap == 0 else given.repeats // 2
                compared = repeats if n < BOOTSTRAP_SCENES else min(given.bootstraps, repeats)
                line = simulate(case, n, 0.15 * gap * np.sqrt(8 / n), repeats, compared)
                print(f"{line}  ({repeats} benchmarks, {time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
