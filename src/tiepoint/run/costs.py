# SPDX-License-Identifier: BSD-3-Clause
"""Measure method costs: time per patch, image or pair, peak memory and descriptor size. Excludes scoring."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..core.processes import cores
from ..core.records import Arrays
from ..kernels import get_threads
from ..methods.pairs.image_memo import MEMO
from .context import Progress, RunContext, count_steps, no_progress

__all__ = ["cores", "has_dashboard", "machine", "utc_now", "versions", "visible_gpus"]

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "pandas",
    "pyarrow",
    "opencv-contrib-python-headless",
    "torch",
    "onnxruntime",
)

DRIVER_S = 60.0
"""Timeout in seconds for queries to the GPU driver, which may be slow to start."""


def versions() -> dict[str, str]:
    """Return the versions of tiepoint, Python and the installed libraries."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    found = {"tiepoint": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Describe the hardware, without host or user name."""
    return {"system": platform.system(), "machine": platform.machine(), "cpu": _cpu_name(), "cores": cores()}


def visible_gpus() -> list[str]:
    """Return the names of the usable GPUs, from the environment or the driver."""
    if (listed := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in listed.split(",") if name.strip()]
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=DRIVER_S
        )
    except (OSError, subprocess.SubprocessError):  # no driver, or it does not answer
        return []
    return [str(i) for i, line in enumerate(listing.stdout.splitlines()) if line.startswith("GPU ")]


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format, rounded to seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def has_dashboard() -> bool:
    """Return whether the packages for the Dask dashboard are installed."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


UNIT = {"patches": "patch", "keypoints": "image", "dense": "pair", "pairs": "pair"}

WARM_UPS = 3
"""Calls before the first timed item. On a GPU, one more call precedes each further input size."""

MAX_SIZES = 8
"""Number of input sizes that are stored."""


def peak_memory_bytes(call: Callable[[], Any]) -> int | None:
    """Return the peak memory that a call adds to the current usage. None if the system does not report it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8", newline="\n")
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no field {name}")


def sizes(context: RunContext) -> dict[str, Any]:
    """Return the size of a descriptor in bytes and its dimension."""
    if not context.opened.items:
        return {}
    arrays = context.arrays(context.opened.items[0].key)
    if "values" not in arrays or not len(arrays["values"]):
        return {}
    values = arrays["values"]
    return {"bytes_per_descriptor": int(values.nbytes // len(values)), "dimension": int(values.shape[1])}


@dataclass
class ItemTimes:
    """Times of a method on every item, with numbers of keypoints and image sizes.

    `seconds` are per patch, image or pair. `extract_s` and `match_s` are the parts of keypoint methods with a
    matcher. `largest` is the item with the largest input.
    """

    seconds: list[float] = field(default_factory=list)
    extract_s: list[float] = field(default_factory=list)
    match_s: list[float] = field(default_factory=list)
    keypoints: list[int] = field(default_factory=list)
    sizes: dict[tuple[int, int], None] = field(default_factory=dict)
    largest: str = ""


def time_items(
    context: RunContext, device: str, progress: Progress = no_progress, limit: int | None = None
) -> ItemTimes:
    """Time the method once on each item, after warm-up calls. Inputs are in memory, nothing is cached.

    `limit` is the maximum number of items, which are evenly spaced; None for all.
    """
    method, found, most = context.method, ItemTimes(), -1
    now = partial(_now, device)
    items = context.opened.items
    if limit is not None and limit < len(items):
        items = [items[i * len(items) // limit] for i in range(limit)]
    step = count_steps(progress, f"{method.name}: times", len(items))
    with MEMO.bypassed():
        for item in items:
            payload = context.payload(item.key)
            images = _images(payload)
            count = len(payload) if method.family == "patches" else 1
            if not count:
                step()
                continue
            shapes = [image.shape[-2:] if method.family == "patches" else image.shape[:2] for image in images]
            is_new = any((s[1], s[0]) not in found.sizes for s in shapes)
            for _ in range(WARM_UPS if not found.sizes else is_new and device.startswith("cuda")):
                method.extract(item, payload)
            found.sizes.update(dict.fromkeys((int(s[1]), int(s[0])) for s in shapes))
            MEMO.spent_s = 0.0
            started = now()
            arrays = method.extract(item, payload)
            seconds = now() - started
            found.seconds.append(seconds / count)
            if MEMO.spent_s:
                found.extract_s.append(MEMO.spent_s)
                found.match_s.append(seconds - MEMO.spent_s)
            found.keypoints += _keypoints(arrays) if method.family in ("keypoints", "pairs") else []
            size = sum(image.nbytes for image in images)
            if size > most:
                most, found.largest = size, item.key
            step()
    return found


def _now(device: str) -> float:
    """Wait for the GPU, then return the clock time in seconds."""
    torch = sys.modules.get("torch")
    if device.startswith("cuda") and torch is not None:
        torch.cuda.synchronize()
    return time.perf_counter()


def _images(payload: Any) -> list[Any]:
    return [p for p in payload[:2] if p is not None] if isinstance(payload, tuple) else [payload]


def _keypoints(arrays: Arrays) -> list[int]:
    """Return the numbers of keypoints of an item's images, if known."""
    known = [int(arrays[k][0]) for k in ("keypoints0", "keypoints1") if k in arrays]
    return [len(arrays["keypoints"])] if "keypoints" in arrays else known


def measure(
    context: RunContext, device: str, progress: Progress = no_progress, limit: int | None = None
) -> dict[str, Any]:
    """Return times of a method, its peak memory, and the conditions of the measurement.

    `limit` is the maximum number of items that are timed; None for all. Methods that read precomputed
    features have no times.
    """
    method = context.method
    if not context.opened.items or not method.needs_payload:
        return {}
    torch: Any = sys.modules.get("torch") if device.startswith("cuda") else None
    if torch is not None:
        torch.cuda.reset_peak_memory_stats()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    times = time_items(context, device, progress, limit)
    if not times.seconds:
        return {}
    found = {"per": UNIT[method.family], **_statistics("time", times.seconds)}
    for name, seconds in (("extract", times.extract_s), ("match", times.match_s)):
        found |= _statistics(name, seconds) if seconds else {}
    if times.keypoints:
        found["keypoints"] = float(np.mean(times.keypoints))
    memory = _memory(context, times.largest)
    found |= {
        "n": len(times.seconds),
        "sizes": [list(size) for size in list(times.sizes)[:MAX_SIZES]],
        "peak_memory_bytes": memory,
        "threads": get_threads(),
        "device": device if torch is None else torch.cuda.get_device_name(),
        "load": load,
        "machine": machine(),
    }
    if torch is not None:
        found |= {"gpu_peak_memory_bytes": int(torch.cuda.max_memory_allocated()), "torch": torch.__version__}
    return found


def _statistics(name: str, seconds: list[float]) -> dict[str, Any]:
    """Return median, 90th percentile and quartiles of the seconds."""
    low, median, high, slow = (float(q) for q in np.percentile(seconds, [25, 50, 75, 90]))
    return {f"{name}_s": median, f"{name}_p90_s": slow, f"{name}_quartiles_s": [low, high]}


def _memory(context: RunContext, item: str) -> int | None:
    """Return the peak memory of the method on its largest input, including that of external programs."""
    payload = context.payload(item)
    with MEMO.bypassed():
        own = peak_memory_bytes(partial(context.method.extract, context.items[item], payload))
    other = None if context.method.memory is None else context.method.memory()
    return own if other is None else other + (own or 0)
