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
from .engine import Progress, Request, evaluate, load_task, silent
from .result import Run

PATCH_METHODS = (
    "oracle", "rootsift", "sift", "orb", "brief", "latch", "resize", "pixels", "meanstd",
    "random", "constant",
)  # fmt: skip
V1_TASKS = ("hpatches-v1/classification", "hpatches-v1/matching", "hpatches-v1/retrieval")
V2_TASKS = ("hpatches/verification", "hpatches/matching", "hpatches/retrieval")
KEYPOINT_METHODS = ("sift", "rootsift", "orb", "akaze")
KEYPOINT_TASKS = ("keypoints/ranking", "keypoints/matching", "keypoints/geometry")
DENSE_METHODS = ("dense-sift", "dis", "homography", "zero")
MAX_PATCHES = 160


def run_demo(out: Path, *, jobs: int = 1, progress: Progress = silent) -> tuple[list[Run], Path]:
    """Make the data below `out` (kept if they are there), run, and return the runs and the store's folder."""
    _make(out, jobs, progress)
    miss = {"on_bad": "miss"}
    patches, v1 = out / "patches", {"tasks": str(out / "benchmarks")}
    # The published recipe calls some equal patches different; the clean lists do not.
    v2 = {t: {"lists": "clean"} if t.endswith("verification") else {} for t in V2_TASKS}
    asked = [
        *(
            Request(m, t, patches, ("exact", "hbench-2016"), v1, miss, jobs)
            for t in V1_TASKS
            for m in PATCH_METHODS
        ),
        *(
            Request(m, t, patches, ("exact", "hpatches-python", "hpatches-matlab"), v2[t], miss, jobs)
            for t in V2_TASKS
            for m in PATCH_METHODS
        ),
        *(
            Request(m, t, out / "sequences", _protocols(t), {}, {}, jobs)
            for t in KEYPOINT_TASKS
            for m in KEYPOINT_METHODS
        ),
        *(Request(m, "tss", out / "dense", ("exact", "tss-cpp"), {}, {}, jobs) for m in DENSE_METHODS),
    ]
    with Store.open(out / "store") as store:
        runs = []
        for i, request in enumerate(asked):
            progress("demo", i, len(asked))
            runs.append(evaluate(request, store, progress))
        progress("demo", len(asked), len(asked))
    return runs, out / "store"


def _protocols(task: str) -> tuple[str, ...]:
    known = load_task(task).protocols
    return tuple(p for p in ("exact", "workbench") if p in known)


def _make(out: Path, jobs: int, progress: Progress) -> None:
    """The data, unless an earlier demo left them whole."""
    if (out / "made").exists():
        return
    progress("demo data", 0, 3)
    made = make_demo(out)
    progress("demo data", 1, 3)
    cut_patches(made.sequences, out / "patches", options=CutOptions(max_patches=MAX_PATCHES), jobs=jobs)
    progress("demo data", 2, 3)
    write_v1_tasks(HPatchesDataset(out / "patches"), out / "benchmarks")
    progress("demo data", 3, 3)
    (out / "made").write_text("complete\n")
