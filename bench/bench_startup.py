# SPDX-License-Identifier: BSD-3-Clause
"""Cost of `tiepoint run` on cached features: up to the first comparison, and in total.

python bench/bench_startup.py [--folder DIR] [--sequences 116] [--repeats 3] [--only-make] [-- OPTIONS]

The script writes strips at the published lengths (flat patches, which PNG compresses well) and a store with
descriptors of 128 float32 under the keys of `sift`, 1.4 GiB in DIR at full size. It reuses existing files.
Then it times, each in a separate process, all three 2017 tasks without and with existing records. For
matching alone after verification, it times from the start of the process to the first comparison. The first
run samples and caches the lists, as for a user. Last, it measures the CPU time of the intervals. OPTIONS are
passed to `tiepoint run`, for example `--device cuda`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

TASKS = ("hpatches/verification", "hpatches/matching", "hpatches/retrieval")
NOISE = {"r": 0.0, "e": 0.6, "h": 1.0, "t": 1.5}
DIM = 128
METHOD = "sift"

LAUNCHER = """
import json, os, sys, time
began = float(os.environ["TIEPOINT_BENCH_BEGAN"])
marks = {"python": time.time() - began}
from tiepoint.cli import main
marks["command line"] = time.time() - began
from tiepoint.run.context import RunContext
compare = RunContext.compare
def first(self, *arguments):
    if "first comparison" not in marks:
        times = os.times()
        marks["first comparison"] = time.time() - began
        marks["processor till then"] = times.user + times.system
    return compare(self, *arguments)
