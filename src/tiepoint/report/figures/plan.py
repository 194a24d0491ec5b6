# SPDX-License-Identifier: BSD-3-Clause
"""Figure of a plan: the difference that a number of scenes detects, with the present benchmark marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats.csv_table import to_csv
from ...stats.planning import detectable
from ..benchmark_plan import BenchmarkPlan
from .figure import Figure, escape_mathtext, short
from .svg import INK, Drawing, look

WIDTH, HEIGHT, TOP = 5.2, 2.8, 0.2
MAX_PAIRS = 8
"""Number of pairs of methods that are drawn; the data have all."""


def plan_figure(plan: BenchmarkPlan) -> Figure:
    """Return the figure of scenes against detectable difference, one curve for each pair of methods."""
    factor, unit = plan.scale
    curves = _curves(plan)
    drawn = curves[:MAX_PAIRS]

    def draw(axes: Any) -> None:
        for number, (name, xs, ys, now, detects) in enumerate(drawn):
            tint = look(number)["color"]
            axes.plot(xs, factor * ys, color=tint, linewidth=1.4, label=escape_mathtext(short(name, 44)))
            axes.plot([now], [factor * detects], marker="o", markersize=5, color=tint)
        axes.axhline(factor * plan.settings.detect, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = [t * 10.0**k for k in range(-6, 7) for t in (1, 2, 5) if low <= t * 10.0**k <= high]
            axis.set_ticks(ticks, labels=[f"{t:,g}" for t in ticks])
        axes.grid(True)
        axes.set_xlabel("scenes")
        axes.set_ylabel(f"detectable difference ({unit})")
        columns = 1 if len(drawn) < 3 else 2
        axes.legend(loc="upper center", bbox_to_anchor=(0.46, -0.45 / (HEIGHT - TOP)), ncols=columns)

    rows = len(drawn) if len(drawn) < 3 else -(-len(drawn) // 2)
    low = 0.5 + 0.19 * rows
    picture = Drawing(draw, label="plan", width=WIDTH, height=HEIGHT + low, bottom=low, top=TOP)
    caption = (
        f"Scenes of {plan.task} ({plan.metric}, {plan.dataset}) against the difference that they separate "
        f"with {100 * plan.settings.power:g} % probability. Points: what there is now. Dashed: the requested "
        "difference."
    )
    if len(drawn) < len(curves):
        caption += f" {len(drawn)} of {len(curves)} pairs of methods are drawn; the data have all."
    table = [[n, int(x), factor * y] for n, xs, ys, _, _ in curves for x, y in zip(xs, ys, strict=True)]
    data = to_csv(["methods", "scenes", f"detectable ({unit})"], table)
    return Figure(
        f"plan {plan.task}", "Scenes and detectable difference", caption, picture, data, kind="plan"
    )


def _curves(plan: BenchmarkPlan) -> list[tuple[str, Any, Any, int, float]]:
    found = []
    for row in plan.rows:
        if row.note:
            continue
        most = max(4 * row.now, 2 * (row.scenes or 4 * row.now))
        first = max(3, row.kinds + 1)
        xs = np.unique(np.geomspace(first, max(most, first + 1), 60).round().astype(int))
        how: Any = {"power": plan.settings.power, "alpha": plan.alpha, "kinds": row.kinds}
        ys = np.array([detectable(row.variance, int(x), **how) for x in xs])
        found.append((f"{row.first}, {row.second}", xs, ys, row.now, row.detects))
    return found
