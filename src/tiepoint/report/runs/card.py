# SPDX-License-Identifier: BSD-3-Clause
"""Summarise a run as rows of names and values, and describe its costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.formatting import count_text
from ...run.result import Run

MIN_REPEATS = 3
"""Minimum number of timings to estimate their spread."""


def card_rows(run: Run) -> list[tuple[str, str]]:
    """Return the summary of a run as (name, value) rows. Empty values are skipped; warnings are last.

    Dense methods have no row for the distance, because they compare no descriptors. Each fitted transform has
    a row. Methods that use OpenCV's SIFT state `precise_upscale`, because its default differs from OpenCV's.
    """
    m = run.manifest
    machine = m.machine
    rows = {
        "method": run.method,
        "distance": None if m.method.family == "dense" else m.method.distance,
        "sift": upscale_text(m.method.config),
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
    card = [(k, str(v)) for k, v in rows.items() if v not in (None, "")]
    before = next((i for i, (k, _) in enumerate(card) if k == "task"), len(card))
    card[before:before] = [("fitted", fitted_transform_text(f)) for f in m.method.fitted]
    return card + [("warning", str(w)) for w in m.warnings]


def upscale_text(config: Mapping[str, Any]) -> str:
    """Return the values of `precise_upscale` in a method's config and its parts. Empty if there are none.

    >>> upscale_text({"params": {"precise_upscale": True}, "parts": {"a": {"params": {"sigma": 1.6}}}})
    'precise_upscale=true'
    """
    found: set[str] = set()

    def visit(node: Mapping[str, Any]) -> None:
        for key, value in node.items():
            if key == "precise_upscale":
                found.add(str(value).lower())
            elif isinstance(value, Mapping):
                visit(value)

    visit(config)
    return f"precise_upscale={' and '.join(sorted(found))}" if found else ""


def fitted_transform_text(entry: Mapping[str, Any]) -> str:
    """Describe a fitted transform: its name, its hash and its training data.

    >>> entry = {"transform": "pca", "hash": "0123456789abcdef", "images": "ref", "sequences": ["v_a", "v_b"]}
    >>> fitted_transform_text(entry)
    'pca 0123456789ab, on the ref images of 2 sequences'
    """
    n = len(entry.get("sequences", ()))
    on = "on the ref images of " if entry.get("images") == "ref" else "on all images of "
    return f"{entry['transform']} {str(entry['hash'])[:12]}, {on}{count_text(n, 'sequence')}"


def cost(efficiency: Mapping[str, Any]) -> str:
    """Describe time, descriptor size and memory of a method.

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
        parts.append(f"{efficiency['peak_memory_bytes'] / 2**20:.1f} MiB peak memory")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a time with three digits and a suitable unit.

    >>> duration(1.23456e-5), duration(0.5), duration(12.345)
    ('12.3 µs', '500 ms', '12.3 s')
    """
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def agrees(efficiency: Mapping[str, Any]) -> bool:
    """Return whether repeated timings of a method agree: quartiles at most 25 % apart.

    A single timing never agrees.

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
    """Return whether the times of two methods differ. None if a time is missing or the units differ.

    Times differ if their quartile ranges are disjoint. If the methods were also timed alternately, the
    quartile ranges of these timings must be disjoint in the same order.

    >>> a = {"time_s": 2.0, "time_quartiles_s": [1.9, 2.1], "per": "patch"}
    >>> times_differ(a, {**a, "time_quartiles_s": [2.05, 3.0]}), times_differ(a, {})
    (False, None)
    """
    if first.get("time_s") is None or second.get("time_s") is None or first["per"] != second["per"]:
        return None
    order = _order(first["time_quartiles_s"], second["time_quartiles_s"])
    turns = [
        sign * _order(t["own_s"], t["other_s"])
        for own, other, sign in ((first, second, 1), (second, first, -1))
        for t in own.get("in_turns", ())
        if other.get("key") is not None and t["key"] == other["key"]
    ]
    return order != 0 and all(o == order for o in turns)


def _order(one: Sequence[float], two: Sequence[float]) -> int:
    """Return -1 if the first range is below the second, 1 if it is above, 0 if they overlap."""
    return -1 if one[1] < two[0] else 1 if two[1] < one[0] else 0
