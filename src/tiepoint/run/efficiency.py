# SPDX-License-Identifier: BSD-3-Clause
"""What a method costs: time per patch, image or pair, peak memory, bytes. Never mixed with scoring time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..methods.legacy_keys import old_keys
from ..methods.pairs.from_keypoints import MEMO
from ..model.hashing import hash_json
from ..model.units import Item
from ..store.atomic import atomic_file
from . import machine as about
from .context import Context

UNIT = {"patches": "patch", "keypoints": "image", "dense": "pair", "pairs": "pair"}
SAMPLE, STREAM_SAMPLE = 256, 4096
BUDGET_S = 0.6


def repeated(call: Callable[[], Any], *, budget_s: float = BUDGET_S, least: int = 3) -> list[float]:
    """Seconds of repeated calls after one warm-up: until the budget is spent, at least `least`.

    A call that takes longer than the budget is repeated once only; the number of repeats is kept.
    """
    started = time.perf_counter()
    call()
    if time.perf_counter() - started > budget_s:
        least = 1
    seconds: list[float] = []
    while len(seconds) < least or sum(seconds) < budget_s:
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds


def peak_memory_bytes(call: Callable[[], Any]) -> int | None:
    """Memory a call takes at its peak above what is there before; None where the system cannot tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


def efficiency(context: Context, root: Path) -> dict[str, Any]:
    """Sizes of descriptors and costs of the method."""
    return sizes(context) | costs(context, root)


def costs(context: Context, root: Path) -> dict[str, Any]:
    """Median and quartiles of the time per patch, image or pair, measured once a method and machine.

    One thread of the caller's process, a warm-up, repeats until 0.6 s. Methods that only look features up
    have no times.
    """
    if not context.opened.items or not context.method.reads_payload:
        return {}
    item = context.opened.items[0]
    own = context.unkept or context.method.key(item)
    older = old_keys(context.method.config, context.method.of_item(item))
    paths = [root / "efficiency" / f"{hash_json([k, about.machine()])[:24]}.json" for k in (own, *older)]
    for path in paths:
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
    measured = _measure(context, item)
    with atomic_file(paths[0]) as temporary:
        temporary.write_text(json.dumps(measured))
    return measured


def sizes(context: Context) -> dict[str, Any]:
    """Bytes and numbers of a descriptor."""
    if not context.opened.items:
        return {}
    arrays = context.arrays(context.opened.items[0].key)
    if "values" not in arrays or not len(arrays["values"]):
        return {}
    values = arrays["values"]
    return {"bytes_per_descriptor": int(values.nbytes // len(values)), "dimension": int(values.shape[1])}


def _measure(context: Context, item: Item) -> dict[str, Any]:
    payload = context.opened.read(item.key)
    count = 1
    if context.method.family == "patches":
        payload = payload[:SAMPLE]
        if context.method.stream is not None and len(payload):  # its batches have one size, filled up or not
            payload = np.resize(payload, (STREAM_SAMPLE, *payload.shape[1:]))
        count = len(payload)
        item = Item(item.key, item.content, count)
    if not count:
        return {}

    def call() -> object:
        return context.method.extract(item, payload)

    with MEMO.paused():
        seconds = np.array(repeated(call)) / count
        peak = peak_memory_bytes(call)
    low, median, high = np.percentile(seconds, [25, 50, 75])
    return {
        "per": UNIT[context.method.family],
        "time_s": float(median),
        "time_quartiles_s": [float(low), float(high)],
        "repeats": len(seconds),
        "batch": count,
        "peak_memory_bytes": peak,
        "machine": about.machine(),
    }
