# SPDX-License-Identifier: BSD-3-Clause
"""Reading speed and memory of the file formats, compared with common readers, in one run.

Usage: python bench/bench_formats.py
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from tiepoint.formats.file_io import write_bytes
from tiepoint.formats.hpatches.descriptors import read_descriptors, write_descriptors
from tiepoint.formats.hpatches.task_lists import VerificationPairs, pairs_csv_chunks, read_pairs_csv
from tiepoint.formats.hpatches_v1.classification import (
    PatchPairs,
    read_distances,
    read_patch_pairs,
    write_classification_results,
    write_patch_pairs,
)

PEAK = """
import re
import numpy as np
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
{imports}
before = peak()
{call}
print(peak() - before)
"""


def median_s(*calls: Callable[[], object], repeats: int = 5) -> list[float]:
    """Return the median CPU seconds of each call, measured in turns so that load affects all equally."""
    times: list[list[float]] = [[] for _ in calls]
    for i in range(repeats + 1):
        for call, kept in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if i:
                kept.append(time.process_time() - start)
    return [statistics.median(kept) for kept in times]


def peak_mib(imports: str, call: str) -> float:
    code = PEAK.format(imports=imports, call=call)
    return float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )


def descriptors(folder: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60_000, 128)).astype(np.float32)
    path, small, cache = folder / f"{form}.csv", folder / "small.csv", folder / f"cache-{form}"
    if form == "sift":
        values = np.floor(np.abs(values) * 60)
    if form == "savetxt":
        np.savetxt(path, values[:20_000], delimiter=",")
    else:
        write_descriptors(path, values)
    write_descriptors(small, values[:4])
    size = path.stat().st_size / 2**20
    read_descriptors(path, cache=cache)
    ours, theirs, again = median_s(
        lambda: float(read_descriptors(path).values.sum()),
        lambda: float(pd.read_csv(path, header=None, dtype=np.float32).to_numpy().sum()),
        lambda: float(read_descriptors(path, cache=cache).values.sum()),
    )
    reader = "from tiepoint.formats.hpatches.descriptors import read_descriptors"
    ours_mib = peak_mib(f"{reader}\nread_descriptors({str(small)!r})", f"read_descriptors({str(path)!r})")
    call = "pd.read_csv({!r}, header=None, dtype=np.float32).to_numpy()"
    theirs_mib = peak_mib(f"import pandas as pd\n{call.format(str(small))}", call.format(str(path)))
    print(f"descriptor CSV, {form}, {size:.0f} MiB, all values summed")
    print(
        f"  read_descriptors {ours:.3f} s, pandas.read_csv {theirs:.3f} s: {theirs / ours:.1f} times faster"
    )
    print(
        f"  peak above start {ours_mib:.0f} MiB (mapped file {size:.0f} of it), pandas {theirs_mib:.0f} MiB"
    )
    print(f"  second load {again * 1e3:.1f} ms: {ours / again:.0f} times faster than the first")


def identifiers(folder: Path) -> None:
    rng = np.random.default_rng(1)
    n = 1_200_000
    images = tuple(f"v_sequence{s}.e{k}" for s in range(40) for k in range(1, 6))
    image = [rng.integers(0, len(images), n).astype(np.int32) for _ in range(2)]
    index = [rng.integers(0, 2000, n) for _ in range(2)]
    write_patch_pairs(folder / "x.pairs", PatchPairs(images, image[0], index[0], image[1], index[1]))
    ours, theirs = median_s(
        lambda: read_patch_pairs(folder / "x.pairs"), lambda: pd.read_csv(folder / "x.pairs", header=None)
    )
    print(f".pairs, {n} rows: {ours:.2f} s (pandas, as strings only: {theirs:.2f} s)")
    write_classification_results(folder / "x.results", rng.random(n))
    (ours,) = median_s(lambda: read_distances(folder / "x.results", n))
    print(f".results, {n} rows: {ours:.2f} s")
    columns = [rng.integers(0, top, 10**6).astype(np.int32) for top in (40, 5, 2000, 40, 5, 2000)]
    table = VerificationPairs(tuple(f"v_sequence{s}" for s in range(40)), *columns)
    path = folder / "verif.csv"
    write, ours, theirs = median_s(
        lambda: write_bytes(path, pairs_csv_chunks(table)),
        lambda: read_pairs_csv(path),
        lambda: pd.read_csv(path),
    )
    print(f"verif_*.csv, 1,000,000 rows: read {ours:.2f} s (pandas {theirs:.2f} s), write {write:.2f} s")


def main() -> None:
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}; CPU seconds, medians of 5")
    with tempfile.TemporaryDirectory() as folder:
        for form in ("round-trip", "sift", "savetxt"):
            descriptors(Path(folder), form)
        identifiers(Path(folder))


if __name__ == "__main__":
    main()
