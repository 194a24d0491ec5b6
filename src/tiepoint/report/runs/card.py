# SPDX-License-Identifier: BSD-3-Clause
"""The card of a run: what was measured, on what, how, at which cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...run.result import Run


def card_rows(run: Run) -> list[tuple[str, str]]:
    """Names and values, empty ones left out, warnings last.

    A dense method compares no descriptors, so it has no distance. Every fitted transform has its own row.
    """
    m = run.manifest
    machine = m.machine
    rows = {
        "method": run.method,
        "distance": None if m.method.family == "dense" else m.method.distance,
        "task": run.task,
        "protocols": ", ".join(m.protocols),
        "dataset": f"{m.dataset.name} ({m.dataset.hash[:12]})",
        "options": ", ".join(f"{k}={v}" for k, v in m.options.items()),
        "status": run.stored.status,
        "units": len(m.units),
        "tiepoint": m.versions.get("tiepoint"),
        "machine": f"{machine['cpu']}, {machine['cores']} cores" if machine else "",
        "cost": cost(m.efficiency),
    }
    found = [(k, str(v)) for k, v in rows.items() if v not in (None, "")]
    fits = [("fitted", fitted(f)) for f in m.method.fitted]
    at = next((i for i, (k, _) in enumerate(found) if k == "task"), len(found))
    found[at:at] = fits
    return found + [("warning", str(w)) for w in m.warnings]


def fitted(entry: Mapping[str, Any]) -> str:
    """A fitted transform in words: its name, its hash, what it was fitted on.

    >>> fitted({"transform": "pca", "hash": "0123456789abcdef", "images": "ref", "sequences": ["v_a", "v_b"]})
    'pca 0123456789ab, on the ref images of 2 sequences'
    """
    n = len(entry.get("sequences", ()))
    on = "on the ref images of " if entry.get("images") == "ref" else "on all images of "
    return f"{entry['transform']} {str(entry['hash'])[:12]}, {on}{n} sequence{'' if n == 1 else 's'}"


def cost(efficiency: Mapping[str, Any]) -> str:
    """Time, bytes and memory in words.

    >>> cost({"time_s": 0.2, "time_quartiles_s": [0.1, 0.3], "per": "image", "bytes_per_descriptor": 128})
    '200 ms per image (quartiles 100 ms to 300 ms), 128 bytes per descriptor'
    """
    parts = []
    if efficiency.get("time_s") is not None:
        low, high = efficiency["time_quartiles_s"]
        quartiles = f"quartiles {duration(low)} to {duration(high)}"
        parts.append(f"{duration(efficiency['time_s'])} per {efficiency['per']} ({quartiles})")
    if efficiency.get("bytes_per_descriptor") is not None:
        parts.append(f"{efficiency['bytes_per_descriptor']} bytes per descriptor")
    if efficiency.get("peak_memory_bytes") is not None:
        parts.append(f"{efficiency['peak_memory_bytes'] / 2**20:.1f} MiB of memory at most")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time with three digits in a fitting unit.

    >>> duration(1.23456e-5), duration(0.5), duration(12.345)
    ('12.3 µs', '500 ms', '12.3 s')
    """
    for unit, factor in (("µs", 1e6), ("ms", 1e3), ("s", 1.0)):
        if seconds * factor < 1000 or unit == "s":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError("the last unit takes every time")
