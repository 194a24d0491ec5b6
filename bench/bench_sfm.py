# SPDX-License-Identifier: BSD-3-Clause
"""Time scoring of reconstructions: 1,000 images in one scene, and 100 images under the rules of triples.

CPU seconds of reading and of each protocol, and the peak memory of the process.

Usage: python bench/bench_sfm.py
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from tiepoint.geometry.quaternions import product, rotated
from tiepoint.tasks.sfm.poses.task import TASK

NOISE = 0.01
RUNS = {1000: ("exact", "colmap", "imc2021", "imc2023", "evo"), 100: ("imc2024", "imc2025")}


def write_model(folder: Path, q: np.ndarray, t: np.ndarray) -> None:
    """Write poses as a COLMAP text model without points."""
    folder.mkdir(parents=True)
    (folder / "cameras.txt").write_text("1 PINHOLE 640 480 500 500 320 240\n")
    (folder / "points3D.txt").write_text("")
    rows = (" ".join(map(repr, map(float, (*a, *b)))) for a, b in zip(q, t, strict=True))
    (folder / "images.txt").write_text(
        "".join(f"{i} {row} 1 {i:05d}.jpg\n\n" for i, row in enumerate(rows, start=1))
    )


def write_scene(root: Path, n: int) -> None:
    """Write a true model and one with noise of 0.01 radians and units."""
    rng = np.random.default_rng(n)
    centres, q = rng.normal(size=(n, 3)) * 3, rng.normal(size=(n, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    turn = np.column_stack([np.ones(n), rng.normal(size=(n, 3)) * NOISE / 2])
    other = product(turn / np.linalg.norm(turn, axis=1, keepdims=True), q)
    write_model(root / "truth", q, -rotated(q, centres))
    write_model(root / "results", other, -rotated(other, centres + rng.normal(size=(n, 3)) * NOISE))


def main() -> None:
    """Print CPU seconds by size and protocol. The functions of triples are compiled first."""
    for n, protocols in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write_scene(root, n)
            started = time.process_time()
            opened = TASK.open(root / "truth", {})
            records = TASK.records_from_results(root / "results", opened)
            print(f"{n} images: read {time.process_time() - started:.2f} s", end="")
            for protocol in protocols:
                if n == 100 and protocol == "imc2024":
                    TASK.score(records, protocol)
                started = time.process_time()
                value = TASK.score(records, protocol)[0].value
                print(f", {protocol} {time.process_time() - started:.2f} s ({value:.4f})", end="")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"; {peak} MiB", flush=True)


if __name__ == "__main__":
    main()
