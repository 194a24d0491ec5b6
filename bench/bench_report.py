# SPDX-License-Identifier: BSD-3-Clause
"""Speed of reading, comparing and reporting a store of 23 methods x 116 scenes x 15 images.

Usage: python bench/bench_report.py [FOLDER]   (builds a store there once; default a temporary folder)
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.core.hashing import hash_json
from tiepoint.core.records import Records
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.html_page import render_page
from tiepoint.report.runs.selection import runs_of
from tiepoint.run.finish import finish_run
from tiepoint.run.result import Run
from tiepoint.run.scoring import scores_under
from tiepoint.store.store import Store
from tiepoint.store.stored_run import DatasetFacts, Manifest, MethodFacts
from tiepoint.tasks import load_task

TASK = "hpatches-v1/matching"
PROTOCOLS = ("exact", "hbench-2016")
SCENES = [f"i_{k:03d}" for k in range(57)] + [f"v_{k:03d}" for k in range(59)]
NOISES = ("easy", "hard", "tough")
IMAGES = 5


def matching_records(skill: float, noise: str, patches: int, seed: int) -> Records:
    """Simulate the records of one noise level: ranks that grow with noise and scene, and few ties."""
    rng = np.random.default_rng(seed)
    pairs = [(f"{s}.ref", f"{s}.{noise[0]}{k + 1}") for s in SCENES for k in range(IMAGES)]
    hard = np.repeat(np.random.default_rng(0).normal(0, 0.7, len(SCENES)), IMAGES)
    n = len(pairs) * patches
    pair = np.repeat(np.arange(len(pairs), dtype=np.int32), patches)
    level = skill - 0.5 * NOISES.index(noise) - hard[pair]
    right = rng.uniform(size=n) < 1 / (1 + np.exp(-level))
    truth = np.tile(np.arange(patches, dtype=np.int32), len(pairs))
    lt = np.where(right, 0, 1 + rng.integers(0, patches - 1, n)).astype(np.int32)
    d1 = rng.gamma(4.0, 1.0, n) + np.where(right, 0.0, 1.0)
    zero = np.zeros(n, np.int32)
    columns: dict[str, Any] = {
        "pair": pair,
        "index": np.where(right, truth, (truth + 1) % patches).astype(np.int32),
        "ties": zero + 1,
        "index2": ((truth + 2) % patches).astype(np.int32),
        "lt": lt,
        "eq": zero,
        "eq_before": zero,
        "d1": d1,
        "d2": d1 * rng.uniform(1.0, 1.5, n),
        "gt_distance": np.where(right, d1, d1 * 1.3),
        "gt": truth,
        "matched": np.ones(n, bool),
        "gt_listed": np.ones(n, bool),
    }
    meta = {
        "task": TASK,
        "benchmark": f"all_{noise}",
        "distance": "l2",
        "squared": True,
        "source": "direct",
        "scenes": SCENES,
        "kinds": [s[0] for s in SCENES],
        "pairs": [list(p) for p in pairs],
        "pair_scenes": np.repeat(np.arange(len(SCENES)), IMAGES).tolist(),
        "ranks_known": True,
    }
    return Records("rank", columns, meta)


def make_store(root: Path, *, methods: int = 23, patches: int = 26) -> int:
    """Write runs of simulated methods; return the total number of query records."""
    task, total = load_task(TASK), 0
    with Store.open(root) as store:
        for m in range(methods):
            units, made = {}, []
            for z, noise in enumerate(NOISES):
                key = hash_json(["bench", m, noise, patches])
                made.append(matching_records(0.1 * m - 0.5, noise, patches, 3 * m + z))
                store.records.put(key, made[-1])
                units[f"all_{noise}"] = {task.comparison("exact"): key}
                total += len(made[-1])
            cost = {
                "per": "patch",
                "time_s": 1e-5 * 1.3**m,
                "time_quartiles_s": [0.9e-5 * 1.3**m, 1.2e-5 * 1.3**m],
                "time_p90_s": 1.4e-5 * 1.3**m,
                "n": 48,
                "bytes_per_descriptor": 8 * (m + 4),
            }
            manifest = Manifest(
                task=TASK,
                method=MethodFacts(name=f"method-{m:02d}", family="patches", distance="l2"),
                dataset=DatasetFacts(hash="made", name="made", path="none", items=0),
                lists="made",
                units=units,
                efficiency=cost,
            )
            by_unit = {unit: dict.fromkeys(by, made[i]) for i, (unit, by) in enumerate(units.items())}
            finish_run(manifest, {p: scores_under(task, p, by_unit) for p in PROTOCOLS}, store=store)
    return total


def records(run: Run) -> list[Records]:
    return [r for by in run.unit_records.values() for r in by.values()]


def timed(name: str, call: Callable[[], Any], limit_s: float | None = None) -> Any:
    started, cpu = time.perf_counter(), time.process_time()
    result = call()
    goal = "" if limit_s is None else f"   goal {limit_s:g} s"
    wall = time.perf_counter() - started
    print(f"{name:58s} {wall:8.2f} s wall {time.process_time() - cpu:8.2f} s CPU{goal}")
    return result


def main(folder: Path) -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    root = folder / "store"
    if not (root / "tiepoint.sqlite").exists():
        total = timed("build the store (no time limit)", lambda: make_store(root))
        print(f"{total:,} query records")
    with Store.open(root) as store:
        runs = timed("open 23 runs", lambda: runs_of(store, None))
    total = timed("read their records", lambda: sum(len(r) for run in runs for r in records(run)))
    print(f"{total:,} records")
    timed("compare them (scene values read)", lambda: compare_runs(runs), 20)
    timed("compare them again", lambda: compare_runs(runs))
    command = [
        str(Path(sys.executable).with_name("tiepoint")),
        "compare",
        "--task",
        TASK,
        "--store",
        str(root),
    ]
    timed("tiepoint compare, start-up included", lambda: subprocess.run(command, capture_output=True), 20)
    first = timed("report of 23 runs", lambda: render_page(runs, title="bench"), 30)
    second = timed("the same again", lambda: render_page(runs, title="bench"), 30)
    print(f"{len(first.encode()) / 1e6:.2f} MB (goal 10), the same bytes: {first == second}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
