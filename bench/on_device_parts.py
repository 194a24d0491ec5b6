# SPDX-License-Identifier: BSD-3-Clause
"""Parts of `on_device.py` that import tiepoint: `data FOLDER SCALE` and `sift STRIPS STORE SMALL`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bench_startup
from bench_end_to_end import PATCHES, SEQUENCES, full_size, hardnet, make_strips, timed
from tiepoint.core.processes import cores
from tiepoint.core.records import Item
from tiepoint.datasets.hpatches.pack import pack_dataset
from tiepoint.formats.hpatches.patch_strip import read_strip
from tiepoint.run.context import ContextRecipe
from tiepoint.run.executors.process_pool import ProcessPool
from tiepoint.run.feature_pipeline import make_features

REPEATS = 3


def data(folder: Path, scale: float) -> None:
    """Write strips, a pack, a network, and the features and strips of the release."""
    n, patches = max(1, round(SEQUENCES * scale)), max(20, round(PATCHES * min(1.0, scale * 4)))
    lengths = bench_startup.lengths_of(max(2, round(116 * scale)))
    for name, work in (
        ("strips", lambda: make_strips(folder / "strips", n, patches)),
        ("one sequence", lambda: make_strips(folder / "one", 1, patches)),
        ("small", lambda: make_strips(folder / "small", 1, 600)),
        ("pack", lambda: pack_dataset(folder / "strips", folder / "packed.tiepack")),
        ("network", lambda: hardnet(folder / "net.pt")),
        ("features of the release", lambda: full_size(folder, argparse.Namespace(scale=scale))),
        ("strips of the release", lambda: bench_startup.make_strips(folder / "release", lengths)),
        ("their features", lambda: bench_startup.make_features(folder / "release", folder / "features")),
    ):
        print(f"{name}: {timed(work)[0]:.1f} s", flush=True)


def sift(strips: Path, store: Path, small: Path) -> None:
    """Print the rate of features of `sift` from strips, and of the bare calls with as many threads."""
    jobs = cores()

    def stage(folder: Path) -> tuple[int, float, Any]:
        shutil.rmtree(store, ignore_errors=True)
        recipe = ContextRecipe("hpatches/matching", str(folder), {}, "sift", {}, str(store), 1)
        started = time.perf_counter()
        context = recipe.build()
        missing = {name: (name, key) for name, key in context.feature_keys.items()}
        pool = ProcessPool(jobs)
        make_features(context, missing, recipe if jobs > 1 else None, pool, lambda *_: None, 1, 8.0)
        seconds = time.perf_counter() - started
        pool.close()
        return sum(item.count or 0 for item in context.items.values()), seconds, context

    stage(small)
    found = [stage(strips) for _ in range(REPEATS)]
    rows, _, context = found[-1]
    times = sorted(seconds for _, seconds, _ in found)
    rate = round(rows / times[REPEATS // 2])
    print(json.dumps({"patches": rows, "seconds": [round(t, 3) for t in times], "patches_per_s": rate}))
    payloads = [read_strip(p) for p in sorted(strips.glob("*/*.png"))]
    describe = context.method.extract
    with ThreadPoolExecutor(jobs) as pool:
        bare = timed(lambda: list(pool.map(lambda s: describe(Item("a", "b", len(s)), s), payloads)))[0]
    print(json.dumps({"bare_patches_per_s": round(rows / bare)}))
    print("CONTENT", context.content())


if __name__ == "__main__":
    if sys.argv[1] == "data":
        data(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        sift(*map(Path, sys.argv[2:5]))
