# SPDX-License-Identifier: BSD-3-Clause
"""Cost of verifying cached features: reading with and without checksums, in turns.

Reading is the least work of a run: it looks up and maps every entry and sums its descriptors once. A unit has
16 entries, like the images of an HPatches sequence, and is verified in threads. Cold means that the files are
not in the page cache (Linux).

Usage: python bench/bench_checksums.py [--megabytes 200] [--repeats 5] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from tiepoint.core.hashing import hash_json
from tiepoint.core.processes import cores
from tiepoint.store.feature_cache import FeatureCache

UNIT = 16


def make(root: Path, count: int, rows: int) -> list[str]:
    """Write entries with descriptors of 128 numbers; return their keys."""
    cache, values = FeatureCache(root), np.random.default_rng(0).normal(size=(rows, 128)).astype(np.float32)
    keys = [hash_json([rows, i]) for i in range(count)]
    for i, key in enumerate(keys):
        values[0, 0] = i
        cache.put(key, {"values": values, "valid": np.ones(rows, bool)}, item=str(i), method="m", time_s=1.0)
    return keys


def forget(root: Path) -> None:
    """Remove the files from the page cache."""
    for path in root.rglob("*.npy"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read(root: Path, keys: list[str], verified: bool) -> tuple[float, float]:
    """Return the wall time and CPU time in seconds."""
    cache = FeatureCache(root)
    started, worked = time.perf_counter(), time.process_time()
    for i in range(0, len(keys), UNIT):
        own = keys[i : i + UNIT]
        if verified:
            assert not cache.find_damaged(own)
        for key in own:
            if not verified:
                (cache.meta(key) or {}).pop("sums", None)
            np.add.reduce(cache.get(key)["values"].reshape(-1))
    return time.perf_counter() - started, time.process_time() - worked


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder on the disk to measure")
    given = parser.parse_args()
    print(f"{cores()} cores; medians of {given.repeats} repeats in turns\n")
    print("| entry | files | reading | with checksums | overhead | CPU time | with checksums | overhead |")
    print("|---|---|---|---|---|---|---|---|")
    for rows in (200, 2000, 20000):
        count = max(1, given.megabytes * 10**6 // (rows * 512))
        for state in ("cold", "warm"):
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                root = Path(folder)
                taken: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
                keys = make(root, count, rows)
                for _ in range(given.repeats):
                    for verified in (False, True):
                        if state == "cold":
                            forget(root)
                        taken[verified].append(read(root, keys, verified))
            cells = []
            for kind in (0, 1):
                plain, checked = (statistics.median(t[kind] for t in own) for own in taken)
                cells += [
                    f"{plain * 1e3:.0f} ms",
                    f"{checked * 1e3:.0f} ms",
                    f"{100 * (checked / plain - 1):+.0f} %",
                ]
            print(f"| {rows * 512 / 1e6:.1f} MB | {state} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
