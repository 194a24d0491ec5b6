# SPDX-License-Identifier: BSD-3-Clause
"""The demo: run methods of every family on every task with generated data."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

from ..core.errors import InputError, UnitError
from ..datasets.demo.dataset import make_demo
from ..datasets.demo.views import make_stereo
from ..datasets.hpatches.dataset import HPatchesDataset
from ..datasets.hpatches.task_files_2016 import V1Sizes, write_v1_tasks
from ..datasets.patch_cutting.dataset import cut_patches
from ..datasets.patch_cutting.sequence import CutOptions
from ..geometry.two_view.estimator import import_library
from ..store.store import Store
from ..tasks import load_task
from .context import Progress, limit_threads, no_progress
from .costs import cores
from .engine import evaluate
from .executors.process_pool import block_interrupts_in_workers, end_workers, exit_with_parent, safe_path
from .request import RunRequest
from .result import Run

PATCH_METHODS = (
    "oracle", "rootsift", "sift", "orb", "brief", "latch", "resize", "pixels", "meanstd",
    "random", "constant",
)  # fmt: skip
V1_TASKS = ("hpatches-v1/classification", "hpatches-v1/matching", "hpatches-v1/retrieval")
V2_TASKS = ("hpatches/verification", "hpatches/matching", "hpatches/retrieval")
KEYPOINT_METHODS = ("sift", "rootsift", "orb")
KEYPOINT_TASKS = ("keypoints/ranking", "keypoints/matching", "keypoints/geometry")
DENSE_METHODS = ("dis", "farneback", "homography", "zero")
PAIR_METHODS = ("sift?ratio=0.8", "orb?ratio=0.9", "klt")
MAX_PATCHES = 160
STREAMS = ("patches", "others")


def run_demo(out: Path, *, jobs: int = 1, progress: Progress = no_progress) -> tuple[list[Run], Path]:
    """Create the demo data below `out` if missing and run the demo. Return the runs and the store folder.

    With more than one job, one process runs the patch tasks and a second process runs all other tasks.
    """
    _make(out, jobs, progress)
    if jobs > 1:
        _run_streams(out, progress)
    with Store.open(out / "store") as store:
        asked = [r for stream in STREAMS for r in demo_requests(out, stream)]
        runs = []
        for i, request in enumerate(asked):
            progress("demo", i, len(asked))
            runs.append(evaluate(request, store, no_progress if jobs > 1 else progress))
        progress("demo", len(asked), len(asked))
    return runs, out / "store"


def demo_requests(out: Path, stream: str) -> list[RunRequest]:
    """Return the run requests of one stream: `patches`, or `others` (keypoints, dense pairs and poses)."""
    if stream == "others":
        sequences, dense = out / "sequences", out / "dense"
        keypoints = [(m, t) for t in KEYPOINT_TASKS for m in KEYPOINT_METHODS]
        found = [RunRequest(m, t, sequences, _protocols(t)) for m, t in keypoints]
        found += [RunRequest(m, "tss", dense, ("exact", "tss-cpp")) for m in DENSE_METHODS]
        return found + _pose_requests(out / "pose" / "pairs.json")
    miss = {"on_bad": "miss"}
    patches, v1 = out / "patches", {"tasks": str(out / "benchmarks")}
    # The published recipe labels some identical patches as negatives; the clean lists do not.
    v2 = {t: {"lists": "clean"} if t.endswith("verification") else {} for t in V2_TASKS}
    old, new = ("exact", "hbench-2016"), ("exact", "hpatches-python", "hpatches-matlab")
    return [
        *(RunRequest(m, t, patches, old, v1, miss) for t in V1_TASKS for m in PATCH_METHODS),
        *(RunRequest(m, t, patches, new, v2[t], miss) for t in V2_TASKS for m in PATCH_METHODS),
    ]


def _pose_requests(pairs: Path) -> list[RunRequest]:
    """Return the run requests for relative poses. Without PoseLib, protocol `exact` uses OpenCV."""
    options = {} if lacking() is None else {"estimator": "opencv"}
    return [RunRequest(m, "pose/relative", pairs, ("exact", "superglue"), options) for m in PAIR_METHODS]


def lacking() -> str | None:
    """Return a message with missing dependencies and how to install them. None if nothing is missing."""
    try:
        import_library("poselib")
    except InputError as e:
        return f"{e}; the demo estimates poses by OpenCV instead"
    return None


def _run_streams(out: Path, progress: Progress) -> None:
    """Run the two streams in two processes. The store serialises their writes."""
    context = multiprocessing.get_context("spawn")
    total = sum(len(demo_requests(out, stream)) for stream in STREAMS)
    Store.open(out / "store").close()
    me = os.getpid()
    workers = [context.Process(target=_run_stream, args=(str(out), stream, me)) for stream in STREAMS]
    try:
        with safe_path(), block_interrupts_in_workers():
            for worker in workers:
                worker.start()
        while any(worker.is_alive() for worker in workers):
            progress("demo", min(total, len(list((out / "store" / "runs").glob("*.json")))), total)
            workers[0].join(0.5)
            workers[1].join(0.1)
    finally:
        end_workers(workers, out / "store")
    if any(worker.exitcode for worker in workers):
        raise UnitError("part of the demo failed; rerun the command to resume the demo and print the error")


def _run_stream(out: str, stream: str, parent: int) -> None:
    exit_with_parent(parent)
    limit_threads(cores() // len(STREAMS))
    with Store.open(Path(out) / "store") as store:
        for request in demo_requests(Path(out), stream):
            evaluate(request, store)


def _protocols(task: str) -> tuple[str, ...]:
    known = load_task(task).protocols
    return tuple(p for p in ("exact", "workbench") if p in known)


def _make(out: Path, jobs: int, progress: Progress) -> None:
    """Create the demo data unless it is complete."""
    if not (out / "made").exists():
        progress("demo data", 0, 3)
        made = make_demo(out)
        progress("demo data", 1, 3)
        cut_patches(made.sequences, out / "patches", options=CutOptions(max_patches=MAX_PATCHES), jobs=jobs)
        progress("demo data", 2, 3)
        sizes = V1Sizes(pools=((5, 15),))
        write_v1_tasks(HPatchesDataset(out / "patches"), out / "benchmarks", sizes=sizes)
        make_stereo(out / "pose")
        progress("demo data", 3, 3)
        (out / "made").write_text("complete\n", encoding="utf-8", newline="\n")
