# SPDX-License-Identifier: BSD-3-Clause
"""The card of a run: what was measured, on what, how, at which cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.formatting import count_text
from ...run.result import Run

MIN_REPEATS = 3
"""Measurements of a time without which nothing is known about its spread."""


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
        "machine": f"{machine['cpu']}, {count_text(machine['cores'], 'core')}" if machine else "",
        "cost": cost(m.efficiency),
    }
    found = [(k, str(v)) for k, v in rows.items() if v not in (None, "")]
    fits = [("fitted", fitted_transform_text(f)) for f in m.method.fitted]
    at = next((i for i, (k, _) in enumerate(found) if k == "task"), len(found))
    found[at:at] = fits
    return found + [("warning", str(w)) for w in m.warnings]


def fitted_transform_text(entry: Mapping[str, Any]) -> str:
    """A fitted transform in words: its name, its hash, what it was fitted on.

    >>> fitted_transform_text({"transform": "pca", "hash": "0123456789abcdef", "images": "ref", "sequences": ["v_a", "v_b"]})
    'pca 0123456789ab, on the ref images of 2 sequences'
    """
    n = len(entry.get("sequences", ()))
    on = "on the ref images of " if entry.get("images") == "ref" else "on all images of "
    return f"{entry['transform']} {str(entry['hash'])[:12]}, {on}{count_text(n, 'sequence')}"


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
        parts.append(f"{count_text(efficiency['bytes_per_descriptor'], 'byte')} per descriptor")
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


def agrees(efficiency: Mapping[str, Any]) -> bool:
    """Whether repeated measurements of a method's time agree: quartiles at most a quarter apart.

    A measurement that was not repeated agrees with nothing.

    >>> agrees({"time_s": 2.0, "time_quartiles_s": [1.9, 2.1], "repeats": 9})
    True
    >>> agrees({"time_s": 2.0, "time_quartiles_s": [1.5, 3.0], "repeats": 9})
    False
    """
    if efficiency.get("time_s") is None:
        return False
    low, high = efficiency["time_quartiles_s"]
    return bool(efficiency.get("repeats", 0) >= MIN_REPEATS and high <= 1.25 * low)


def times_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool | None:
    """Whether repeats tell the times of two methods apart; None where one has no time, or another unit.

    Their quartiles must not meet. Where one was measured again in turns with the other, those times must
    have the same order, with quartiles that do not meet either.

    >>> a = {"time_s": 2.0, "time_quartiles_s": [1.9, 2.1], "per": "patch"}
    >>> times_differ(a, {**a, "time_quartiles_s": [2.05, 3.0]}), times_differ(a, {})
    (False, None)
    """
    if first.get("time_s") is None or second.get("time_s") is None or first["per"] != second["per"]:
        return None
    order = _order(first["time_quartiles_s"], second["time_quartiles_s"])
    turns = [
        way * _order(t["own_s"], t["other_s"])
        for mine, other, way in ((first, second, 1), (second, first, -1))
        for t in mine.get("in_turns", ())
        if other.get("key") is not None and t["key"] == other["key"]
    ]
    return order != 0 and all(o == order for o in turns)


def _order(one: Sequence[float], two: Sequence[float]) -> int:
    """-1 where quartiles lie below others, 1 above, 0 where they meet."""
    return -1 if one[1] < two[0] else 1 if two[1] < one[0] else 0
