# SPDX-License-Identifier: BSD-3-Clause
"""Relative pose at the size of ScanNet-1500 and MegaDepth-1500: overhead of a run over its estimator calls.

- a run of matches from files under `exact` (5 seeds, 3 thresholds) with two jobs: wall time against half of
  the total CPU time of the estimator calls;
- CPU time of the run against that of the calls, which does not depend on other load;
- scores of `zeb` from the records of `loftr`, and of `exact` from its own.

Run: ``python bench/bench_pose.py [--pairs N] [--matches N]``; 1500 pairs take at most 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

JOBS = 2
SIZE = (640, 480)
K = [[525.0, 0, 319.5], [0, 525, 239.5], [0, 0, 1]]


def world(root: Path, pairs: int, matches: int) -> None:
    """Write pairs of cameras 20 degrees apart in 100 scenes, and matches of which a third are wrong."""
    from scipy.spatial.transform import Rotation

    rng = np.random.default_rng(0)
    (root / "matches").mkdir()
    entries = []
    for i in range(pairs):
        T = np.eye(4)
        T[:3, :3] = Rotation.from_rotvec(np.deg2rad(20) * rng.normal(0, 0.58, 3)).as_matrix()
        T[:3, 3] = rng.normal(0, 0.5, 3)
        X = rng.uniform(-1, 1, (6 * matches, 3)) * np.array([2.5, 2, 2]) + np.array([0, 0, 5.0])
        there = X @ T[:3, :3].T + T[:3, 3]
        x0, x1 = ((p @ np.array(K).T)[:, :2] / p[:, 2:] for p in (X, there))
        inside = ((x0 > 0) & (x0 < SIZE) & (x1 > 0) & (x1 < SIZE)).all(axis=1) & (there[:, 2] > 0.5)
        x0, x1 = x0[inside][:matches], x1[inside][:matches]
        x1 = np.clip(x1 + rng.normal(0, 0.3, x1.shape), 0, np.array(SIZE) - 1)
        wrong = rng.random(len(x1)) < 1 / 3
        x1[wrong] = rng.uniform(0, 1, (int(wrong.sum()), 2)) * (np.array(SIZE) - 1)
        name = f"p{i:04d}"
        np.savez(root / "matches" / f"{name}.npz", points0=x0, points1=x1, confidence=rng.random(len(x1)))
        entries.append(
            {
                "name": name, "image0": f"{name}-0.jpg", "image1": f"{name}-1.jpg", "K0": K, "K1": K,
                "T_0to1": T.tolist(), "size0": SIZE, "size1": SIZE, "scene": f"s{i % 100:02d}",
                "dataset": "scannet",
            }
        )  # fmt: skip
    (root / "pairs.json").write_text(json.dumps(entries))


def run(root: Path, protocol: str) -> tuple[float, float]:
    """Return the wall time and CPU time of a run from the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [
            sys.executable, "-m", "tiepoint", "run", f"files:{root / 'matches'}", "--task", "pose/relative",
            "--data", str(root / "pairs.json"), "--protocol", protocol, "--store", str(root / "store"),
            "--jobs", str(JOBS), "--json",
        ],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def calls_s(root: Path, sample: int) -> float:
    """Estimate the CPU time of the estimator calls of `exact` from evenly spaced pairs."""
    import poselib

    from tiepoint.geometry.two_view.estimator import canonical_order

    given = json.loads((root / "pairs.json").read_text())
    s = 1000 / max(SIZE)
    camera = {"model": "PINHOLE", "width": 0, "height": 0, "params": [s * 525, s * 525, s * 319.5, s * 239.5]}
    total, step = 0.0, max(1, len(given) // sample)
    for entry in given[::step]:
        with np.load(root / "matches" / f"{entry['name']}.npz") as z:
            x0, x1 = z["points0"], z["points1"]
        order = canonical_order(x0, x1)
        x0, x1 = s * x0[order], s * x1[order]
        start = time.process_time()
        for px in (0.5, 1.0, 2.0):
            for seed in range(5):
                options = {"max_epipolar_error": px, "max_iterations": 10000, "seed": seed}
                poselib.estimate_relative_pose(x0, x1, camera, camera, options, {})
        total += time.process_time() - start
    return total * len(given) / len(given[::step])


def scoring_s(root: Path) -> dict[str, float]:
    """Return the seconds to read and score the records of a protocol."""
    import tiepoint as tp
    from tiepoint.report.runs.lazy_records import scored_records
    from tiepoint.tasks.pose.task import TASK

    (run,) = tp.load(store=root / "store")
    found = {}
    for protocol in ("exact", "loftr", "zeb"):
        start = time.perf_counter()
        records = scored_records(run, TASK, protocol)
        read = time.perf_counter()
        TASK.score(records, protocol)
        found[f"read, {protocol}"] = read - start
        found[f"score, {protocol}"] = time.perf_counter() - read
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--matches", type=int, default=2000)
    parser.add_argument("--sample", type=int, default=100, help="pairs whose bare calls are timed")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{asked.pairs} pairs x {asked.matches} matches; {os.cpu_count()} cores, load {load:.1f}")
    with TemporaryDirectory() as folder:
        root = Path(folder)
        world(root, asked.pairs, asked.matches)
        calls = calls_s(root, asked.sample)
        wall, used = run(root, "exact")
        print(f"estimator calls of exact, processor time         {calls:8.1f} s")
        print(f"the same, halved                                 {calls / JOBS:8.1f} s")
        print(f"run under exact, {JOBS} jobs, wall time               {wall:8.1f} s")
        print(f"wall time by halved calls, at most 1.2           {wall * JOBS / calls:8.2f}")
        print(f"run under exact, processor time                  {used:8.1f} s")
        print(f"processor time by that of the calls              {used / calls:8.2f}")
        run(root, "loftr")
        print(f"further protocol with the same comparison (zeb)  {run(root, 'zeb')[0]:8.2f} s")
        for what, seconds in scoring_s(root).items():
            print(f"{what:48s} {seconds:8.2f} s")


if __name__ == "__main__":
    main()
