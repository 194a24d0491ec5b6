# SPDX-License-Identifier: BSD-3-Clause
"""Time the import of four complete dumps of ZEB.

The files are synthetic, with the published numbers of pairs and scenes. The script prints
CPU and wall seconds of the import, and of commands on the imported runs.

Usage: python bench/bench_zeb.py
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tiepoint as tp
from tiepoint.formats.zeb import HEADER
from tiepoint.run.importers import import_files
from tiepoint.store.store import Store
from tiepoint.tools import plan, race, subset

SETS = {
    "GL3D": (5165, 430), "BlendedMVS": (5049, 113), "ETH3DI": (2131, 7), "ETH3DO": (3438, 6),
    "KITTI": (5013, 9), "RobotcarWeather": (1834, 5), "RobotcarSeason": (1077, 1), "RobotcarNight": (2080, 5),
    "Multi-FoV": (5000, 1), "SceneNetRGBD": (5100, 170), "ICL-NUIM": (5000, 4), "GTA-SfM": (5029, 19),
}  # fmt: skip
"""Pairs and scenes of every set."""
METHODS = {"first": 6.0, "second": 5.0, "third": 4.5, "fourth": 2.5}
"""Median pose error in degrees of every synthetic method."""
TASK = "pose/relative"


def write_dump(folder: Path) -> None:
    """Write one file for every method and set. 5 % of the pairs have no pose."""
    rng = np.random.default_rng(0)
    for name, (pairs, scenes) in SETS.items():
        of = np.sort(rng.integers(scenes, size=pairs))
        keys = [f"scene{s:04d}#{i:06d}.jpg#{i + 7:06d}.jpg" for i, s in enumerate(of)]
        shared = rng.normal(size=scenes)[of] + rng.normal(size=pairs)
        covisible = rng.random((pairs, 2))
        for method, median in METHODS.items():
            errors = median * np.exp(shared[:, None] + rng.normal(size=(pairs, 2)))
            errors = np.minimum(errors, (180.0, 90.0))
            errors[rng.random(pairs) < 0.05] = np.inf
            share, count = rng.random((pairs, 2)), rng.integers(0, 5000, size=(pairs, 2))
            lines = [
                f"{key} {c0!r} {c1!r} {R!r} {t!r} {t / 90!r} {p0!r} {n0} {p1!r} {n1}"
                for key, (c0, c1), (R, t), (p0, p1), (n0, n1) in zip(
                    keys, covisible.tolist(), errors.tolist(), share.tolist(), count.tolist(), strict=True
                )
            ]
            path = folder / f"[T] {method} {name:>15} 1h.txt"
            path.write_text("\n".join([HEADER, *lines, ""]))


def timed(what: str, work: Callable[[], Any]) -> None:
    """Print the CPU and wall seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(
        f"{what}: {time.process_time() - cpu:.2f} s CPU, {time.perf_counter() - wall:.2f} s wall", flush=True
    )


def main() -> None:
    """Write the dump, import it and use the runs."""
    print(
        f"{sum(n for n, _ in SETS.values()):,} pairs, {len(METHODS)} methods, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "dump").mkdir()
        write_dump(root / "dump")
        store = root / "store"

        def imported() -> None:
            with Store.open(store) as opened:
                import_files([root / "dump"], opened)

        def compared(group: str) -> Callable[[], Any]:
            return lambda: tp.compare(task=TASK, store=store, group=group)

        timed("import", imported)
        timed("compare, sets", compared("cluster=set,threshold_deg=5"))
        timed("compare, pairs", compared("cluster=pair,threshold_deg=5"))
        timed("compare, scenes of GL3D", compared("set=GL3D,threshold_deg=5"))
        two = ["first", "fourth"]
        timed("race of two runs", lambda: race(two, replay=True, task=TASK, store=store))
        group = "set=GL3D,threshold_deg=5"
        timed("plan", lambda: plan(task=TASK, detect=1.0, group=group, store=store))
        timed("subset", lambda: subset(100, task=TASK, references=["first", "second"], store=store))


if __name__ == "__main__":
    main()
