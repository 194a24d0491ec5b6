# SPDX-License-Identifier: BSD-3-Clause
"""Curves of the report: scores along a numeric group (pool, threshold, tau), and PR and ROC curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.units import Task
from .collect import Section
from .figures import Figure, scale_of, short, shown, to_csv
from .svg import look, svg

AXES = {
    "pool": ("distractors in the pool", True),
    "tau_px": ("threshold (px)", False),
    "threshold": ("threshold (% of the larger side)", False),
    "gallery": ("gallery size", True),
    "alpha": ("alpha", False),
    "rank": ("rank of the right answer", False),
}
"""Group keys whose values are numbers: axis label, and whether the axis is logarithmic."""

MOST_SERIES = 12
MOST_FIGURES = 8


def numeric_groups(section: Section) -> list[tuple[str, str]]:
    """(metric, key) of the scores that run along a numeric group key and no other key."""
    seen: dict[tuple[str, str], int] = {}
    for metric, group in section.columns():
        key, _, value = group.partition("=")
        if key in AXES and "," not in group and _number(value) is not None:
            seen[(metric, key)] = seen.get((metric, key), 0) + 1
    return [name for name, count in seen.items() if count > 2]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def group_curve(section: Section, metric: str, key: str) -> Figure:
    """A metric along a numeric group, a line a method, with its interval as a band."""
    factor, unit = scale_of(metric)
    label, logarithmic = AXES[key]
    series: list[tuple[str, list[tuple[float, float, float | None, float | None]]]] = []
    for run in section.runs:
        points = []
        for s in run.stored.scores:
            name, _, value = str(s["group"]).partition("=")
            x = _number(value)
            wanted = s["protocol"] == section.protocol and s["metric"] == metric and name == key
            if wanted and x is not None and s["value"] is not None:
                points.append((x, s["value"], s["low"], s["high"]))
        series.append((run.method, sorted(points)))

    def draw(axes: Any) -> None:
        for i, (name, points) in enumerate(series[:MOST_SERIES]):
            if not points:
                continue
            style = look(i)
            xs = [p[0] for p in points]
            axes.plot(xs, [factor * p[1] for p in points], label=shown(short(name)), markersize=3.5, **style)
            band = [(p[0], p[2], p[3]) for p in points if p[2] is not None and p[3] is not None]
            if band:
                lows, highs = [factor * b[1] for b in band], [factor * b[2] for b in band]
                axes.fill_between(
                    [b[0] for b in band], lows, highs, color=style["color"], alpha=0.15, linewidth=0
                )
        if logarithmic:
            axes.set_xscale("log")
        axes.grid(True)
        axes.set_xlabel(label)
        axes.set_ylabel(f"{metric} ({unit})")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    rows = [[name, *p] for name, points in series for p in points]
    left = (
        "" if len(series) <= MOST_SERIES else f" The best {MOST_SERIES} methods are drawn, the data have all."
    )
    return Figure(
        f"{metric} along {key} {section.task}",
        f"{section.task}: {metric} along {key}",
        f"Bands are 95 % intervals by scene.{left}",
        svg(draw, width=7.6, height=3.6, label=f"{metric} along {key}"),
        to_csv(["method", key, "value", "low", "high"], rows),
    )


def point_curves(section: Section, task: Task) -> list[Figure]:
    """PR and ROC curves from the records, one figure a curve and group, for tasks that have them."""
    make = getattr(task, "curves", None)
    if make is None:
        return []
    comparison = task.comparison(section.protocol)
    found: dict[tuple[str, str], list[tuple[str, Sequence[float], Sequence[float]]]] = {}
    for run in section.runs[:MOST_SERIES]:
        records = [by[comparison] for by in run.unit_records.values() if comparison in by]
        if records:
            for group, curve, xs, ys in make(records):
                found.setdefault((group, curve), []).append((run.method, xs, ys))
    if len(found) > MOST_FIGURES:
        found = {name: lines for name, lines in found.items() if "pair=" not in name[0]}
    chosen = sorted(found.items())[:MOST_FIGURES]
    return [_points(section, group, curve, lines) for (group, curve), lines in chosen]


def _points(
    section: Section, group: str, curve: str, lines: Sequence[tuple[str, Sequence[float], Sequence[float]]]
) -> Figure:
    names = {"roc": ("false positive rate", "true positive rate"), "pr": ("recall", "precision")}
    x_label, y_label = names.get(curve, ("x", "y"))

    def draw(axes: Any) -> None:
        for i, (name, xs, ys) in enumerate(lines):
            style = look(i)
            axes.plot(xs, ys, label=shown(short(name)), color=style["color"], linestyle=style["linestyle"])
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.grid(True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    rows = [[name, float(x), float(y)] for name, xs, ys in lines for x, y in zip(xs, ys, strict=True)]
    return Figure(
        f"{curve} {group} {section.task}",
        f"{section.task}: {curve.upper()} curve, {group}",
        "Points thinned without changing the area.",
        svg(draw, width=7.0, height=3.8, label=f"{curve} curve"),
        to_csv(["method", x_label, y_label], rows),
    )


def curve_figures(section: Section, task: Task) -> list[Figure]:
    """All curves of a section."""
    figures = [group_curve(section, metric, key) for metric, key in numeric_groups(section)]
    return figures + point_curves(section, task)
