# SPDX-License-Identifier: BSD-3-Clause
"""Measure method costs: time per patch, image or pair, peak memory and descriptor size. Excludes scoring."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..core.errors import StoreError
from ..core.hashing import add_checksum, verify_checksum
from ..core.processes import cores
from ..core.records import Item
from ..core.regular_files import read_content
from ..methods.pairs.image_memo import MEMO
from ..store.atomic_files import atomic_file
from .cache_keys import cost_key
from .context import RunContext

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
SAMPLE, STREAM_SAMPLE = 256, 4096
LEAST = 3
"""Minimum number of repeats for which quartiles are reported."""

ENOUGH = 20
"""Number of repeats after which timing ends if they agree."""

BUDGET_S = 0.6
TURNS_S = 0.6
"""Time budget in seconds for repeats of a method, and for alternating repeats with each of up to 3 others."""


def time_repeatedly(
    call: Callable[[], Any], *, budget_s: float = BUDGET_S, least: int = LEAST
) -> list[float]:
    """Time repeated calls after a warm-up. Return the seconds of each call.

    The function is called at least `least` times, until the time budget is spent, or until the quartiles of
    `ENOUGH` calls are at most 5 % apart. The budget is doubled if the quartiles are more than 25 % apart. A
    call that takes longer than the budget is repeated only once.
    """
    started = time.perf_counter()
    call()
    if time.perf_counter() - started > budget_s:
        least = 1
    seconds: list[float] = []
    spent = 0.0
    while len(seconds) < least or spent < budget_s or (spent < 2 * budget_s and not _agree(seconds)):
        seconds.append(time_call(call))
        spent += seconds[-1]
        if len(seconds) == ENOUGH and _agree(seconds, 1.05):
            break
    return seconds


def time_call(call: Callable[[], Any]) -> float:
    """Return the duration of one call in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _agree(seconds: list[float], ratio: float = 1.25) -> bool:
    low, high = np.percentile(seconds, [25, 75])
    return bool(high <= ratio * low)


def ranges_overlap(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the interquartile ranges of two lists of seconds overlap.

    >>> ranges_overlap([1.0, 1.1, 1.4], [1.1, 1.2, 1.4]), ranges_overlap([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    (True, False)
    """
    one, two = (np.percentile(s, [25, 75]) for s in (first, second))
    return bool(one[0] <= two[1] and two[0] <= one[1])


def time_alternating(
    first: Callable[[], Any], second: Callable[[], Any], *, budget_s: float
) -> tuple[list[float], list[float]]:
    """Time two functions alternately, so that disturbances affect both. Return the seconds per call of each.

    Stop when the interquartile ranges no longer overlap (tested every five calls) or the budget is spent.
    """
    one: list[float] = []
    two: list[float] = []
    while not one or sum(one) + sum(two) < budget_s:
        one.append(time_call(first))
        two.append(time_call(second))
        if len(one) % 5 == 0 and not ranges_overlap(one, two):
            break
    return one, two


@dataclass(frozen=True)
class _Timed:
    """A method that was timed in this process: its input, its function and the seconds per item."""

    key: str
    on: str
    call: Callable[[], Any]
    count: int
    seconds: tuple[float, ...]


_EARLIER: deque[_Timed] = deque(maxlen=3)
"""Recently measured methods of this process, except networks and methods without a key."""


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
    raise OSError(f"no {name} in /proc/self/status")


def efficiency(context: RunContext, root: Path) -> dict[str, Any]:
    """Return descriptor sizes and method costs."""
    return sizes(context) | costs(context, root)


def costs(context: RunContext, root: Path) -> dict[str, Any]:
    """Return median and quartiles of the time per patch, image or pair. Measure once per method and machine.

    One thread repeats calls for 0.6 s, or for 1.2 s if the times vary. If the quartiles of two methods
    overlap, both are measured again alternately until the quartiles separate or 0.6 s are spent. Methods that
    read precomputed features have no times.
    """
    if not context.opened.items or not context.method.needs_payload:
        return {}
    item = context.opened.items[0]
    own = context.temporary_key or context.method.key(item)
    path = root / "efficiency" / f"{cost_key(own, machine())}.json"
    with contextlib.suppress(OSError, ValueError):  # a corrupt file is measured again
        return verify_checksum(read_content(path))
    measured = _measure(context, item, None if context.temporary_key else cost_key(own))
    with contextlib.suppress(StoreError), atomic_file(path) as temporary:  # else it is measured again
        temporary.write_text(add_checksum(measured), encoding="utf-8", newline="\n")
    return measured


def sizes(context: RunContext) -> dict[str, Any]:
    """Return the size of a descriptor in bytes and its dimension."""
    if not context.opened.items:
        return {}
    arrays = context.arrays(context.opened.items[0].key)
    if "values" not in arrays or not len(arrays["values"]):
        return {}
    values = arrays["values"]
    return {"bytes_per_descriptor": int(values.nbytes // len(values)), "dimension": int(values.shape[1])}


def _measure(context: RunContext, item: Item, key: str | None) -> dict[str, Any]:
    method, payload = context.method, context.opened.read_item(item.key)
    count = 1
    if method.family == "patches":
        payload = payload[:SAMPLE]
        if method.stream is not None and len(payload):  # all batches have the same size, padded if necessary
            payload = np.resize(payload, (STREAM_SAMPLE, *payload.shape[1:]))
        count = len(payload)
        item = Item(item.key, item.content, count)
    if not count:
        return {}

    def call() -> object:
        return method.extract(item, payload)

    with MEMO.bypassed():
        seconds = [s / count for s in time_repeatedly(call)]
        turns: list[dict[str, Any]] = []
        if key is not None and method.stream is None and len(seconds) >= LEAST:
            mine = _Timed(key, f"{method.family} {item.content} {count}", call, count, tuple(seconds))
            turns = _beside(mine, seconds)
            _EARLIER.append(mine)
        peak = peak_memory_bytes(call)
    low, median, high = np.percentile(seconds, [25, 50, 75])
    found: dict[str, Any] = {
        "per": UNIT[method.family],
        "time_s": float(median),
        "time_quartiles_s": [float(low), float(high)],
        "repeats": len(seconds),
        "batch": count,
        "peak_memory_bytes": peak,
        "machine": machine(),
    }
    return found if key is None else found | {"key": key, "in_turns": turns}


def _beside(mine: _Timed, seconds: list[float]) -> list[dict[str, Any]]:
    """Time a method alternately with each earlier method of similar speed. Return the quartiles of both."""
    found = []
    for other in [e for e in _EARLIER if e.on == mine.on and e.key != mine.key]:
        if not ranges_overlap(other.seconds, mine.seconds):
            continue
        try:
            other.call()
        except Exception:  # a file of the other method is missing; its run is already finished
            _EARLIER.remove(other)
            continue
        theirs, own = time_alternating(other.call, mine.call, budget_s=TURNS_S)
        if len(own) < LEAST:
            continue
        seconds += [s / mine.count for s in own]
        found.append(
            {
                "key": other.key,
                "other_s": _quartiles(theirs, other.count),
                "own_s": _quartiles(own, mine.count),
            }
        )
    return found


def _quartiles(seconds: Sequence[float], count: int) -> list[float]:
    return [float(q) / count for q in np.percentile(seconds, [25, 75])]
