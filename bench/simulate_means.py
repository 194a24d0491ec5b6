# SPDX-License-Identifier: BSD-3-Clause
"""Level and power of the sign-flip and bootstrap-t tests of scene means, and limits of skewness.

Usage: python bench/simulate_means.py [--what tests|skewness] [--pairs 10000] [--families 6000]

`tests` prints the tables of docs/inference.md. Two methods: the scene differences have mean 0 (level)
or 3 standard errors (power, upwards and downwards in turn). Five methods: the first one does not vary, each
other one has its own noise (level), and each is 1.5 standard errors from the next (power). All ten pairs form
a family. `skewness` prints the 99 % quantile of the absolute skewness of normal samples, which
`tiepoint.stats.skewness` stores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tiepoint.stats.paired import all_pairs
from tiepoint.stats.sign_flip import sign_blocks, sign_flip_family
from tiepoint.stats.skewness import SIZES, skewness

Array = NDArray[np.float64]
Rng = np.random.Generator
SCENES = (6, 8, 12, 20, 60)
METHODS, CHUNK = 5, 100
DRAWS = {1: 999, 10: 499}
"""Random sign patterns and resamples by number of pairs; every chunk of benchmarks has new ones."""
SHIFT = 3.0


def _unequal(rng: Rng, size: tuple[int, ...]) -> Array:
    return rng.normal(size=size) * np.exp(rng.normal(size=size)) / np.e


def _rare(rng: Rng, size: tuple[int, ...]) -> Array:
    return ((rng.random(size) < 0.1) - 0.1 + 0.1 * rng.normal(size=size)) / np.sqrt(0.1)


NOISE: dict[str, Callable[[Rng, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails (t, 3 degrees of freedom)": lambda rng, size: rng.standard_t(3, size) / np.sqrt(3),
    "skewed (exponential)": lambda rng, size: rng.exponential(size=size) - 1,
    "very skewed (log-normal)": lambda rng, size: (rng.lognormal(size=size) - np.exp(0.5)) / 2.1612,
    "unequal scenes (spread varies by a factor e)": _unequal,
    "rare large differences (1 scene in 10)": _rare,
}
"""Noise with mean 0 and, up to rounding, variance 1."""


def benchmark(name: str, n: int, repeats: int, pairs: int, *, shift: float, rng: Rng) -> Array:
    """Sample scene differences (repeats, pairs, scenes)."""
    move = shift / np.sqrt(n)
    if pairs == 1:
        sign = np.where(np.arange(repeats) % 2, -1.0, 1.0)[:, None]
        return (NOISE[name](rng, (repeats, n)) + sign * move)[:, None]
    noise = NOISE[name](rng, (repeats, METHODS, n))
    noise[:, 0] = 0
    sign = np.where(rng.random((repeats, 1, 1)) < 0.5, -1, 1)
    noise += sign * move * np.arange(METHODS)[:, None]
    a, b = all_pairs(METHODS).T
    return noise[:, a] - noise[:, b]


def studentise(sums: Array, squares: Array, n: int) -> Array:
    """Return |t| from sums and sums of squares over n scenes."""
    spread = np.maximum(n / (n - 1) * (squares - sums**2 / n), 1e-13 * np.maximum(squares, 1e-300))
    return np.abs(sums) / np.sqrt(spread)


def step_down_p(observed: Array, null: Array) -> Array:
    """Return family-wise p-values (repeats, pairs) from null statistics (repeats, pairs, draws)."""
    order = np.argsort(-observed, axis=1)
    seen = np.take_along_axis(observed, order, 1)
    rows = np.take_along_axis(null, order[..., None], 1)
    largest = np.maximum.accumulate(rows[:, ::-1], axis=1)[:, ::-1]
    p = (largest >= seen[..., None] * (1 - 1e-10)).mean(axis=2)
    out = np.empty_like(p)
    np.put_along_axis(out, order, np.maximum.accumulate(p, axis=1), 1)
    return out


def sign_flip_p(d: Array, draws: int, seed: int) -> Array:
    """Return family-wise p-values of the sign-flip test for differences (repeats, pairs, scenes)."""
    n = d.shape[2]
    exact = n <= 12
    signs = np.concatenate(list(sign_blocks(n, 2**n if exact else draws, seed)), axis=1)
    squares = (d**2).sum(axis=2)[..., None]
    observed = studentise(d.sum(axis=2, keepdims=True), squares, n)[..., 0]
    return step_down_p(observed, studentise(d @ signs, squares, n))


def bootstrap_t_p(d: Array, draws: int, seed: int) -> Array:
    """Return family-wise p-values of the symmetric bootstrap-t for differences (repeats, pairs, scenes)."""
    n = d.shape[2]
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws).T.astype(float)
    centred = d - d.mean(axis=2, keepdims=True)
    observed = studentise(d.sum(axis=2), (d**2).sum(axis=2), n)
    null = studentise(centred @ counts, centred**2 @ counts, n)
    return step_down_p(observed, np.concatenate([observed[..., None], null], axis=2))


TESTS = {"sign flips": sign_flip_p, "bootstrap-t": bootstrap_t_p}


def check() -> None:
    """Check that the vectorised sign flips give the p-values of the package."""
    rng = np.random.default_rng(0)
    x = rng.exponential(size=(8, METHODS))
    pairs = all_pairs(METHODS)
    d = (x[:, pairs[:, 0]] - x[:, pairs[:, 1]]).T[None]
    family = sign_flip_family(x, pairs, np.zeros(8, dtype=np.int64))
    assert np.allclose(sign_flip_p(d, 0, 0)[0], family.adjusted)


def cell(name: str, n: int, pairs: int, repeats: int, *, power: bool) -> dict[str, float]:
    """Return the percentage of benchmarks (level) or pairs (power) with a difference, by test."""
    rng = np.random.default_rng([list(NOISE).index(name), n, pairs, power])
    shift = (SHIFT if pairs == 1 else SHIFT / 2) * power
    found: dict[str, list[Array]] = {test: [] for test in TESTS}
    for start in range(0, repeats, CHUNK):
        d = benchmark(name, n, min(CHUNK, repeats - start), pairs, shift=shift, rng=rng)
        for test, p_values in TESTS.items():
            claimed = p_values(d, DRAWS[pairs], int(rng.integers(2**32))) <= 0.05 + 1e-12
            found[test].append(claimed.mean(axis=1) if power else claimed.any(axis=1))
    return {test: 100 * float(np.concatenate(own).mean()) for test, own in found.items()}


def table(pairs: int, repeats: int, *, power: bool) -> None:
    """Print a Markdown table: noise by number of scenes, sign flips / bootstrap-t."""
    what = "power" if power else "level"
    heads = [f"{what}, {'two' if pairs == 1 else 'five'} methods, %", *(f"{n} scenes" for n in SCENES)]
    print(f"| {' | '.join(heads)} |")
    print("|---|" + "---:|" * len(SCENES))
    for name in NOISE:
        cells = [cell(name, n, pairs, repeats, power=power) for n in SCENES]
        texts = [" / ".join(f"{v:.1f}" for v in c.values()) for c in cells]
        print(f"| {' | '.join([name, *texts])} |", flush=True)
    print()


def skewness_limits(samples: int) -> None:
    """Print the 99 % quantile of the absolute skewness of normal samples, by size."""
    for n in SIZES:
        rng = np.random.default_rng([99, n])
        values = [np.abs(skewness(rng.normal(size=(n, samples // 20)))) for _ in range(20)]
        print(f"{n}: {np.quantile(np.concatenate(values), 0.99):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Level and power of tests of scene means.")
    parser.add_argument("--what", choices=("tests", "skewness"), default="tests")
    parser.add_argument("--pairs", type=int, default=10_000, help="benchmarks of two methods")
    parser.add_argument("--families", type=int, default=6_000, help="benchmarks of five methods")
    parser.add_argument("--samples", type=int, default=200_000, help="normal samples per size")
    given = parser.parse_args()
    start = time.perf_counter()
    if given.what == "skewness":
        skewness_limits(given.samples)
    else:
        check()
        for pairs, repeats in ((1, given.pairs), (10, given.families)):
            for power in (False, True):
                table(pairs, repeats, power=power)
            error = 100 * np.sqrt(0.05 * 0.95 / repeats)
            print(f"{repeats} benchmarks per cell; standard error of a level of 5 %: {error:.1f} points\n")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
