# SPDX-License-Identifier: BSD-3-Clause
"""Scoring a TSS pair, compared with reading its files and resizing its flows with OpenCV, on one core.

``python bench/bench_dense.py [DATA]``: DATA contains ``tss/Dataset`` and ``tss/Results``; without it, the
script generates a pair of the size of FG3DCar (800 x 600, results 512 x 384). Times are CPU time of one
thread.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import cv2
import numpy as np

from tiepoint.core.buffers import thread_workspace
from tiepoint.datasets.tss import TssDataset
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.flow.tss import read_pair_result
from tiepoint.formats.image.mask import write_mask
from tiepoint.tasks.tss.data import TssOptions, compare_result

OPTIONS = TssOptions(missing="zero")
REPEATS = 21


def made(root: Path) -> Path:
    """Write a pair of the sizes of FG3DCar with smooth flow."""
    rng = np.random.default_rng(0)
    for kind, (h, w) in (("Dataset", (600, 800)), ("Results", (384, 512))):
        folder = root / kind / "FG3DCar" / "001_005"
        folder.mkdir(parents=True)
        y, x = np.mgrid[:h, :w]
        inside = ((x / w - 0.5) ** 2 + (y / h - 0.5) ** 2) < 0.12
        for i in (1, 2):
            base = np.stack([0.02 * x - 10, 0.01 * y], axis=2) * (w / 800)
            flow = (base + rng.normal(0, 0.5, base.shape)).astype(np.float32)
            if kind == "Dataset":
                flow[~inside] = 1e10
            write_flo(folder / f"flow{i}.flo", flow)
            write_mask(folder / f"mask{i}.png", inside)
    return root


def medians_ms(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median CPU time of each call in milliseconds, warmed up and measured in turns."""
    for work in works.values():
        work()
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    return {name: 1000 * statistics.median(t) for name, t in times.items()}


def read_and_resize(truth: Path, result: Path) -> None:
    """Read and resize with NumPy and OpenCV only, without checks: the denominator.

    The results are discarded. Holding them in memory, as a real program would, takes twice as long.
    """
    for i in (1, 2):
        height, width = _flow(truth / f"flow{i}.flo").shape[:2]
        cv2.imread(str(truth / f"mask{i}.png"), cv2.IMREAD_GRAYSCALE)
        cv2.imread(str(result / f"mask{i}.png"), cv2.IMREAD_GRAYSCALE)
        cv2.resize(_flow(result / f"flow{i}.flo"), (width, height), interpolation=cv2.INTER_LINEAR)


def _flow(path: Path) -> np.ndarray:
    with path.open("rb") as f:
        _, width, height = np.fromfile(f, "<i4", 3)
        return np.fromfile(f, "<f4", 2 * width * height).reshape(height, width, 2)


@cache
def dataset(root: str) -> TssDataset:
    return TssDataset(Path(root) / "Dataset")


def score(root: str, key: str, protocol: str) -> None:
    result = read_pair_result(Path(root) / "Results" / key, thread_workspace())
    compare_result(dataset(root)[key], result, protocol, OPTIONS)


def job(arguments: tuple[str, str]) -> int:
    score(*arguments, "tss-cpp")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as temporary:
        given = Path(sys.argv[1]) / "tss" if len(sys.argv) > 1 else None
        root = given if given is not None else made(Path(temporary))
        print(
            f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, OpenCV {cv2.__version__}"
        )
        for pair in dataset(str(root)).pairs:
            truth, result = root / "Dataset" / pair.key, root / "Results" / pair.key
            works = {"base": partial(read_and_resize, truth, result)}
            works |= {p: partial(score, str(root), pair.key, p) for p in ("tss-cpp", "exact")}
            # Alone and in turns: earlier work decides whether memory comes from the system or the heap.
            alone = {name: medians_ms({name: work})[name] for name, work in works.items()}
            for label, found in (("each alone", alone), ("in turns", medians_ms(works))):
                print(f"{pair.key}, {label}: reading and resizing {found['base']:.1f} ms")
                for protocol in ("tss-cpp", "exact"):
                    own = found[protocol]
                    print(f"  {protocol:10s} {own:7.1f} ms  {own / found['base']:.2f} times (at most 1.5)")
            matlab = medians_ms({"m": partial(score, str(root), pair.key, "tss-matlab")})["m"]
            print(f"  tss-matlab {matlab:7.1f} ms (emulated, not tuned)")
        keys = [p.key for p in TssDataset(root / "Dataset").pairs]
        jobs = [(str(root), keys[i % len(keys)]) for i in range(400)]
        for workers in dict.fromkeys((1, os.cpu_count() or 1)):
            with ProcessPoolExecutor(workers) as pool:
                list(pool.map(job, jobs[: 4 * workers]))
                start = time.perf_counter()
                peak = max(pool.map(job, jobs, chunksize=8))
                seconds = time.perf_counter() - start
            print(f"400 pairs, {workers} workers: {seconds:.1f} s, peak {peak / 1024:.0f} MB per worker")


if __name__ == "__main__":
    main()
