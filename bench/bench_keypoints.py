# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint scoring at 8000 keypoints per image, 128-d, on this machine.

- counts of 8000 queries in 8000 candidates (the inner step of `keypoints/ranking`) against the bare float32
  matrix product plus one pass over the tile, and against a loop of OpenCV norms;
- the workbench verification of one scene: 8000 queries x 5 targets of 8000, pooled; time and memory;
- the exact ranking of one pair in which a fifth of the keypoints have two orientations.

Run: ``python bench/bench_keypoints.py [keypoints]``. With ``--large`` (default 100,000 keypoints), only
`keypoints/ranking` and `keypoints/matching` of one scene of six images: time, memory beyond the mapped
features, and the float32 products of the compared rows with one pass over each tile, on as many threads.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

DIM, TARGETS = 128, 5


def medians_s(*works, repeats: int = 5) -> list[float]:
    """Return the median time of each call, measured in turns so that other load affects all equally."""
    taken = []
    for _ in range(repeats):
        row = []
        for work in works:
            start = time.perf_counter()
            work()
            row.append(time.perf_counter() - start)
        taken.append(row)
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def descriptors(rng: np.random.Generator, n: int, near: np.ndarray | None = None) -> np.ndarray:
    """Return SIFT-like rows: non-negative integers of norm about 512, each similar to a row of `near`."""
    out = np.empty((n, DIM), np.float32)
    for i in range(0, n, 8192):
        raw = rng.gamma(0.6, 1.0, (min(8192, n - i), DIM))
        if near is not None:
            raw = near[i : i + 8192] / 60 + 0.25 * raw
        out[i : i + 8192] = np.rint(512 * raw / np.linalg.norm(raw, axis=1, keepdims=True))
    return out


def counts(n: int) -> None:
    from tiepoint.kernels import pair_distances_sq, rank_counts

    rng = np.random.default_rng(0)
    q = descriptors(rng, n)
    p = descriptors(rng, n, near=q)
    right = np.arange(n)
    value = pair_distances_sq(q, p, right, right)

    def ours():
        return rank_counts(q, p, right, value, right, distance="l2", squared=True, target_in_pool=True)

    memory = np.empty((512, n), np.float32)

    def product():
        # One pass over each tile is part of the bare cost, because any use of distances reads them.
        for i in range(0, n, 512):
            rows = q[i : i + 512]
            tile = memory[: len(rows)]
            np.matmul(rows, p.T, out=tile)
            tile.min(axis=1)

    ours()
    a, b = medians_s(ours, product)
    print(f"counts {n} x {n}: {a:.3f} s; matrix product and one pass: {b:.3f} s; ratio {a / b:.2f}")
    try:
        import cv2
    except ImportError:
        return
    some = 20

    def loop():
        for i in range(some):
            d = [cv2.norm(q[i], row, cv2.NORM_L2SQR) for row in p]
            sum(x < d[i] for x in d)

    slow = medians_s(loop, repeats=1)[0] * n / some
    print(f"loop of OpenCV norms (from {some} queries): {slow:.1f} s; ratio {slow / a:.0f}")


def scene(folder: Path, n: int):
    """Create a scene of six images whose keypoints correspond one to one, with up to a pixel of noise."""
    from PIL import Image

    from tiepoint.core.records import Features

    rng = np.random.default_rng(1)
    size = (1600, 1200)
    (folder / "v_bench").mkdir()
    xy = rng.uniform(10, [s - 10 for s in size], (n, 2))
    base = descriptors(rng, n)
    tables = {}
    for k in range(1, TARGETS + 2):
        Image.new("L", size, k).save(folder / "v_bench" / f"{k}.png")
        if k > 1:
            np.savetxt(folder / "v_bench" / f"H_1_{k}", np.eye(3))
        places = np.clip(xy + rng.normal(0, 2.0, xy.shape), 0, [s - 1 for s in size])
        places[: n // 5] = places[n // 5 : 2 * (n // 5)]
        values = base if k == 1 else descriptors(rng, n, near=base)
        tables[f"v_bench/{k}"] = {"keypoints": np.column_stack([places, np.zeros((n, 5))]), "values": values}
    return Features(tables.__getitem__, "l2")


def tasks(n: int) -> None:
    from tiepoint.tasks.keypoints.ranking.task import TASK as RANKING
    from tiepoint.tasks.keypoints.verification.task import TASK as VERIFICATION

    with TemporaryDirectory() as folder:
        features = scene(Path(folder), n)
        for task, protocol in ((RANKING, "exact"), (RANKING, "workbench"), (VERIFICATION, "workbench")):
            opened = task.open(Path(folder), {})
            start = time.perf_counter()
            records = opened.compare(opened.units[0], features, protocol)
            scores = task.score([records], protocol)
            seconds = time.perf_counter() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{task.name}, {protocol}, {TARGETS} targets of {n}: {seconds:.1f} s, peak {peak:.2f} GiB, "
                f"records {records.size_bytes / 1e6:.1f} MB, {scores[0].metric} {scores[0].value:.4f}"
            )


def large(n: int) -> None:
    """Compare ranking and matching of many keypoints with their products, on memory-mapped features."""
    from bench_hpatches import Memory, bare_retrieval
    from tiepoint.core.records import Features
    from tiepoint.geometry.correspondence import locations
    from tiepoint.kernels import get_threads
    from tiepoint.tasks.keypoints.matching.task import TASK as MATCHING
    from tiepoint.tasks.keypoints.ranking.task import TASK as RANKING

    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        made = scene(folder / "data", n)
        keys = [f"v_bench/{k}" for k in range(1, TARGETS + 2)]
        for i, key in enumerate(keys):
            for part, array in made.arrays(key).items():
                np.save(folder / f"{part}{i}.npy", array)

        def mapped(key: str) -> dict[str, np.ndarray]:
            i = keys.index(key)
            return {p: np.load(folder / f"{p}{i}.npy", mmap_mode="r") for p in ("keypoints", "values")}

        del made
        features = Features(mapped, "l2")
        for task, protocol in ((RANKING, "exact"), (RANKING, "workbench"), (MATCHING, "exact")):
            opened = task.open(folder / "data", {})
            with Memory() as memory:
                start = time.perf_counter()
                records = opened.compare(opened.units[0], features, protocol)
                compared = time.perf_counter() - start
                held = memory.peak
                task.score([records], protocol)
                scored = time.perf_counter() - start - compared
            start = time.perf_counter()
            for number, key in enumerate(keys[1:]):
                asked = n
                if "query" in records.columns:
                    wanted = np.unique(records["query"][records["image"] == number])
                    xy = mapped(keys[0])["keypoints"][:, :2]
                    # Queries are locations under `exact`, and a location can have several descriptors.
                    of = locations(xy).of if protocol == "exact" else np.arange(n)
                    asked = int(np.isin(of, wanted).sum())
                bare_retrieval(mapped(keys[0])["values"][:asked], [mapped(key)["values"]], get_threads())
            bare = time.perf_counter() - start
            print(
                f"{task.name}, {protocol}, {TARGETS} targets of {n}: compare {compared:.1f} s, "
                f"products {bare:.1f} s, ratio {compared / bare:.2f}; score {scored:.1f} s; "
                f"peak {held / 2**20:.0f} MiB, with score "
                f"{memory.peak / 2**20:.0f} MiB; records {records.size_bytes / 1e6:.1f} MB",
                flush=True,
            )


def main() -> None:
    if "--large" in sys.argv[1:]:
        sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
        large(sizes[0] if sizes else 100_000)
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, NumPy {np.__version__}")
    counts(n)
    tasks(n)


if __name__ == "__main__":
    main()
