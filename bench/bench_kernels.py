# SPDX-License-Identifier: BSD-3-Clause
"""Speed of the kernels, compared with the bare matrix product and a plain implementation, in one run.

python bench/bench_kernels.py [--repeats 7] [--scale 1.0] [--only NAME]

Every figure is a median of repeats. Kernel and denominator alternate, so that other load affects both. "Bare"
is the float32 product into a reused tile, plus one pass over the tile if the line names it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tiepoint import kernels

TILE = (512, 4096)
rng = np.random.default_rng(0)


def rootsift_like(n: int) -> np.ndarray:
    """Return non-negative unit rows with a heavy tail, float32 (n, 128)."""
    x = rng.standard_gamma(0.3, size=(n, 128), dtype=np.float32)
    x /= x.sum(axis=1, keepdims=True)
    return np.sqrt(x, out=x)


def sift_like(n: int) -> np.ndarray:
    """Return integers from 0 to 255 like those of OpenCV's SIFT, float32 (n, 128)."""
    return np.minimum(np.rint(rootsift_like(n) * 400), 255).astype(np.float32)


def constant(n: int) -> np.ndarray:
    return np.full((n, 128), 0.3, np.float32)


def bare(queries: np.ndarray, pool: np.ndarray, *, passes: bool = True) -> None:
    """Compute the products alone, tile by tile, with one pass over each tile."""
    memory = np.empty(TILE, np.float32)
    for j in range(0, len(pool), TILE[1]):
        part = pool[j : j + TILE[1]].T
        for i in range(0, len(queries), TILE[0]):
            rows = queries[i : i + TILE[0]]
            tile = memory.ravel()[: len(rows) * part.shape[1]].reshape(len(rows), -1)
            np.matmul(rows, part, out=tile)
            if passes:
                tile.min(axis=1)


def seconds(work: Callable[[], object]) -> float:
    time.sleep(0.15)  # BLAS threads of the previous call spin for about 0.1 s
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def timings(repeats: int, *works: Callable[[], object]) -> list[np.ndarray]:
    """Return the times of each call, measured in turns."""
    for work in works:
        work()
    taken = [[seconds(work) for work in works] for _ in range(repeats)]
    return list(np.array(taken).T)


def line(name: str, took: np.ndarray, against: str, other: np.ndarray, wanted: str) -> None:
    """Print the median times and the median ratio: slowdown for a limit <=, speed-up for >=."""
    ratio = np.median(took / other if wanted.startswith("<") else other / took)
    left = f"{name:44s} {np.median(took) * 1e3:10.2f} ms"
    print(f"{left}   {against:34s} {np.median(other) * 1e3:10.2f} ms   {ratio:8.2f}x  wanted {wanted}")


def bench_first_two(repeats: int, scale: float) -> None:
    from scipy.spatial.distance import cdist

    queries, pool = rootsift_like(1500), rootsift_like(1500)
    tile = np.empty((1500, 1500), np.float32)

    def product_and_pass() -> None:
        np.dot(queries, pool.T, out=tile)
        tile.min(axis=1)

    same, whole = constant(1500), sift_like(1500)
    took, product, plain, flat, sift = timings(
        repeats,
        lambda: kernels.first_two(queries, pool),
        product_and_pass,
        lambda: cdist(queries, pool).argmin(axis=1),
        lambda: kernels.first_two(same, same),
        lambda: kernels.first_two(whole, whole),
    )
    line("first two, 1500 x 1500 x 128", took, "cdist + argmin", plain, ">= 15x")
    line("first two, 1500 x 1500 x 128", took, "product + one pass", product, "<= 2.5x")
    line("first two, integers", sift, "product + one pass", product, "<= 2.5x")
    line("first two, constant descriptor", flat, "the same, RootSIFT-like", took, "<= 1x")


def bench_pairs(repeats: int, scale: float) -> None:
    from scipy.spatial.distance import euclidean

    rows = rootsift_like(200_000)
    count, sample = int(1_000_000 * scale), 5000
    i, j = rng.integers(0, len(rows), count), rng.integers(0, len(rows), count)

    def loop() -> None:
        for x, y in zip(i[:sample], j[:sample], strict=True):
            euclidean(rows[x], rows[y])

    def gather() -> None:
        for k in range(0, count, 65536):
            rows[i[k : k + 65536]], rows[j[k : k + 65536]]

    took, plain, gathered = timings(repeats, lambda: kernels.pair_distances(rows, rows, i, j), loop, gather)
    line(f"{count} pairs", took, f"loop over euclidean (from {sample})", plain * count / sample, ">= 30x")
    line(f"{count} pairs", took, "gathering the rows with NumPy", gathered, "<= 3x")


