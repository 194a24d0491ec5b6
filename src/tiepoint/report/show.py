# SPDX-License-Identifier: BSD-3-Clause
"""One run in words and tables: its card, scores, scenes, conventions and curves."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..model.units import Task
from ..run.result import Run
from .text import cell


def _task(run: Run) -> Task:
    from ..run.engine import load_task

    return load_task(run.task)


def card_rows(run: Run) -> list[tuple[str, str]]:
    """What was measured, on what, how: names and values, empty ones left out."""
    m = run.manifest
    machine = m.get("machine") or {}
    rows = {
        "method": run.method,
        "distance": m["method"].get("distance"),
        "task": run.task,
        "dataset": f"{m['dataset']['name']} ({str(m['dataset']['hash'])[:12]})",
        "options": ", ".join(f"{k}={v}" for k, v in m.get("options", {}).items()) or "none",
        "status": run.stored.status,
        "units": len(m.get("units", {})),
        "tiepoint": m["versions"]["tiepoint"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores" if machine else "",
        "cost": _cost(m.get("efficiency") or {}),
    }
    found = [(k, str(v)) for k, v in rows.items() if v not in (None, "")]
    return found + [("warning", str(w)) for w in m.get("warnings", ())]


def card(run: Run) -> Any:
    """The card as a table, with when it was made."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, title=f"run {run.id}", title_justify="left")
    made = ("made", f"{run.stored.created_at}, {run.stored.time_s or 0:.1f} s")
    for key, value in [*card_rows(run), made]:
        table.add_row(Text(key, style="yellow" if key == "warning" else "dim"), Text(value))
    return table


def _cost(efficiency: Mapping[str, Any]) -> str:
    parts = []
    if "time_s" in efficiency:
        low, high = efficiency["time_quartiles_s"]
        parts.append(
            f"{1e6 * efficiency['time_s']:.1f} µs a {efficiency['per']} "
            f"(quartiles {1e6 * low:.1f} to {1e6 * high:.1f})"
        )
    if "bytes_per_descriptor" in efficiency:
        parts.append(f"{efficiency['bytes_per_descriptor']} bytes a descriptor")
    if efficiency.get("peak_memory_bytes") is not None:
        parts.append(f"{efficiency['peak_memory_bytes'] / 2**20:.1f} MiB at the peak")
    return ", ".join(parts)


def scores_table(run: Run) -> Any:
    """Every score that is not of one scene."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="scores (percent, 95 % interval)", title_justify="left")
    for name in ("protocol", "metric", "group", "value", "n", "chance", "note"):
        table.add_column(name, justify="right" if name in ("value", "n", "chance") else "left")
    for s in run.stored.scores:
        if "scene=" in s["group"]:
            continue
        chance = "" if s["chance"] is None else f"{100 * s['chance']:.2f}"
        plain = (s["protocol"], s["metric"], s["group"], cell(s), f"{s['n']:,}", chance, s["note"] or "")
        table.add_row(*(Text(str(p)) for p in plain))
    return table


def scene_table(run: Run) -> Any:
    """The scores by scene, where the task has them."""
    from rich.table import Table
    from rich.text import Text

    rows = [s for s in run.stored.scores if s["group"].startswith("scene=") and "," not in s["group"]]
    if not rows:
        return None
    columns = list(dict.fromkeys((s["protocol"], s["metric"]) for s in rows))
    scenes = list(dict.fromkeys(s["group"].removeprefix("scene=") for s in rows))
    by = {(s["protocol"], s["metric"], s["group"].removeprefix("scene=")): s for s in rows}
    table = Table(title="scenes (percent)", title_justify="left")
    table.add_column("scene")
    for protocol, metric in columns:
        table.add_column(f"{metric}\n{protocol}", justify="right")
    for scene in scenes:
        cells = (by.get((p, m, scene)) for p, m in columns)
        table.add_row(Text(scene), *(Text(cell(c)) for c in cells))
    return table


def histogram_table(run: Run) -> Any:
    """Rank histogram of a ranking run, as bars."""
    from rich.table import Table

    rows = [s for s in run.stored.scores if s["metric"] == "rank_histogram"]
    if not rows:
        return None
    table = Table(title="rank of the right answer", title_justify="left")
    for name in ("protocol", "rank", "share", ""):
        table.add_column(name)
    for s in rows:
        share = s["value"] or 0.0
        table.add_row(
            s["protocol"], s["group"].split("rank=")[-1], f"{100 * share:.1f} %", "█" * round(40 * share)
        )
    return table


def convention_tables(run: Run) -> Sequence[Any]:
    """The run under every protocol, the gap attributed step by step."""
    from rich.table import Table
    from rich.text import Text

    task = _task(run)
    explain = getattr(task, "conventions", None)
    if explain is None:
        raise InputError(f"task {task.name} has one convention only")
    comparison = task.comparison("exact")
    records = [by[comparison] for by in run.unit_records.values() if comparison in by]
    if not records:
        raise InputError(
            f"run {run.id} has no records of the comparison {comparison!r}; run it under exact first"
        )
    tables = []
    for title, steps in explain(records):
        table = Table(title=title, title_justify="left")
        table.add_column("step")
        table.add_column("value", justify="right")
        table.add_column("change", justify="right")
        before: float | None = None
        for name, value in steps:
            change = "" if before is None else f"{100 * (value - before):+.2f}"
            table.add_row(Text(name), f"{100 * value:.2f}", change)
            before = value
        tables.append(table)
    return tables


def write_curves(run: Run, path: Path) -> int:
    """Points of the run's curves as CSV: group, curve, x, y; returns how many."""
    task = _task(run)
    make = getattr(task, "curves", None)
    if make is None:
        raise InputError(f"task {task.name} has no curves")
    comparison = task.comparison("exact")
    records = [by[comparison] for by in run.unit_records.values() if comparison in by]
    n = 0
    try:
        with path.open("w", newline="", encoding="utf-8") as f:
            writer = csv.writer(f)
            writer.writerow(["group", "curve", "x", "y"])
            for group, curve, xs, ys in make(records):
                for x, y in zip(xs, ys, strict=True):
                    writer.writerow([group, curve, repr(float(x)), repr(float(y))])
                    n += 1
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e
    return n
