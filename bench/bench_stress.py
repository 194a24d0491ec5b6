# SPDX-License-Identifier: BSD-3-Clause
"""CPU time of `tiepoint stress sift` on 8 images of 320 x 240, all kinds, and the share of rendering.

CPU seconds of the process, so that other work on the machine matters little. The first line compiles.

Usage: python bench/bench_stress.py [--side PX]
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from tiepoint.datasets.demo.dataset import make_demo
from tiepoint.datasets.stress_kinds import KINDS
from tiepoint.tasks import TASKS
from tiepoint.tools import stress


def render_all(images: Path, max_side: int) -> dict[str, float]:
    """Return the CPU seconds of reading and changing all images, by kind."""
    found = {}
    for kind in KINDS:
        data: Any = TASKS.load(f"stress/{kind}").open(images, {"max_side": max_side})
        started = time.process_time()
        for item in data.items:
            data.read_item(item.key)
        found[kind] = time.process_time() - started
    return found


def main() -> None:
    """Print CPU seconds of rendering by kind, of the complete command, and the share of rendering."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=320, help="width of the images")
    side = parser.parse_args().side
    warnings.simplefilter("ignore", UserWarning)  # the images of the first run are reduced
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_demo(root, size=(side, side * 3 // 4))
        images = root / "sequences"
        stress("sift", images=images, max_side=side // 4, store=root / "warm", progress=False)
        rendering = render_all(images, side)
        wall, started = time.perf_counter(), time.process_time()
        made = stress("sift", images=images, max_side=side, store=root / "store", progress=False)
        total, wall = time.process_time() - started, time.perf_counter() - wall
        pairs = sum(c.scenes * len(c.curve.levels) for c in made.curves)
        again = time.process_time()
        stress("sift", images=images, max_side=side, store=root / "store", progress=False)
        again = time.process_time() - again
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}")
    print(", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in rendering.items()))
    share = 100 * sum(rendering.values()) / total
    print(f"rendering of {pairs} pairs: {sum(rendering.values()):.1f} s of {total:.1f} s CPU, {share:.0f} %")
    print(f"wall {wall:.1f} s; from the store {again:.2f} s CPU")


if __name__ == "__main__":
    main()
