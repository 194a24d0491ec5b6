# SPDX-License-Identifier: BSD-3-Clause
"""Summarise a run as rows of names and values, and describe its costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.formatting import count_text
from ...run.result import Run


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
    """Describe time, descriptor size and memory of a method, and how they were measured.

    >>> cost({"time_s": 0.2, "time_p90_s": 0.3, "n": 40, "per": "image", "bytes_per_descriptor": 128})
    '200 ms per image (90 % below 300 ms, 40 items), 128 bytes per descriptor'
    """
    e, parts = efficiency, []
    if e.get("time_p90_s") is not None:
        items = count_text(e["n"], "item")
        parts.append(
            f"{duration(e['time_s'])} per {e['per']} (90 % below {duration(e['time_p90_s'])}, {items})"
        )
    if e.get("extract_s") is not None:
        parts.append(f"including {duration(e['extract_s'])} extraction and {duration(e['match_s'])} matching")
    if e.get("keypoints") is not None:
        parts.append(f"{e['keypoints']:.0f} keypoints per image")
    if e.get("bytes_per_descriptor") is not None:
        parts.append(f"{count_text(e['bytes_per_descriptor'], 'byte')} per descriptor")
    for name, where in (("peak_memory_bytes", "peak memory"), ("gpu_peak_memory_bytes", "on the GPU")):
        if e.get(name) is not None:
            parts.append(f"{e[name] / 2**20:.1f} MiB {where}")
    if e.get("threads") is not None:
        load = "" if e.get("load") is None else f", load {e['load']:.1f}"
        parts.append(f"on {e['device']} with {count_text(e['threads'], 'thread')}{load}")
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


def conditions(efficiency: Mapping[str, Any]) -> str:
    """Describe the machine, device and threads of a measurement.

    Methods are ranked by cost only if these conditions are equal.

    >>> conditions({"machine": {"cpu": "X", "cores": 2}, "device": "cpu", "threads": 1})
    'X, 2 cores, 1 thread'
    """
    m = efficiency.get("machine") or {}
    parts = [str(m.get("cpu", "unknown machine"))]
    parts += [count_text(m["cores"], "core")] if "cores" in m else []
    parts += [count_text(efficiency["threads"], "thread")] if "threads" in efficiency else []
    device = efficiency.get("device", "cpu")
    return ", ".join([*parts, *([] if device == "cpu" else [str(device)])])


def times_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool | None:
    """Return whether the quartile ranges of two methods' times are disjoint.

    None if a time is missing, or if the units or the conditions of the measurements differ.

    >>> a = {"time_s": 2.0, "time_quartiles_s": [1.9, 2.1], "per": "patch"}
    >>> times_differ(a, {**a, "time_quartiles_s": [2.05, 3.0]}), times_differ(a, {})
    (False, None)
    """
    if first.get("time_s") is None or second.get("time_s") is None or first["per"] != second["per"]:
        return None
    if conditions(first) != conditions(second):
        return None
    one, two = first["time_quartiles_s"], second["time_quartiles_s"]
    return bool(one[1] < two[0] or two[1] < one[0])
