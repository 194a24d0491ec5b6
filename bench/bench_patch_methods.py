# SPDX-License-Identifier: BSD-3-Clause
"""Patches described per second by every registered patch method, on one strip of real or synthetic patches.

python bench/bench_patch_methods.py [STRIP.png] [--weights FILE ...]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time

import numpy as np

from tiepoint.core.records import Item
from tiepoint.methods.registry import METHODS
from tiepoint.methods.resolve import resolve

NEED_A_FILE = ("files", "onnx", "torchscript", "kornia")


def patches_of(strip: str | None) -> np.ndarray:
    if strip is not None:
        from tiepoint.formats.hpatches.patch_strip import read_strip

        return read_strip(strip)
    import skimage.data

    image, rng = skimage.data.camera(), np.random.default_rng(0)
    corners = rng.integers(0, 512 - 65, (1000, 2))
    return np.stack([image[y : y + 65, x : x + 65] for y, x in corners])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("strip", nargs="?")
    parser.add_argument("--weights", nargs="*", default=[], help="TFeat weight files")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    patches = patches_of(options.strip)
    names = [e.name for e in METHODS if e.family == "patches" and e.name not in NEED_A_FILE]
    names += [f"kornia:TFeat?weights={w}" for w in options.weights]
    item = Item("bench/ref", "bench", len(patches))
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {len(patches)} patches"
    )
    for name in names:
        method = resolve(name, family="patches", on_bad="miss")
        method.extract(item, patches)
        times, cpu = [], []
        for _ in range(options.repeats):
            start, used = time.perf_counter(), time.process_time()
            found = method.extract(item, patches)
            times.append(time.perf_counter() - start)
            cpu.append(time.process_time() - used)
        values = found["values"]
        rate, cpu_rate = (len(patches) / statistics.median(t) for t in (times, cpu))
        failed = int((~found["valid"]).sum()) if "valid" in found else 0
        print(
            f"{method.name:44} {method.distance:8} {values.shape[1]:5} {values.dtype!s:8} "
            f"{rate:9.0f} patches/s {cpu_rate:9.0f} per CPU second  failed {failed}"
        )


if __name__ == "__main__":
    main()
