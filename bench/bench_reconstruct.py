# SPDX-License-Identifier: BSD-3-Clause
"""Reconstruct projected points seen by many cameras, and print the time of each stage.

    python bench/bench_reconstruct.py [--images 100] [--points 400] [--mapper incremental]

Every camera sees all points with noise of 0.2 px; all pairs are matched correctly. The script verifies and
maps them with one seed, as `sfm/reconstruct` does, and prints wall and CPU time by stage, peak memory and
the largest rotation error. Needs pycolmap.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "tasks"))

from sfm_world import poses, world

from tiepoint.geometry.quaternions import rotations_of
from tiepoint.tasks.sfm.pipeline.mapping import MapperSettings, colmap_build, reconstruct


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--mapper", default="incremental")
    args = parser.parse_args()
    cameras, matches = world(args.images, args.points)
    started = time.perf_counter()
    found = reconstruct(cameras, matches, MapperSettings(args.mapper, 0))
    total = time.perf_counter() - started
    print(f"pycolmap {' '.join(colmap_build())}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{args.images} images, {len(matches.pairs)} pairs, {args.mapper}: {found.failure or 'done'}")
    for stage, (wall, cpu) in found.found.get("seconds", {}).items():
        print(f"{stage:<14} {wall:7.1f} s wall {cpu:7.1f} s CPU")
    print(f"whole call     {total:7.1f} s wall, peak {found.found.get('peak_mib', 0):.0f} MiB")
    for model in found.models:
        true = dict(zip(cameras, poses(args.images), strict=True))
        R = rotations_of(model.q)
        T = np.array([true[name][0] for name in model.names])
        turn = (R @ R[0].T) @ np.transpose(T @ T[0].T, (0, 2, 1))
        trace = np.clip((np.trace(turn, axis1=1, axis2=2) - 1) / 2, -1, 1)
        worst = np.degrees(np.arccos(trace)).max()
        print(f"{len(model)} images registered, largest rotation error {worst:.3f} degrees")


if __name__ == "__main__":
    main()
