# SPDX-License-Identifier: BSD-3-Clause
"""Speed of intervals and comparisons, compared with SciPy's bootstrap of one score.

Usage: python bench/bench_compare.py
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.report.compare.methods import compare_methods
from tiepoint.stats.intervals import pooled_interval, scene_interval

SCENES = [f"i_{k:03d}" for k in range(57)] + [f"v_{k:03d}" for k in range(59)]
KINDS = [s[0] for s in SCENES]


def measure(name: str, call: Callable[[], object], repeats: int = 5, limit_s: float | None = None) -> float:
    call()
    wall, cpu = [], []
    for _ in range(repeats):
        w, c = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - w)
        cpu.append(time.process_time() - c)
    goal = "" if limit_s is None else f"   goal {limit_s:g} s"
    median = statistics.median(wall)
    print(f"{name:62s} {median:8.3f} s wall {statistics.median(cpu):8.3f} s CPU{goal}")
    return median


def image_tables(methods: int) -> dict[str, SceneValues]:
    """Return values of methods x 116 scenes x 15 images, as the mean of six cells noise x kind."""
    rng = np.random.default_rng(0)
    level = rng.normal(0, 0.8, 116)
    is_i = np.array(KINDS) == "i"
    out = {}
    for m in range(methods):
        x = level + rng.normal(0, 0.1, (3, 5, 116)) + 0.02 * m - np.array([0.0, 0.6, 1.2])[:, None, None]
        ap = (1 / (1 + np.exp(-x))).mean(axis=1)
        cells = np.concatenate([np.where(is_i, ap, np.nan), np.where(is_i, np.nan, ap)])
        out[f"m{m:02d}"] = SceneValues(tuple(SCENES), tuple(KINDS), cells)
    return out


def from_records(values: np.ndarray, scene: np.ndarray, cell: np.ndarray) -> object:
    """Compute means by cell and scene of one value per query, then compare the methods."""
    code = cell * len(SCENES) + scene
    count = np.bincount(code, minlength=6 * len(SCENES)).reshape(6, -1)
    tables = {}
    for m, row in enumerate(values):
        total = np.bincount(code, weights=row, minlength=6 * len(SCENES)).reshape(6, -1)
        cells = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        tables[f"m{m}"] = SceneValues(tuple(SCENES), tuple(KINDS), cells)
    return compare_methods(tables)


def pooled_bins() -> PooledBins:
    rng = np.random.default_rng(1)
    positives = rng.poisson(80 * np.exp(-np.arange(100) / 20), (116, 100)).astype(float)
    first, second = np.triu_indices(116, 1)
    pair = np.repeat(np.stack([first, second], axis=1), 100, axis=0)
    bins = np.tile(np.arange(100), len(first))
    rows = np.column_stack([pair, bins, rng.poisson(bins / 70)])
    return PooledBins(tuple(SCENES), tuple(KINDS), positives, rows, "ap")


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    tables = image_tables(23)
    measure(
        "compare 23 methods x 116 scenes x 15 images, all pairs", lambda: compare_methods(tables), limit_s=2
    )
    measure("  the same against a baseline", lambda: compare_methods(tables, baseline="m00"), limit_s=2)
    hundred = image_tables(100)
    measure("compare 100 methods (4950 pairs)", lambda: compare_methods(hundred), repeats=1)

    rng = np.random.default_rng(2)
    scene = np.sort(rng.integers(0, 116, 100_000))
    cell = rng.integers(0, 3, 100_000) + 3 * (np.array(KINDS) == "v")[scene]
    values = rng.beta(0.4, 0.6, (10, 100_000)) * (0.9 + 0.01 * np.arange(10)[:, None])
    name = "a million query records (10 methods x 100,000) to a comparison"
    measure(name, lambda: from_records(values, scene, cell), limit_s=20)

    many = list(hundred.values())
    ours = measure(
        "intervals of 100 scores x 116 scenes, 10,000 resamples each",
        lambda: [scene_interval(values) for values in many],
    )
    x = np.nanmean(many[0].cells, axis=0)
    theirs = measure("  scipy.stats.bootstrap (BCa) of one of them", lambda: stats.bootstrap((x,), np.mean))
    print(f"  SciPy / tiepoint, per score: {theirs / (ours / 100):.1f}")
    bins = pooled_bins()
    measure("interval of one pooled AP, 116 scenes, 6670 pairs, 100 bins", lambda: pooled_interval(bins), 1)


if __name__ == "__main__":
    main()
