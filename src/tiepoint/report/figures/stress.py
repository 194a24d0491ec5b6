# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the tasks `stress/*`: score by level, non-increasing fit and breakdown point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import InputError
from ...datasets.stress_kinds import KINDS
from ...formats.csv_table import to_csv
from ..runs.sections import TaskSection
from ..stress_curves import LIMITS, MethodCurve, method_curves
from .figure import Figure, escape_mathtext, only_best, short
from .svg import INK, ROW_INCHES, Drawing, look, text_width

WIDTH, HEIGHT, TOP = 5.2, 2.7, 0.15
MAX_METHODS = 8
MAX_NAME_CHARS = 34
LEAST_GAP = 0.14
"""Smallest distance of tick labels, as a share of the axis."""
PANEL_ROWS = 10
"""Height of a panel in rows of `Drawing`."""
ABOUT = (
    "Solid: mean over scenes. Dashed: non-increasing fit. A mark is the breakdown point, where the fit falls "
    "to half of its first value, with its 95 % interval over scenes. An arrow means beyond the last level."
)


def stress_figure(section: TaskSection) -> Figure | None:
    """Return the figure of a task `stress/KIND`. None for other tasks and without scene values."""
    every = method_curves(section)
    if not every:
        return None
    drawn = every[:MAX_METHODS]
    kind = drawn[0].kind

    def draw(axes: Any) -> None:
        draw_panel(axes, drawn, section.looks)
        axes.set_xlabel(kind.label)
        axes.set_ylabel(f"{drawn[0].metric} (%)")
        _legend(axes, drawn, 0.46, -0.45 / (HEIGHT - TOP))

    below = 0.55 + 0.18 * _legend_rows(drawn)
    picture = Drawing(
        draw, label=f"{kind.name}: score by level", width=WIDTH, height=HEIGHT + below, bottom=below, top=TOP
    )
    caption = f"{ABOUT} {LIMITS}" + only_best(len(drawn), len(every))
    title = f"Where methods break: {kind.name}."
    return Figure(f"stress {section.title}", title, caption, picture, _data(every), kind="stress")


