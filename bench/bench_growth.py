# SPDX-License-Identifier: BSD-3-Clause
"""Growth of processor time and memory with the amount of data: 1x, 2x, 4x and 8x for each family.

python bench/bench_growth.py [--families patches,keypoints,dense,pairs,store] [--base 1.0] [--repeats 3]

Each command is a separate process on synthetic data with an empty store. The time of the same command on the
least data is start-up and is subtracted. The exponent is that of time and of memory over the size, by least
squares on logarithms; above 1.15 it is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from bench_end_to_end import make_strips
from bench_pose import world
from bench_store import CHILD, make_store
from tiepoint.formats.flow.flo import write_flo

FACTORS = (1, 2, 4, 8)
LIMIT = 1.15


def patches(folder: Path, size: float) -> list[str]:
    """Write strips of 300 patches and return the arguments that describe and match them."""
    make_strips(folder, max(1, round(2 * size)), 300)
    return ["run", "brief", "--task", "hpatches/matching", "--data", str(folder)]


def keypoints(folder: Path, size: float) -> list[str]:
    """Write sequences of six translated views of one texture."""
    from PIL import Image

    for k in range(max(1, round(3 * size))):
        own = folder / f"v_{k:03d}"
        own.mkdir(parents=True)
        texture = gaussian_filter(np.random.default_rng(k).normal(size=(520, 680)), 1.5)
        texture = np.clip(128 + 60 * texture / texture.std(), 0, 255).astype(np.uint8)
        for i in range(1, 7):
            Image.fromarray(texture[5 * i : 5 * i + 480, 5 * i : 5 * i + 640]).save(own / f"{i}.png")
            if i > 1:
                shift = 5 * (1 - i)
                (own / f"H_1_{i}").write_text(f"1 0 {shift}\n0 1 {shift}\n0 0 1\n")
    return ["run", "orb?max_features=500", "--task", "keypoints/matching,keypoints/geometry",
            "--data", str(folder)]  # fmt: skip


def dense(folder: Path, size: float) -> list[str]:
    """Write pairs of 320 x 240 with a constant flow."""
    from PIL import Image

    for k in range(max(1, round(8 * size))):
        own = folder / f"pair{k:04d}"
        own.mkdir(parents=True)
        texture = np.random.default_rng(k).integers(0, 256, (240, 330, 3)).astype(np.uint8)
        Image.fromarray(texture[:, :320]).save(own / "image1.png")
        Image.fromarray(texture[:, 10:]).save(own / "image2.png")
        write_flo(own / "flow.flo", np.full((240, 320, 2), (-10.0, 0.0), np.float32))
    return ["run", "zero", "--task", "dense/flow", "--data", str(folder)]


def pairs(folder: Path, size: float) -> list[str]:
    """Write pairs of cameras with matches."""
    folder.mkdir()
    world(folder, max(4, round(25 * size)), 500)
    return ["run", f"files:{folder / 'matches'}", "--task", "pose/relative", "--data",
            str(folder / "pairs.json"), "--protocol", "loftr"]  # fmt: skip


def store(folder: Path, size: float) -> list[str]:
    """Write a store of runs; the command is the report of its scores."""
    make_store(folder / "store", max(10, round(125 * size)), 5, same=False)
    return ["report", "--format", "csv", "--out", str(folder / "out.csv"), "--store", str(folder / "store")]


FAMILIES: dict[str, Callable[[Path, float], list[str]]] = {
    "patches": patches, "keypoints": keypoints, "dense": dense, "pairs": pairs, "store": store,
}  # fmt: skip


def measured(arguments: list[str], where: Path, repeats: int) -> tuple[float, float]:
    """Return the median processor seconds and peak MB of a command with an empty store."""
    found = []
    for _ in range(repeats):
        line = [sys.executable, "-m", "tiepoint", *arguments]
        if arguments[0] == "run":
            shutil.rmtree(where / "runs", ignore_errors=True)
            line += ["--store", str(where / "runs"), "--jobs", "1"]
        out = subprocess.run([sys.executable, "-c", CHILD, *line], check=True, capture_output=True, text=True)
        code, _, cpu, memory = json.loads(out.stdout)
        if code:
            raise SystemExit(f"{' '.join(line)}: exit code {code}\n{out.stderr[-1500:]}")
        found.append((cpu, memory))
    return statistics.median(c for c, _ in found), statistics.median(m for _, m in found)


def exponent(sizes: list[float], values: list[float]) -> float:
    """Return the slope of log(values) over log(sizes). NaN if a value is not positive."""
    if min(values) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    """Print a line per size and an exponent per family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--base", type=float, default=1.0, help="factor on all sizes")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    for name in given.families.split(","):
        with tempfile.TemporaryDirectory(prefix="tiepoint-bench-") as scratch:
            folder = Path(scratch)
            least = FAMILIES[name](folder / "least", 0.0)
            measured(least, folder, 1)  # compiles
            start_s, start_mb = measured(least, folder, given.repeats)
            rows = []
            for factor in FACTORS:
                arguments = FAMILIES[name](folder / f"{factor}x", factor * given.base)
                rows.append(measured(arguments, folder, given.repeats))
            times, memory = ([max(r[i] - s, 0.0) for r in rows] for i, s in ((0, start_s), (1, start_mb)))
            print(f"{name:10s} start {start_s:6.2f} s {start_mb:5.0f} MB; above it: " + ", ".join(
                f"{f}x {t:.2f} s {m:.0f} MB" for f, t, m in zip(FACTORS, times, memory, strict=True)
            ))  # fmt: skip
            power = exponent(list(map(float, FACTORS)), times)
            growth = memory[-1] / max(memory[0], 1.0)
            mark = "  ABOVE THE LIMIT" if power > LIMIT else ""
            print(f"{'':10s} exponent of time {power:.2f}; memory {growth:.1f} times at 8x{mark}", flush=True)


if __name__ == "__main__":
    main()
