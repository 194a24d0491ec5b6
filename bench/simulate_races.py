# SPDX-License-Identifier: BSD-3-Clause
"""False claims of races on synthetic benchmarks: every goal, about the benchmark and about scenes.

`python bench/simulate_races.py` prints the table of docs/less-work.md. Benchmarks are drawn afresh in every
race: no published results are used. Options: `--races 2000`, `--seed 0`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiepoint.stats.racing import Race

Array = NDArray[np.float64]
UNITS = 200
"""Units of a benchmark. Races run to the last unit unless they end earlier."""


@dataclass(frozen=True)
class Result:
    """Wrong claims in a number of races, and the median number of units used."""

    name: str
    races: int
    wrong: int
    used: float


def wilson(wrong: int, races: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    >>> [round(x, 4) for x in wilson(25, 2000)]
    [0.0085, 0.0184]
    """
    p, n = wrong / races, races
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return float((middle - half) / (1 + z * z / n)), float((middle + half) / (1 + z * z / n))


def mirrored(rng: np.random.Generator, methods: int, draw: Callable[[int], Array]) -> tuple[Array, Array]:
    """Return weights (n,) and values (n, methods) of a benchmark on which all methods have the same score.

    Units come in groups of one size and weight in which the methods exchange their values, so that no method
    is ahead of another one.
    """
    groups = UNITS // methods
    base = draw(groups)
    values = np.concatenate([np.roll(base, k, axis=1) for k in range(methods)])
    weights = np.tile(rng.lognormal(0, 1, groups), methods)
    return weights / weights.sum(), np.clip(values, 0, 1)


def order_of(rng: np.random.Generator, weights: Array) -> NDArray[np.int64]:
    """Return a random order: drawn in proportion to weight among those that are left."""
    return np.argsort(rng.exponential(size=len(weights)) / weights)


def run(race: Race, weights: Array, values: Array, order: NDArray[np.int64]) -> Race:
    """Run a race to its end, without confidence sets, which take most of the time."""
    race._next_interval = 10**9
    for step, i in enumerate(order):
        given = {m: float(values[i, k]) for k, m in enumerate(race.methods)}
        race.step(given, float(weights[i]), last=race.finite and step + 1 == len(order))
        if race.over:
            break
    return race


def continuous(rng: np.random.Generator, methods: int) -> Callable[[int], Array]:
    """Return a drawer of smooth values: units of different difficulty, methods that scatter around it."""
    return lambda n: rng.beta(2, 2, (n, 1)) + rng.normal(0, 0.15, (n, methods))


def success(rng: np.random.Generator, methods: int) -> Callable[[int], Array]:
    """Return a drawer of values 0 and 1."""
    return lambda n: (rng.random((n, methods)) < rng.random((n, 1))).astype(float)


def rare(rng: np.random.Generator, methods: int) -> Callable[[int], Array]:
    """Return a drawer of units on which a method fails rarely and completely."""
    return lambda n: np.where(rng.random((n, methods)) < 0.03, 0.0, 0.9)


KINDS = {"smooth": continuous, "0 or 1": success, "rare failures": rare}


def null_benchmark(goal: str, methods: int, kind: str, races: int, seed: int) -> Result:
    """Simulate races on benchmarks on which all methods have the same score. Every claim is wrong."""
    rng = np.random.default_rng([seed, methods, *goal.encode(), *kind.encode()])
    names = [f"m{k}" for k in range(methods)]
    wrong, used = 0, []
    for _ in range(races):
        weights, values = mirrored(rng, methods, KINDS[kind](rng, methods))
        race = Race(names, goal=goal, baseline="m0" if goal == "baseline" else None)
        run(race, weights, values, order_of(rng, weights))
        wrong += bool(race.claims)
        used.append(race.steps)
    return Result(f"{goal}, {methods} equal methods, {kind}", races, wrong, float(np.median(used)))


def two_equal_and_better(goal: str, races: int, seed: int) -> Result:
    """Simulate races of two equal methods and a better one. Claims between the equal ones are wrong."""
    rng = np.random.default_rng([seed, 3, *goal.encode()])
    wrong, used = 0, []
    for _ in range(races):
        weights, two = mirrored(rng, 2, continuous(rng, 2))
        better = np.clip(two.mean(axis=1) + 0.12 + rng.normal(0, 0.1, len(two)), 0, 1)
        values = np.column_stack([two, better])
        means = weights @ values
        race = Race(["a", "b", "c"], goal=goal, baseline="a" if goal == "baseline" else None)
        run(race, weights, values, order_of(rng, weights))
        place = dict(zip("abc", means, strict=True))
        wrong += any(place[c.better] - place[c.worse] <= 1e-9 for c in race.claims)
        used.append(race.steps)
    return Result(f"{goal}, two equal methods and a better one", races, wrong, float(np.median(used)))


def null_scenes(goal: str, methods: int, kind: str, races: int, seed: int, scenes: int = 300) -> Result:
    """Simulate races about scenes that are independent draws from a population without a difference."""
    rng = np.random.default_rng([seed, 7, methods, *goal.encode(), *kind.encode()])
    names = [f"m{k}" for k in range(methods)]
    wrong, used = 0, []
    for _ in range(races):
        values = np.clip(KINDS[kind](rng, methods)(scenes), 0, 1)
        race = Race(names, goal=goal, baseline="m0" if goal == "baseline" else None, finite=False)
        run(race, np.ones(scenes), values, np.arange(scenes))
        wrong += bool(race.claims)
        used.append(race.steps)
    return Result(f"scenes: {goal}, {methods} equal methods, {kind}", races, wrong, float(np.median(used)))


def simulations(races: int, seed: int) -> list[Callable[[], Result]]:
    """Return all simulations of the table."""
    made: list[Callable[[], Result]] = []
    for kind in KINDS:
        made.append(lambda kind=kind: null_benchmark("order", 2, kind, races, seed))  # type: ignore[misc]
    for goal in ("best", "order", "baseline"):
        made.append(lambda goal=goal: null_benchmark(goal, 4, "smooth", races, seed))  # type: ignore[misc]
        made.append(lambda goal=goal: two_equal_and_better(goal, races, seed))  # type: ignore[misc]
    for goal, methods, kind in (
        ("order", 2, "smooth"), ("order", 2, "0 or 1"), ("best", 4, "smooth"), ("baseline", 4, "smooth"),
    ):  # fmt: skip
        made.append(
            lambda g=goal, m=methods, k=kind: null_scenes(g, m, k, races, seed)  # type: ignore[misc]
        )
    return made


def row(found: Result) -> str:
    """Return a row of the table in docs/less-work.md."""
    low, high = wilson(found.wrong, found.races)
    cells = [found.name, str(found.races), str(found.wrong), f"{100 * found.wrong / found.races:.2f} %"]
    return f"| {' | '.join(cells)} | {100 * low:.2f}–{100 * high:.2f} % |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| null races, alpha 5 % | races | wrong | share | 95 % (Wilson) |")
    print("|---|---|---|---|---|")
    for simulate in simulations(given.races, given.seed):
        started = time.process_time()
        found = simulate()
        print(row(found), flush=True)
        print(f"{found.name}: {time.process_time() - started:.0f} s CPU", flush=True, file=sys.stderr)


if __name__ == "__main__":
    main()