def stress_panels(found: Sequence[TaskSection], metric: str | None = None) -> Figure:
    """Return one figure with a panel for each kind of change."""
    by_kind = [(s, method_curves(s, metric)[:MAX_METHODS]) for s in found]
    order = list(KINDS)
    by_kind = sorted(((s, c) for s, c in by_kind if c), key=lambda p: order.index(p[1][0].kind.name))
    if not by_kind:
        raise InputError("there are no stress curves to draw; run `tiepoint stress METHOD --images DIR`")
    across = 2 if len(by_kind) > 1 else 1
    down = -(-len(by_kind) // across)
    looks = by_kind[0][0].looks
    methods = {c.method: c for _, some in by_kind for c in some}

    def draw(axes: Any) -> None:
        axes.set_axis_off()
        for number, (_, some) in enumerate(by_kind):
            row, column = divmod(number, across)
            low, left = 1 - (row + 0.86) / down, (column + 0.10) / across
            panel = axes.inset_axes((left, low, 0.86 / across, 0.74 / down))
            draw_panel(panel, some, looks)
            panel.set_title(some[0].kind.label, fontsize=8, pad=3)
            panel.tick_params(labelsize=7, labelleft=column == 0)
            if column == 0:
                panel.set_ylabel(f"{some[0].metric} (%)", fontsize=8)
        for number, c in enumerate(methods.values()):  # the legend needs lines of its own axes
            style = look(looks.get(c.method, number))
            axes.plot([], [], label=_label(c), markersize=3, linewidth=1.4, **style)
        _legend(axes, list(methods.values()), 0.5, 0.0)

    below = 0.1 + 0.18 * _legend_rows(list(methods.values()))
    rows = PANEL_ROWS * down
    picture = Drawing(
        draw,
        label="where methods break",
        width=2 * WIDTH,
        height=rows * ROW_INCHES + below,
        left=0.1,
        right=0.1,
        bottom=below,
        top=0.05,
        rows=rows,
    )
    data = _data([c for _, some in by_kind for c in some])
    return Figure(
        "stress", "Where methods break.", f"{ABOUT} {LIMITS}", picture, data, wide=True, kind="stress"
    )


def draw_panel(axes: Any, curves: Sequence[MethodCurve], looks: Mapping[str, int]) -> None:
    """Draw curve, fit and breakdown point of each method. Points have small vertical offsets."""
    kind = curves[0].kind
    places = {x: kind.axis.to(x) for c in curves for x in c.curve.levels}
    for number, c in enumerate(curves):
        style = look(looks.get(c.method, number))
        x = [kind.axis.to(level) for level in c.curve.levels]
        axes.plot(x, 100 * c.curve.mean, label=_label(c), markersize=3, linewidth=1.4, **style)
        axes.plot(x, 100 * c.curve.fit, color=style["color"], linewidth=0.8, linestyle=(0, (3, 2)))
        if c.curve.point.nothing:
            continue
        height = 50 * float(c.curve.fit[0]) - 3.0 * number
        at = kind.axis.to(c.curve.point.level)
        if c.curve.interval is not None:
            low, high = (kind.axis.to(p.level) for p in c.curve.interval)
            axes.plot([low, high], [height, height], color=style["color"], linewidth=2.2, alpha=0.45)
        axes.plot(
            [at],
            [height],
            color=style["color"],
            marker=">" if c.curve.point.beyond else "|",
            markersize=5 if c.curve.point.beyond else 9,
            markeredgewidth=1.6,
            clip_on=False,
            zorder=5,
        )
    shown = _ticks(places)
    axes.set_xticks([places[x] for x in shown], labels=[f"{x:g}" for x in shown])
    axes.set_ylim(-2, 103)
    axes.axhline(0, color=INK, linewidth=0.5, alpha=0.5)
    axes.grid(True)


def _ticks(places: Mapping[float, float]) -> list[float]:
    """Return levels whose places are far enough apart for labels, the first and the last among them."""
    levels = sorted(places, key=lambda x: places[x])
    first, last = places[levels[0]], places[levels[-1]]
    gap = LEAST_GAP * (last - first)
    kept = [levels[0]]
    for level in levels[1:-1]:
        if places[level] - places[kept[-1]] >= gap and last - places[level] >= gap:
            kept.append(level)
    return [*kept, levels[-1]]


def _legend(axes: Any, curves: Sequence[MethodCurve], x: float, below: float) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(x, below), ncols=_columns(curves))


def _label(curve: MethodCurve) -> str:
    return escape_mathtext(short(curve.method, MAX_NAME_CHARS))


def _columns(curves: Sequence[MethodCurve]) -> int:
    widest = max(text_width(short(c.method, MAX_NAME_CHARS), 8.5) for c in curves) + 0.55
    return max(1, min(3, len(curves), int(WIDTH / widest)))


def _legend_rows(curves: Sequence[MethodCurve]) -> int:
    return -(-len(curves) // _columns(curves))


def _data(curves: Sequence[MethodCurve]) -> str:
    rows = []
    for c in curves:
        low, high = c.curve.interval or (None, None)
        ends = [
            c.curve.point.level,
            c.curve.point.beyond,
            low and low.level,
            low and low.beyond,
            high and high.level,
            high and high.beyond,
        ]
        for level, mean, fit in zip(c.curve.levels, c.curve.mean.tolist(), c.curve.fit.tolist(), strict=True):
            rows.append([c.method, c.kind.name, c.metric, level, mean, fit, *ends])
    head = ["method", "kind", "metric", "level", "mean", "fit"]
    points = ["breakdown", "beyond", "low", "low_beyond", "high", "high_beyond"]
    return to_csv([*head, *points], rows)
