# SPDX-License-Identifier: BSD-3-Clause
"""Speed and memory of reading commands on a store of thousands of runs, with limits.

The store has simulated methods: several tasks, protocols and groups, 116 scenes each, and some methods with
several runs that differ in a parameter. Its rows are like those of real runs. It has no records and run
files, because these commands do not read them. Each command is a separate process.

Usage: python bench/bench_store.py [--runs 5000] [--tasks 5] [--same] [--store FOLDER] [--repeats 3]
                                [--only list,report]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench_serve import PENDING, Server
from tiepoint._version import __version__
from tiepoint.core.scores import SceneValues, Score, ScoreRow
from tiepoint.run.scoring import SCORING
from tiepoint.store.store import Store
from tiepoint.store.stored_run import DatasetFacts, Manifest, MethodFacts, StoredRun, run_id
from tiepoint.store.writers import insert_run
from tiepoint.tasks import stored_task
from tiepoint.tasks.info import protocol_version

SCENES = tuple([f"i_{k:03d}" for k in range(57)] + [f"v_{k:03d}" for k in range(59)])
KINDS = tuple(s[0] for s in SCENES)
NOISES = ("easy", "hard", "tough")
TASKS = {
    "hpatches/matching": ("exact", "hpatches-python"),
    "hpatches/retrieval": ("exact",),
    "hpatches-v1/matching": ("exact", "hbench-2016"),
    "keypoints/matching": ("exact",),
    "keypoints/geometry": ("exact",),
}
METRICS = {"hpatches-v1/matching": "ap", "keypoints/geometry": "mma"}
LEVEL = np.random.default_rng(0).normal(0, 0.8, len(SCENES))


def scene_table(rng: np.random.Generator, skill: float) -> np.ndarray:
    """Return values of three noise levels by scene, (3, 116)."""
    x = LEVEL + rng.normal(0, 0.1, (3, len(SCENES))) + skill - np.array([0.0, 0.6, 1.2])[:, None]
    return np.asarray(1 / (1 + np.exp(-x)))


def scores_of(task: str, cells: np.ndarray) -> tuple[list[dict[str, Any]], list[Score]]:
    """Return the rows of a run under one protocol, and the scores that have scene values."""
    metric = METRICS.get(task, "map")
    kind_i = np.array(KINDS) == "i"
    groups = {"all": (cells, slice(None))}
    groups |= {f"noise={n}": (cells[i : i + 1], slice(None)) for i, n in enumerate(NOISES)}
    groups |= {"kind=i": (cells, kind_i), "kind=v": (cells, ~kind_i)}
    groups |= {f"kind=i,noise={n}": (cells[i : i + 1], kind_i) for i, n in enumerate(NOISES)}
    groups |= {f"kind=v,noise={n}": (cells[i : i + 1], ~kind_i) for i, n in enumerate(NOISES)}
    rows, scores = [], []
    for name, (values, where) in groups.items():
        part = values[:, where]
        value = float(part.mean())
        spread = 2 * float(part.mean(axis=0).std()) / part.shape[1] ** 0.5
        bounds = {"low": value - spread, "high": value + spread, "interval": "bca", "chance": 2.5e-4}
        rows.append({"metric": metric, "group": name, "value": value, "n": 15 * part.shape[1], **bounds})
        table = SceneValues(
            tuple(np.array(SCENES)[where].tolist()), tuple(np.array(KINDS)[where].tolist()), part
        )
        scores.append(Score(metric, name, value, 15, scenes=table))
    means = cells.mean(axis=0)
    rows += [
        {"metric": metric, "group": f"scene={s}", "value": float(v), "n": 15}
        for s, v in zip(SCENES, means, strict=True)
    ]
    return rows, scores


def made_runs(store: Store, count: int, tasks: int, same: bool) -> Iterator[StoredRun]:
    """Yield runs, cycling through the tasks; every fifth method has runs of four sizes."""
    names = list(TASKS)[:tasks]
    known: dict[tuple[str, str], str] = {}
    for i in range(count):
        task, m = names[i % tasks], i // tasks
        rng = np.random.default_rng(0 if same else i)
        size, name = (32 * (1 + m % 4), f"method-{m // 20:04d}-x") if m % 5 == 0 else (32, f"method-{m:05d}")
        cells = scene_table(rng, 0.0 if same else float(rng.normal(0, 0.3)))
        rows, scored = scores_of(task, cells)
        if not same or task not in {t for t, _ in known}:
            known[task, str(i)] = store.values.put(scored)
        key = list(known.values())[-1] if not same else next(k for (t, _), k in known.items() if t == task)
        manifest = Manifest(
            task=task,
            method=MethodFacts(
                name=name,
                family=stored_task(task).family,
                spec=f"{name}?size={size}",
                distance="l2",
                config={
                    "method": "patches/bench",
                    "revision": 1,
                    "params": {"size": size, "made": m},
                    "libraries": {"numpy": np.__version__},
                },
            ),
            dataset=DatasetFacts(hash="0" * 64, name="made", path="none", items=1856),
            split="full" if task.startswith("hpatches/") else None,
            scoring=SCORING,
            rules={p: protocol_version(stored_task(task).info, p) for p in TASKS[task]},
            protocols=TASKS[task],
            lists="1" * 64,
            units={s: {"made up": f"{i:08x}{k:056x}"} for k, s in enumerate(SCENES)},
            values=dict.fromkeys(TASKS[task], key),
            versions={"tiepoint": __version__, "python": platform.python_version(), "numpy": np.__version__},
            machine={"system": "Linux", "machine": "x86_64", "cpu": "made up", "cores": 2},
            efficiency={
                "per": "patch",
                "time_s": 1e-5 * (1 + m % 97),
                "time_quartiles_s": [0.9e-5 * (1 + m % 97), 1.2e-5 * (1 + m % 97)],
                "time_p90_s": 1.3e-5 * (1 + m % 97),
                "n": 48,
                "bytes_per_descriptor": 4 * size,
            },
        )
        made = f"2026-01-{1 + i % 28:02d}T{i % 24:02d}:00:00+00:00"
        every = [ScoreRow(p, **row) for p in TASKS[task] for row in rows]
        yield StoredRun(run_id(manifest), task, "done", manifest, every, created_at=made, time_s=1.0)


def make_store(root: Path, count: int, tasks: int, same: bool) -> None:
    """Write a store of runs in one transaction."""
    with Store.open(root) as store, store.begin() as connection:
        for run in made_runs(store, count, tasks, same):
            insert_run(connection, run)


CHILD = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def measure(
    name: str, command: list[str], limit_s: float, limit_mb: float | None = None, *, repeats: int = 1
) -> None:
    """Print medians of the wall time, CPU time and peak memory of a command, and the range of CPU times."""
    line = [sys.executable, "-c", CHILD, *command]
    outs = [subprocess.run(line, check=True, capture_output=True, text=True) for _ in range(repeats)]
    found = [json.loads(out.stdout) for out in outs]
    code, out, used = max(f[0] for f in found), outs[-1], [f[2] for f in found]
    wall, cpu, memory = (statistics.median(f[i] for f in found) for i in (1, 2, 3))
    goal = f"n = {repeats}, {min(used):.2f} to {max(used):.2f} s CPU; limit {limit_s:g} s" + (
        f", {limit_mb:g} MB" if limit_mb else ""
    )
    failed = "" if code == 0 else f"   FAILED ({code}): {out.stderr.strip()[-300:]}"
    print(f"{name:26s} {wall:8.2f} s wall {cpu:8.2f} s CPU {memory:7.0f} MB   {goal}{failed}", flush=True)


def serve_first_page(root: Path, folder: Path) -> None:
    """Print the CPU time of a server until it has sent its first page, and until no comparison is pending."""
    server = Server(root, folder / "cache")
    started, first = time.perf_counter(), None
    try:
        while True:
            text = server.get("/")[1]
            used = sum(map(int, Path(f"/proc/{server.process.pid}/stat").read_text().split()[13:15]))
            seconds = used / os.sysconf("SC_CLK_TCK")
            first = first if first is not None else (time.perf_counter() - started, seconds)
            if PENDING not in text:
                break
            time.sleep(0.2)
        what = f"limit 3 s; {seconds:.2f} s CPU with all comparisons"
        print(f"{'first page of serve':26s} {first[0]:8.2f} s wall {first[1]:8.2f} s CPU "
              f"{server.peak_mb():7.0f} MB   {what}", flush=True)  # fmt: skip
    finally:
        server.process.terminate()
        server.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--tasks", type=int, default=5, choices=range(1, len(TASKS) + 1))
    parser.add_argument("--same", action="store_true", help="all runs of a task have the same scene values")
    parser.add_argument("--store", type=Path, help="folder of the store, built if missing; default temporary")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", default="list,two,all,report,csv,serve")
    given = parser.parse_args()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, tiepoint {__version__}"
    print(f"{machine}, {versions}")
    with tempfile.TemporaryDirectory(prefix="tiepoint-") as folder:
        root = given.store or Path(folder) / "store"
        if not (root / "tiepoint.sqlite").exists():
            started = time.perf_counter()
            make_store(root, given.runs, given.tasks, given.same)
            print(f"wrote {given.runs} runs in {time.perf_counter() - started:.0f} s")
        tiepoint = [sys.executable, "-m", "tiepoint"]
        where, task = ["--store", str(root)], ["--task", next(iter(TASKS))]
        two, out = ["method-00001", "method-00002"], ["--out", str(Path(folder) / "report.out")]
        report = [*tiepoint, "report", *where, *out]
        commands: dict[str, tuple[str, list[str], float, float | None]] = {
            "list": ("list runs", [*tiepoint, "list", "runs", *where], 1, None),
            "two": ("compare two", [*tiepoint, "compare", *two, *task, *where], 2, None),
            "all": ("compare all of a task", [*tiepoint, "compare", *task, *where], 15, None),
            "report": ("report, HTML", report, 30, 500),
            "csv": ("report, CSV", [*report, "--format", "csv"], 30, None),
        }
        for key in given.only.split(","):
            if key == "serve":
                serve_first_page(root, Path(folder))
            else:
                measure(*commands[key], repeats=given.repeats)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
