# SPDX-License-Identifier: BSD-3-Clause
"""Run the same commands with jobs, clusters and devices, and compare the exports bit by bit.

    python bench/same_bits.py --work DIR [--data DATA] [--modes jobs=1 jobs=2 cluster=local:2 kernels=torch]

Every mode runs the same command lines into a separate store: on the demo set, and with DATA on the real
sequences, pairs and flows of the tests. The script then writes all formats of ``report`` without measured
times (CSV, JSON, Parquet, Markdown, LaTeX). It compares them, the feature arrays and the records byte for
byte with those of the first mode. Worker processes are used even for small work. The exit code is 1 if
anything differs.

Modes: ``jobs=N``, ``cluster=ADDRESS``, ``kernels=torch`` (the kernels' torch path on the CPU) and
``device=cuda``. Networks are not among the methods, because the device is in the key of their features.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

MODES = ["jobs=1", "jobs=2", "cluster=local:2", "kernels=torch"]
START = """
import importlib.util
for name in ("tiepoint.run.compute",):
    if importlib.util.find_spec(name) is not None:
        vars(importlib.import_module(name))["MIN_PARALLEL_WORK_S"] = 0.0
from tiepoint.cli.main import main
main()
"""
CONTRIB = importlib.util.find_spec("cv2.xfeatures2d") is not None
FORMATS = ("csv", "json", "parquet", "md", "latex")
V1 = "hpatches-v1/classification,hpatches-v1/matching,hpatches-v1/retrieval"
V2 = "hpatches/verification,hpatches/matching,hpatches/retrieval"
KEYPOINTS = "keypoints/ranking,keypoints/matching,keypoints/verification,keypoints/retrieval,keypoints/images"
BITS = '''"""A method whose descriptors are packed bits."""

import numpy as np


class Bits:
    """Signs of differences between cells."""

    distance = "hamming"
    zero_rows_are_valid = True

    def describe(self, patches):
        """(n, s, s) -> (n, 8) bytes."""
        side = patches.shape[1] // 8 * 8
        cells = patches[:, :side, :side].reshape(len(patches), 8, side // 8, 8, side // 8).mean(axis=(2, 4))
        return np.packbits(cells.reshape(len(patches), 64) > cells.mean(axis=(1, 2))[:, None], axis=1)
'''


def lines(demo: Path, data: Path | None) -> Iterator[str]:
    """Return the command lines without the options of a mode."""
    patches = f"--data {demo}/patches --on-bad miss"
    methods = f"sift rootsift orb {'brief' if CONTRIB else ''} resize constant {demo}/bits.py:Bits"
    yield f"run {methods} --task {V2} {patches}"
    yield f"run {methods} --task {V1} --tasks {demo}/benchmarks {patches}"
    yield f"run sift constant --task hpatches/retrieval -o distractors=every {patches}"
    yield f"run sift?max_features=400 orb?max_features=300 --task {KEYPOINTS} --data {demo}/sequences"
    yield f"run sift?max_features=400 --task keypoints/geometry --data {demo}/sequences"
    yield f"run dis zero --task tss,dense/flow --data {demo}/dense"
    if data is None:
        return
    yield f"run sift?max_features=300 orb?max_features=300 --task {KEYPOINTS} --data {data}/sequences"
    yield f"run files:{data}/tss/Results zero --task tss --data {data}/tss/Dataset"
    yield f"run sift?matcher=mnn&ratio=0.8 --task pose/relative --data {data}/megadepth_sample"
    yield f"run sift?matcher=mnn --task wxbs/fundamental --data {data}/wxbs"
    yield f"run sift?matcher=mnn --task evd/homography --data {data}/evd"
    yield f"run zero --task semantic/pck --data {data}/pf_willow"


def mode_of(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the options and environment variables of a mode."""
    kind, _, value = text.partition("=")
    if kind == "kernels":
        return ["--jobs", "1"], {"TIEPOINT_KERNELS": value}
    if kind not in ("jobs", "cluster", "device"):
        raise SystemExit(
            f"unknown mode {text!r}; a mode is jobs=N, cluster=ADDRESS, kernels=torch or device=NAME"
        )
    return [f"--{kind}", value], {}


def call(arguments: Sequence[str], more: dict[str, str]) -> int:
    """Run tiepoint in a separate process; return its exit code, and its output if the code is not 0."""
    command = [sys.executable, "-c", START, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})
    if done.returncode:
        print(f"  code {done.returncode}: tiepoint {' '.join(arguments)}\n    {done.stderr.strip()[-600:]}")
    return done.returncode


def contents(store: Path, exports: Path) -> dict[str, str]:
    """Return hashes of the content and exports of a store by name, without measured times."""
    found = {}
    for folder, pattern in ((exports, "*"), (store / "features", "*/*/*.npy"), (store / "records", "**/*")):
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                name = f"{folder.name}/{path.relative_to(folder)}"
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def main() -> int:
    """Run all modes and compare each with the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="new or empty folder")
    parser.add_argument("--data", type=Path, help="real data of the tests; without it the demo set alone")
    parser.add_argument("--demo", type=Path, help="folder of an existing demo set")
    parser.add_argument(
        "--modes", nargs="+", default=["jobs=1", "jobs=2", "cluster=local:2", "kernels=torch"]
    )
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    demo = (options.demo or work / "tiepoint-demo").resolve()
    if not demo.exists() and call(["demo", "--out", str(demo)], {}):
        return 1
    (demo / "bits.py").write_text(BITS)
    first: dict[str, str] = {}
    bad = 0
    for mode in options.modes:
        more, environment = mode_of(mode)
        place = work / mode.replace("=", "-").replace(":", "-")
        store, exports = place / "store", place / "exports"
        exports.mkdir(parents=True)
        started = time.perf_counter()
        for line in lines(demo, options.data and options.data.resolve()):
            bad += call([*line.split(), *more, "--store", str(store)], environment) != 0
        for name in FORMATS:
            call(
                ["report", "--format", name, "--out", str(exports / f"all.{name}"), "--store", str(store)], {}
            )
        found = contents(store, exports)
        seconds = time.perf_counter() - started
        first = first or found
        differing = sorted(n for n in first.keys() | found.keys() if first.get(n) != found.get(n))
        against = f"{len(differing)} differ from {options.modes[0]}"
        print(f"{mode:18s} {len(found):6d} files, {against}, {seconds:.0f} s", flush=True)
        for name in differing[:20]:
            print(f"  {name}: {'differs' if name in first and name in found else 'only in one'}")
        bad += len(differing)
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