def bench_top(repeats: int, scale: float) -> None:
    queries, pool = rootsift_like(int(4000 * scale)), rootsift_like(300_000)
    few = max(1, repeats // 3)
    took, product = timings(
        few, lambda: kernels.nearest(queries, pool, 51), lambda: bare(queries, pool, passes=False)
    )
    line(f"top 51 of {len(queries)} in 300,000", took, "products", product, "<= 3x")
    pool[:] = 0.3
    flat, _ = timings(few, lambda: kernels.nearest(queries, pool, 51), lambda: None)
    line("the same, constant descriptor", flat, "RootSIFT-like", took, "<= 1x")


def bench_counts(repeats: int, scale: float) -> None:
    import cv2

    n = int(8000 * scale)
    queries, pool, whole, same = rootsift_like(n), rootsift_like(n), sift_like(n), constant(n)
    each, sample = np.arange(n), 20_000

    def loop() -> None:
        for k in range(sample):
            cv2.norm(queries[k % n], pool[(7 * k) % n])

    def counts(a: np.ndarray, b: np.ndarray) -> Callable[[], object]:
        target = kernels.pair_distances(a, b, each, each)
        return lambda: kernels.rank_counts(a, b, each, target, each)

    took, product, plain, sift, flat = timings(
        repeats, counts(queries, pool), lambda: bare(queries, pool), loop, counts(whole, whole[::-1].copy()),
        counts(same, same),
    )  # fmt: skip
    line(f"counts, {n} in {n}", took, "product + one pass", product, "<= 2.5x")
    line(
        f"counts, {n} in {n}", took, f"loop of OpenCV norms (from {sample})", plain * n * n / sample, ">= 20x"
    )
    line("counts, integers", sift, "product + one pass", product, "<= 2.5x")
    line("counts, constant descriptor", flat, "RootSIFT-like", took, "<= 1x")


def bench_retrieval(repeats: int, scale: float) -> None:
    q, p, per = int(10_000 * scale), 20_000, 15
    queries, pool = rootsift_like(q), rootsift_like(p)
    of = np.repeat(np.arange(q), per)
    limits = np.tile([100, 500, 1000, 5000, 10_000, 15_000, 20_000, p], (q, 1)) - rng.integers(0, 6, (q, 8))
    groups = {"query_group": rng.integers(0, 40, q), "pool_group": rng.integers(0, 40, p)}
    near = np.empty((q * per, 128), np.float32)
    for k in range(0, len(near), 8192):
        near[k : k + 8192] = 0.7 * queries[of[k : k + 8192]] + 0.3 * rootsift_like(len(of[k : k + 8192]))
    target = kernels.pair_distances(queries, near, of, np.arange(len(of)))
    position = np.tile(np.arange(per), q)

    def counts(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> Callable[[], object]:
        return lambda: kernels.rank_counts(a, b, of, d, position, limits=limits, **groups)

    few = max(1, repeats // 3)
    took, product, flat = timings(
        few, counts(queries, pool, target), lambda: bare(queries, pool),
        counts(constant(q), constant(p), np.zeros_like(target)),
    )  # fmt: skip
    line(f"retrieval, {q} x {p}, 15 targets, 8 limits", took, "product + one pass", product, "<= 2.5x")
    line("the same, constant descriptor", flat, "RootSIFT-like", took, "<= 1x")
    bits_q, bits_p = (rng.integers(0, 256, (n, 32)).astype(np.uint8) for n in (q, p))
    far = kernels.pair_distances(bits_q, bits_p, of, np.arange(len(of)) % p, distance="hamming")
    (bits,) = timings(
        few, lambda: kernels.rank_counts(bits_q, bits_p, of, far, position, distance="hamming", limits=limits)
    )
    line("the same, 256 bits, hamming", bits, "product + one pass of 128 floats", product, "<= 2.5x")


def bench_memory(repeats: int, scale: float) -> None:
    """Measure the peak memory of a new process: 315,000 x 128, k = 51, and 1.2 million pairs."""
    script = (
        "import numpy as np, resource, tiepoint.kernels as k\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20\n"
        "rng = np.random.default_rng(0)\n"
        "pool = rng.standard_normal((315000, 128), dtype=np.float32)\n"
        "k.nearest(pool[:8], pool[:64], 3)\n"
        "before = peak()\n"
        "k.nearest(pool[:500], pool, 51)\n"
        "i = rng.integers(0, 315000, 1200000)\n"
        "k.pair_distances(pool, pool, i, i[::-1])\n"
        "print(f'{peak():.2f} GiB in all, {peak() - before:.2f} GiB above the descriptors')\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    print(f"{'315,000 x 128, 1.2 M pairs: peak':44s} {found.stdout.strip()}   wanted < 2, < 1 above")


def bench_start(repeats: int, scale: float) -> None:
    """Time a new process with compiled code on disk, from the import to the first result."""
    script = "import numpy as np, tiepoint.kernels as k; a = np.ones((9, 9), np.float32)\n"
    script += "k.first_two(a, a); k.nearest(a, a, 2); k.rank_counts(a, a, [0], [0.0], [0])\n"
    script += "k.pair_distances(a, a, [0], [1])"
    run = [sys.executable, "-c", script]
    (took,) = timings(max(3, repeats // 2), lambda: subprocess.run(run, check=True))
    print(
        f"{'start-up and first result of every kernel':44s} {np.median(took) * 1e3:10.2f} ms   wanted < 2 s"
    )


BENCHES = {
    "first_two": bench_first_two,
    "pairs": bench_pairs,
    "top": bench_top,
    "counts": bench_counts,
    "retrieval": bench_retrieval,
    "memory": bench_memory,
    "start": bench_start,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the queries, for a quick look")
    parser.add_argument("--only", choices=sorted(BENCHES))
    given = parser.parse_args()
    model = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")]
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{model[0].split(':')[1].strip()}, {cores} cores, load {load:.1f}, numpy {np.__version__}")
    for name, run in BENCHES.items():
        if given.only in (None, name):
            run(given.repeats, given.scale)
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
