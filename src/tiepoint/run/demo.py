# SPDX-License-Identifier: BSD-3-Clause
"""The demo: data made on the spot, every family of methods on every task."""

from __future__ import annotations

from pathlib import Path

from ..datasets.cut import cut_patches
from ..datasets.cut_sequence import CutOptions
from ..datasets.demo import make_demo
from ..datasets.hpatches import HPatchesDataset
from ..datasets.v1_tasks import write_v1_tasks
from ..store.store import Store
from .engine import Progress, Request, evaluate, silent
from .result import Run

PATCH_METHODS = (
    "oracle", "rootsift", "sift", "vlfeat-sift", "daisy", "orb", "brief", "latch",
    "resize", "pixels", "meanstd", "random", "constant",
)  # fmt: skip
PATCH_TASKS = ("hpatches-v1/classification", "hpatches-v1/matching", "hpatches-v1/retrieval")
MAX_PATCHES = 220


def run_demo(out: Path, *, jobs: int = 1, progress: Progress = silent) -> tuple[list[Run], Path]:
    """Make the data below `out` (kept if they are there), run, and return the runs and the store's folder."""
    sequences, patches, tasks = out / "sequences", out / "patches", out / "benchmarks"
    if not (out / "made").exists():
        progress("demo data", 0, 3)
        make_demo(out)
        progress("demo data", 1, 3)
        cut_patches(sequences, patches, options=CutOptions(max_patches=MAX_PATCHES), jobs=jobs, sheets=True)
        progress("demo data", 2, 3)
        write_v1_tasks(HPatchesDataset(patches), tasks)
        progress("demo data", 3, 3)
        (out / "made").write_text("complete\n")
    runs = []
    with Store.open(out / "store") as store:
        for task in PATCH_TASKS:
            for method in PATCH_METHODS:
                protocols = ("exact", "hbench-2016")
                request = Request(
                    method, task, patches, protocols, {"tasks": str(tasks)}, {"on_bad": "miss"}, jobs
                )
                runs.append(evaluate(request, store, progress))
    return runs, out / "store"
