# SPDX-License-Identifier: BSD-3-Clause
"""The demo: run some methods of every family with generated data."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from ..core.errors import InputError, UnitError
from ..datasets.demo.dataset import make_demo
from ..datasets.demo.rooms import make_rooms
from ..datasets.patch_cutting.dataset import cut_patches
from ..datasets.patch_cutting.sequence import CutOptions
from ..datasets.reconstructions.layouts import SCENE_JSON
from ..geometry.two_view.estimator import import_library
from ..store.store import Store
from .context import Progress, limit_threads, no_progress
from .costs import cores
from .engine import evaluate
from .executors.process_pool import block_interrupts_in_workers, end_workers, exit_with_parent, safe_path
from .request import RunRequest
from .result import Run

PATCH_METHODS = ("rootsift", "sift", "orb", "resize", "random")
PATCH_TASKS = ("hpatches/matching", "hpatches/verification", "hpatches/retrieval")
KEYPOINT_METHODS = ("rootsift", "orb")
KEYPOINT_TASKS = ("keypoints/matching", "keypoints/ranking", "keypoints/geometry")
PAIR_METHODS = ("sift?ratio=0.8", "klt")
DENSE_METHODS = ("dis", "farneback", "zero")
MAX_PATCHES = 160
SFM_METHODS = ("colmap-sift", "orb?max_features=1000")
ROOM, ROOM_SIZE = "small", (400, 300)
TIMED_ITEMS = 12
STEPS = ("patches", "keypoints", "pairs", "dense", "sfm")
"""Steps of the demo. `sfm` needs pycolmap and is skipped without it."""
STREAMS = (("patches", "dense"), ("keypoints", "pairs", "sfm"))
"""Families of methods. With several jobs, each stream has its own process."""


@dataclass(frozen=True)
class DemoStep:
    """A finished step of the demo. Other steps may have run during its `seconds`."""

    name: str
    seconds: float
    runs: tuple[Run, ...] = ()


StepReport = Callable[[DemoStep], None]


def run_demo(
    out: Path, *, jobs: int = 1, progress: Progress = no_progress, report: StepReport = lambda _step: None
) -> tuple[list[Run], Path]:
    """Create the demo data below `out` if missing and run the demo. Return the runs and the store folder.

    With more than one job, one process runs the patch tasks and a second process runs all other tasks.
    `report` is called after each step, in the order of `STEPS`.
    """
    start = time.perf_counter()
    _make(out, jobs, progress)
    report(DemoStep("data", time.perf_counter() - start))
    seconds: dict[str, float] = {}
    if jobs > 1:
        _run_streams(out, progress, seconds)
    runs: list[Run] = []
    with Store.open(out / "store") as store:
        for name in demo_steps():
            requests = demo_requests(out, name)
            if jobs > 1:  # the streams have stored the runs
                requests, progress = [replace(r, time=False) for r in requests], no_progress
            found, took = _run_step(name, requests, store, progress)
            report(DemoStep(name, seconds.get(name, took), tuple(found)))
            runs += found
    return runs, out / "store"


def demo_requests(out: Path, step: str) -> list[RunRequest]:
    """Return the run requests of one step of `STEPS`.

    Methods are timed on a few items of the step's first task; its other tasks have the same inputs.
    """
    requests = _requests(out, step)
    first = requests[0].task
    return [replace(r, time=step != "sfm" and r.task == first, timed_items=TIMED_ITEMS) for r in requests]


def _requests(out: Path, step: str) -> list[RunRequest]:
    both = ("exact", "hpatches-python")
    if step == "patches":
        # The published recipe labels some identical patches as negatives; the clean lists do not.
        options = {"hpatches/verification": {"lists": "clean"}}
        data, bad = out / "patches", {"on_bad": "miss"}
        pairs = [(m, t) for t in PATCH_TASKS for m in PATCH_METHODS]
        return [RunRequest(m, t, data, both, options.get(t, {}), bad) for m, t in pairs]
    if step == "keypoints":
        keypoints = [(m, t) for t in KEYPOINT_TASKS for m in KEYPOINT_METHODS]
        return [RunRequest(m, t, out / "sequences", ("exact",)) for m, t in keypoints]
    if step == "sfm":
        data = out / "rooms"
        return [RunRequest(m, "sfm/reconstruct", data, ("exact",), {"seeds": 1}) for m in SFM_METHODS]
    if step == "pairs":
        # Without PoseLib, protocol `exact` uses OpenCV.
        estimator = {} if lacking() is None else {"estimator": "opencv"}
        data = out / "pose" / "pairs.json"
        return [RunRequest(m, "pose/relative", data, ("exact",), estimator) for m in PAIR_METHODS]
    return [RunRequest(m, "tss", out / "dense", ("exact", "tss-cpp")) for m in DENSE_METHODS]


def demo_steps() -> tuple[str, ...]:
    """Return the steps that the installed packages allow."""
    return STEPS if find_spec("pycolmap") is not None else STEPS[:-1]


def lacking() -> str | None:
    """Return a message with missing dependencies and how to install them. None if nothing is missing."""
    try:
        import_library("poselib")
    except InputError as e:
        return f"{e}; the demo estimates poses by OpenCV instead"
    return None


def _run_step(
    step: str, requests: Sequence[RunRequest], store: Store, progress: Progress
) -> tuple[list[Run], float]:
    """Run the requests of a step, or read them from the store. Return the runs and the seconds."""
    start = time.perf_counter()
    found = []
    for i, request in enumerate(requests):
        progress(step, i, len(requests))
        found.append(evaluate(request, store))
    progress(step, len(requests), len(requests))
    return found, time.perf_counter() - start


def _run_streams(out: Path, progress: Progress, seconds: dict[str, float]) -> None:
    """Run both streams of demo steps in processes. Fill in the seconds of each step."""
    context = multiprocessing.get_context("spawn")
    total = sum(len(demo_requests(out, step)) for step in demo_steps())
    Store.open(out / "store").close()
    me, times = os.getpid(), context.SimpleQueue()
    workers = [context.Process(target=_run_stream, args=(str(out), s, me, times)) for s in STREAMS]
    try:
        with safe_path(), block_interrupts_in_workers():
            for worker in workers:
                worker.start()
        while any(worker.is_alive() for worker in workers):
            progress("methods", min(total, len(list((out / "store" / "runs").glob("*.json")))), total)
            workers[0].join(0.5)
            workers[1].join(0.1)
    finally:
        end_workers(workers, out / "store")
    if any(worker.exitcode for worker in workers):
        raise UnitError("part of the demo failed; rerun the command to resume the demo and print the error")
    while not times.empty():
        name, took = times.get()
        seconds[name] = took
    progress("methods", total, total)


def _run_stream(out: str, steps: Sequence[str], parent: int, times: SimpleQueue[tuple[str, float]]) -> None:
    exit_with_parent(parent)
    limit_threads(cores() // len(STREAMS))
    with Store.open(Path(out) / "store") as store:
        for step in (s for s in steps if s in demo_steps()):
            _, took = _run_step(step, demo_requests(Path(out), step), store, no_progress)
            times.put((step, took))


def _make(out: Path, jobs: int, progress: Progress) -> None:
    """Create the demo data unless it is complete."""
    if not (out / "made").exists():
        progress("data", 0, 2)
        made = make_demo(out, jobs=jobs)
        progress("data", 1, 2)
        cut_patches(made.sequences, out / "patches", options=CutOptions(max_patches=MAX_PATCHES), jobs=jobs)
        progress("data", 2, 2)
        (out / "made").write_text("complete\n", encoding="utf-8", newline="\n")
    if "sfm" in demo_steps() and not (out / "rooms" / ROOM / SCENE_JSON).exists():
        make_rooms(out / "rooms", scenes=[ROOM], size=ROOM_SIZE)
