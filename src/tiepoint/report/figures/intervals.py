# SPDX-License-Identifier: BSD-3-Clause
"""Headline scores with their intervals, chance and oracle as lines."""

from __future__ import annotations

from typing import Any

from ..runs.sections import Section, drawable
from ..tables.leaderboard import chance_of
from .figure import Figure, axis_label, only_best, short, shown, to_csv
from .svg import INK, PALETTE, svg, text_width

NAME_MOST = 30


def intervals_figure(section: Section) -> Figure | None:
    """Headline score of each method, with its interval; None where no method has a value."""
    factor, unit = section.info.scale
    rows = []
    for run in section.methods:
        s = section.score(run)
        if s is not None and s["value"] is not None:
            rows.append((section.names[run.id], s["value"], s["low"], s["high"], s["n"]))
    if not rows:
        return None
    top = None if section.oracle is None else section.score(section.oracle)
    lines = {
        "chance": chance_of(section, section.metric, section.group),
        "oracle": None if top is None else top["value"],
    }
    drawn = rows[: drawable(len(rows))]
    names = [short(r[0], NAME_MOST) for r in drawn]

    def draw(axes: Any) -> None:
        for y, (_, value, low, high, _) in enumerate(drawn):
            if low is not None and high is not None:
                axes.plot([factor * low, factor * high], [y, y], color=PALETTE[0], linewidth=1.8)
            axes.plot([factor * value], [y], "o", color=PALETTE[0], markersize=5)
        for name, x in lines.items():
            if x is not None:
                axes.axvline(factor * x, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
                place = (factor * x, 1)
                axes.annotate(
                    name, place, xycoords=("data", "axes fraction"), fontsize=8, ha="center", va="bottom"
                )
        axes.set_yticks(range(len(drawn)), [shown(n) for n in names])
        axes.set_ylim(len(drawn) - 0.5, -0.6)
        axes.grid(axis="x")
        if unit == "%":
            axes.set_xlim(-2, 102)
        axes.set_xlabel(axis_label(section.metric, section.info))

    name = f"leaderboard {section.title}"
    data = [[*r[:4], lines["chance"], r[4]] for r in rows]
    with_bars = any(r[2] is not None for r in rows)
    bars = (
        "bars are 95 % confidence intervals over scenes"
        if with_bars
        else "no confidence intervals: there are too few scenes, or none are known"
    )
    picture = svg(
        draw,
        name=name,
        label=f"{section.metric} of each method",
        height=0.75 + 0.24 * max(3, len(drawn)),
        left=0.2 + max(text_width(n) for n in names),
    )
    return Figure(
        name,
        f"{section.metric} of each method",
        f"Group {section.group}, protocol {section.protocol}; {bars}.{only_best(len(drawn), len(rows))}",
        picture,
        to_csv(["method", "value", "low", "high", "chance", "n"], data),
    )