RunContext.compare = first
code = main.run(sys.argv[1:])
times = os.times()
marks |= {"end": time.time() - began, "processor": times.user + times.system, "code": code}
print(json.dumps(marks), file=sys.stderr)
"""


def lengths_of(sequences: int) -> dict[str, int]:
    """Return the numbers of patches of the first sequences of the release."""
    from tiepoint.datasets.hpatches.splits import official_lengths, official_splits, open_lengths

    every = official_lengths() | {s: low for s, (low, _) in open_lengths().items()}
    names = [s for s in official_splits()["full"].test if s in every][:sequences]
    return {s: every[s] for s in names}


def make_strips(root: Path, lengths: dict[str, int]) -> None:
    """Write strips of flat halves that differ by image; noise in a text chunk gives a realistic file size."""
    from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES

    filling = np.random.default_rng(0).bytes(1 << 17)

    def strip(at: tuple[int, str, str]) -> None:
        number, sequence, image = at
        path = root / sequence / f"{image}.png"
        if path.is_file():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        tile = np.zeros((65, 66), np.uint8)  # the first byte of a row: no filter
        tile[:, 1:33], tile[:, 33:], tile[number // 97 % 65, 5:40] = number % 97, 150 + number % 101, 255
        n = lengths[sequence]
        head = struct.pack(">IIBBBBB", 65, 65 * n, 8, 0, 0, 0, 0)
        body = zlib.compress(np.tile(tile, (n, 1)).tobytes(), 1)
        parts = ((b"IHDR", head), (b"noIs", filling), (b"IDAT", body), (b"IEND", b""))
        temporary = path.with_suffix(".part")
        temporary.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*p) for p in parts))
        temporary.rename(path)

    todo = [(16 * i + k, s, m) for i, s in enumerate(lengths) for k, m in enumerate(STANDARD_IMAGES)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(strip, todo))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def make_features(data: Path, where: Path) -> None:
    """Write descriptors of every image under the cache keys of the method."""
    from tiepoint.run.preparation import make_context, prepare_run
    from tiepoint.run.request import RunRequest
    from tiepoint.run.session import RunSession
    from tiepoint.store.store import Store

    with Store.open(where) as store, RunSession(store.root) as shared:
        context = make_context(prepare_run(RunRequest(METHOD, TASKS[1], data), store.root), store, shared)
        base: dict[str, np.ndarray] = {}

        def put(item: tuple[int, str]) -> None:
            number, key = item
            sequence, image = key.split("/")
            n = context.items[key].count or 0
            if context.features.meta(context.feature_keys[key]) is not None:
                return
            rng = np.random.default_rng(number)
            x = base[sequence] + NOISE[image[0]] * rng.standard_normal((n, DIM), dtype=np.float32)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            arrays = {"values": x, "valid": np.ones(n, bool)}
            about = {"item": key, "method": METHOD, "time_s": 0.1, "count": n}
            context.features.put(context.feature_keys[key], arrays, **about)

        with ThreadPoolExecutor() as pool:
            keys = list(context.feature_keys)
            for sequence in dict.fromkeys(k.split("/")[0] for k in keys):
                own = [(i, k) for i, k in enumerate(keys) if k.split("/")[0] == sequence]
                n = context.items[own[0][1]].count or 0
                base[sequence] = np.random.default_rng(own[0][0]).standard_normal((n, DIM), dtype=np.float32)
                list(pool.map(put, own))
                base.clear()


def command(data: Path, store: Path, tasks: tuple[str, ...], options: list[str]) -> dict[str, float]:
    """Run `tiepoint run` in a separate process; return seconds since its start."""
    line = ["run", METHOD, "--task", ",".join(tasks), "--data", str(data), "--store", str(store), "--json"]
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, *line, *options],
        env={**os.environ, "TIEPOINT_BENCH_BEGAN": repr(began)},
        capture_output=True,
        text=True,
        check=False,
    )
    marks: dict[str, float] = json.loads(done.stderr.splitlines()[-1])
    if marks.pop("code"):
        raise SystemExit(done.stderr)
    return marks | {"wall": time.time() - began}


def fresh(store: Path, *, keep: str = "") -> None:
    """Remove all runs; retain features, lists and hashes."""
    for name in ("records", "runs", "values", keep):
        if name:
            shutil.rmtree(store / name, ignore_errors=True)
    for path in store.glob("tiepoint.sqlite*"):
        path.unlink()


def shown(name: str, marks: list[dict[str, float]]) -> None:
    """Print medians over repeats."""
    middle = {k: float(np.median([m[k] for m in marks if k in m])) for k in marks[0]}
    print(f"{name:<34}" + "  ".join(f"{k} {v:.2f} s" for k, v in middle.items()), flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--folder", type=Path)
    p.add_argument("--sequences", type=int, default=116)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--only-make", action="store_true", help="write the data and exit")
    p.add_argument("options", nargs="*")
    given = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-") as scratch:
        folder = given.folder or Path(scratch)
        started = time.perf_counter()
        lengths = lengths_of(given.sequences)
        make_strips(folder / "data", lengths)
        make_features(folder / "data", folder / "store")
        rows = 16 * sum(lengths.values())
        print(
            f"{len(lengths)} sequences, {rows:,} descriptors written in {time.perf_counter() - started:.0f} s"
        )
        if not given.only_make:
            measure(folder / "data", folder / "store", given.repeats, given.options)


def measure(data: Path, store: Path, repeats: int, options: list[str]) -> None:
    """Print the times of the commands."""
    fresh(store)
    shown("the first time (lists, efficiency)", [command(data, store, TASKS, options)])
    missing, present, second = [], [], []
    for _ in range(repeats):
        fresh(store)
        missing.append(command(data, store, TASKS, options))
        present.append(command(data, store, TASKS, options))
        fresh(store)
        command(data, store, TASKS[:1], options)
        second.append(command(data, store, TASKS[1:2], options))
    shown("all three, records missing", missing)
    shown("all three, everything present", present)
    shown("matching after verification", second)
    for task in TASKS:
        command(data, store, (task,), options)
        name, seconds, count = intervals(store, task)
        print(f"intervals of {count} scores of {name}: {seconds:.2f} s of CPU time", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


def intervals(where: Path, task: str) -> tuple[str, float, int]:
    """Return the CPU time of the intervals of a stored run, recomputed from its records."""
    import scipy.special  # noqa: F401  # imported before the clock runs

    from tiepoint.run.scoring import score_rows_with_intervals
    from tiepoint.store.run_queries import load_runs
    from tiepoint.store.store import Store
    from tiepoint.tasks import load_task

    with Store.open(where, mode="read") as store:
        units = next(run for run in load_runs(store) if run.task == task).manifest.units
        found = load_task(task)
        scores = found.score([store.records.get(k) for by in units.values() for k in by.values()], "exact")
    started = time.process_time()
    score_rows_with_intervals(found, scores)
    return task, time.process_time() - started, len(scores)


if __name__ == "__main__":
    main()
