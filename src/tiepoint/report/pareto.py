# SPDX-License-Identifier: BSD-3-Clause
"""Accuracy against cost: which methods are not beaten in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .collect import CANARIES, LOWER_IS_BETTER, Section
from .figures import Figure, scale_of, short, shown, to_csv
from .svg import INK, look, svg

COSTS = {
    "time_s": ("time a {per} (µs)", 1e6),
    "bytes_per_descriptor": ("bytes a descriptor", 1.0),
}


def frontier(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Indices of the points that no other point beats (lower cost and higher value), by cost.

    >>> frontier([1, 2, 3, 3], [0.1, 0.3, 0.2, 0.4])
    [0, 1, 3]
    """
    best = float("-inf")
    kept = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -values[i])):
        if values[i] > best:
            kept.append(i)
            best = values[i]
    return kept


def pareto_figure(section: Section, cost: str) -> Figure | None:
    """Headline score against time or bytes, frontier drawn; None where fewer than three methods have both."""
    factor, unit = scale_of(section.metric)
    label, cost_factor = COSTS[cost]
    rows, per = [], "item"
    for run in section.runs:
        s = section.score(run)
        efficiency = run.manifest.get("efficiency") or {}
        known = s is not None and s["value"] is not None and efficiency.get(cost)
        if s is not None and known and run.method not in CANARIES:
            per = efficiency.get("per", per)
            rows.append((run.method, efficiency[cost], s["value"], s["low"], s["high"]))
    if len(rows) < 3:
        return None
    sign = -1.0 if section.metric in LOWER_IS_BETTER else 1.0
    best = frontier([r[1] for r in rows], [sign * r[2] for r in rows])

    def draw(axes: Any) -> None:
        for i, (name, x, y, low, high) in enumerate(rows):
            if low is not None and high is not None:
                axes.plot(
                    [cost_factor * x] * 2, [factor * low, factor * high], color=look(0)["color"], alpha=0.4
                )
            axes.plot(
                [cost_factor * x], [factor * y], "o", color=look(1 if i in best else 0)["color"], markersize=5
            )
            axes.annotate(
                shown(short(name, 20)),
                (cost_factor * x, factor * y),
                xytext=(5, 3),
                textcoords="offset points",
                fontsize=7.5,
            )
        xs, ys = [cost_factor * rows[i][1] for i in best], [factor * rows[i][2] for i in best]
        axes.plot(xs, ys, color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
        axes.set_xscale("log")
        axes.grid(True)
        axes.set_xlabel(label.format(per=per))
        axes.set_ylabel(f"{section.metric} ({unit})")

    return Figure(
        f"cost {cost} {section.task}",
        f"{section.task}: {section.metric} against {cost.replace('_', ' ')}",
        "Methods on the dashed line are not beaten in both; times are medians of repeats on one machine.",
        svg(draw, width=6.4, height=3.8, label="accuracy against cost"),
        to_csv(["method", cost, "value", "low", "high"], rows),
    )
