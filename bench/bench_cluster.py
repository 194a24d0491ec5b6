# SPDX-License-Identifier: BSD-3-Clause
"""Overhead of a cluster: many small jobs on workers of this machine.

    python bench/bench_cluster.py [--jobs 10000] [--workers 2] [--limit-ms 5]

Jobs measure their own time. The script prints the time in the workers, the wall time of the caller, and the
overhead per job: wall time times workers, minus the work. The start and check of the workers are timed apart.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np

from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.run.context import ContextRecipe, RunContext
from tiepoint.run.executors.dask_executor import DaskExecutor
from tiepoint.run.executors.dask_worker import ALWAYS


def small(context: RunContext, argument: int) -> float:
    """Run a job of about a quarter of a millisecond; return its seconds."""
    started = time.perf_counter()
    np.sort(np.random.default_rng(argument).random(4000))
    return time.perf_counter() - started


def made_data(root: Path) -> Path:
    """Write a dataset of one sequence, which contexts need."""
    rng = np.random.default_rng(0)
    for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
        write_strip(root / "v_a" / f"{image}.png", rng.integers(0, 256, (8, 9, 9)).astype(np.uint8))
    return root


def main() -> int:
    """Run and print; return 1 if the overhead per job is above the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit-ms", type=float, default=5.0)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        data, root = made_data(Path(folder) / "data"), Path(folder) / "store"
        root.mkdir()
        recipe = ContextRecipe("hpatches/matching", str(data), {}, "pixels", {}, str(root), 1)
        started = time.perf_counter()
        said: list[str] = []
        with DaskExecutor.open(f"local:{options.workers}", root, ALWAYS, report=said.append) as executor:
            opened = recipe.open_task()
            remote = executor.remote(recipe, "patches", opened.data_hash)
            executor.check([remote])
            ready = time.perf_counter()
            executor.collect(executor.submit(small, {"first": 0, "second": 1}, remote))
            warm = time.perf_counter()
            pieces = executor.submit(small, {str(i): i for i in range(options.jobs)}, remote)
            sent = time.perf_counter()
            results, failures = executor.collect(pieces)
            done = time.perf_counter()
    assert not failures
    assert len(results) == options.jobs
    work, wall = sum(results.values()), done - warm
    over = 1000 * (wall * options.workers - work) / options.jobs
    print(f"workers started and checked     {ready - started:8.2f} s")
    print(f"contexts built                  {warm - ready:8.2f} s")
    print(f"{options.jobs} jobs in {len(pieces)} pieces sent   {sent - warm:8.2f} s")
    print(f"all done after                  {wall:8.2f} s")
    print(f"work in the workers             {work:8.2f} s, {1000 * work / options.jobs:.3f} ms per job")
    print(f"overhead                        {over:8.3f} ms per job, limit {options.limit_ms:g}")
    return int(over > options.limit_ms)


if __name__ == "__main__":
    raise SystemExit(main())
