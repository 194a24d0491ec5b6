# SPDX-License-Identifier: BSD-3-Clause
"""The keypoint tasks on image sequences with stored features: processor time of each command.

python bench/bench_sequences.py [--sequences 116] [--keypoints 500] [--tasks NAME,…] [--repeats 3]

The script writes sequences of six images of 640 x 480 with homographies, and files of their keypoints. A
first command stores the features. Each task then runs in a new process with `--jobs 1` on stored features:
once without records and lists, then `--repeats` times without records.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SIZE = (640, 480)
TASKS = ("geometry", "ranking", "matching", "verification", "retrieval")


def make_data(folder: Path, sequences: int, n: int) -> None:
    from PIL import Image

    from tiepoint.datasets.hpatches.splits import official_splits

    names = official_splits()["full"].test[:sequences]
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        own, features = folder / "data" / name, folder / "features" / name
        own.mkdir(parents=True)
        features.mkdir(parents=True)
        xy = rng.uniform(10, [s - 10 for s in SIZE], (n, 2))
        base = rng.gamma(0.6, 1.0, (n, 128))
        for k in range(1, 7):
            Image.new("L", SIZE, k + 8 * (number % 30)).save(own / f"{k}.ppm")
            H = np.eye(3) + rng.normal(0, 1, (3, 3)) * [[0.05, 0.05, 9], [0.05, 0.05, 9], [5e-5, 5e-5, 0]]
            H = np.eye(3) if k == 1 else H
            if k > 1:
                np.savetxt(own / f"H_1_{k}", H)
            there = np.column_stack([xy, np.ones(n)]) @ H.T
            there = there[:, :2] / there[:, 2:] + rng.normal(0, 1.0, (n, 2)) * (k > 1)
            inside = ((there > 0) & (there < np.array(SIZE) - 1)).all(axis=1)
            raw = base + 0.7 * rng.gamma(0.6, 1.0, (n, 128))
            values = np.rint(512 * raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
            table = np.column_stack([there, np.full(n, 8.0), np.zeros(n), rng.uniform(0, 1, n)])
            np.savez(features / f"{k}.npz", keypoints=table[inside, :2], descriptors=values[inside],
                     scores=table[inside, 4])  # fmt: skip


def command(folder: Path, task: str) -> float:
    """Run a task in a new process; return its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [
        sys.executable, "-m", "tiepoint", "run", f"files:{folder / 'features'}",
        "--task", f"keypoints/{task}",
        "--data", str(folder / "data"), "--store", str(folder / "store"), "--jobs", "1", "--json",
    ]  # fmt: skip
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(store: Path) -> None:
    """Remove all runs; keep features, lists and hashes."""
    for name in ("records", "runs", "values"):
        shutil.rmtree(store / name, ignore_errors=True)
    for path in store.glob("tiepoint.sqlite*"):
        path.unlink()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--sequences", type=int, default=116)
    p.add_argument("--keypoints", type=int, default=500)
    p.add_argument("--tasks", default=",".join(TASKS))
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--folder", type=Path, help="write the data there, or use what is there")
    given = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-") as scratch:
        folder = given.folder or Path(scratch)
        if not (folder / "data").exists():
            make_data(folder, given.sequences, given.keypoints)
        from tiepoint.run.costs import machine

        m = machine()
        print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}; CPU seconds")
        print(f"first command (features) {command(folder, 'geometry'):.1f} s", flush=True)
        for task in given.tasks.split(","):
            fresh(folder / "store")
            first = command(folder, task)
            spent = []
            for _ in range(given.repeats):
                fresh(folder / "store")
                spent.append(command(folder, task))
            print(
                f"keypoints/{task:<13} {np.median(spent):6.2f} s ({min(spent):.2f} to {max(spent):.2f}), "
                f"first {first:.2f} s, all stored {command(folder, task):.2f} s; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
