# SPDX-License-Identifier: BSD-3-Clause
"""Draw scores, or differences to a baseline, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import InputError
from ...core.formatting import count_text
from ...formats.csv_table import to_csv
from ...stats.multiplicity import join_letters
from ..compare.comparison import Comparison
from ..compare.sentences import joint, scene_count_text, title
from ..leaderboard import chance_of
from ..runs.names import DisplayNames
from ..runs.sections import TaskSection, drawable
from .figure import Figure, axis_label, escape_mathtext, only_best, short
from .svg import INK, PALETTE, Drawing, text_width

MAX_NAME_CHARS = 28
WIDTH, RIGHT = 5.2, 0.2


def intervals_figure(section: TaskSection, *, most: int | None = None) -> Figure | None:
    """Draw headline scores with intervals for all methods or the best `most`. None if nothing is ranked."""
    if section.no_ranking:
        return None
    factor, unit = section.info.scale
    rows = []
    for run in section.methods:
        s = section.score(run)
        if s is not None and s.value is not None:
            rows.append((section.names[run.id], s.value, s.low, s.high, s.n))
    if not rows:
        return None
    top = None if section.oracle is None else section.score(section.oracle)
    lines = {
        "chance": chance_of(section, section.metric, section.group),
        "oracle": None if top is None else top.value,
    }
    drawn = rows[: min(drawable(len(rows)), most or len(rows))]
    names = [short(r[0], MAX_NAME_CHARS) for r in drawn]
    left = 0.2 + max(text_width(n) for n in names)

    def draw(axes: Any) -> None:
        _draw_points(axes, names, [(*r[1:4], True) for r in drawn], factor)
        if unit == "%":
            axes.set_xlim(-2, 102)
        _guides(axes, {k: factor * v for k, v in lines.items() if v is not None})
        axes.set_xlabel(axis_label(section.score_words, section.info))

    data = [[*r[:4], lines["chance"], r[4]] for r in rows]
    bars = "No confidence intervals: there are too few scenes, or none are known."
    if any(r[2] is not None for r in rows):
        bars = f"Bars are {section.intervals}."
    label = f"{section.score_words} of each method"
    picture = Drawing(
        draw,
        label=label,
        width=WIDTH,
        height=0.75 + 0.2 * max(3, len(drawn)),
        left=left,
        right=RIGHT,
        rows=max(3, len(drawn)),
    )
    return Figure(
        f"{'best' if most else 'leaderboard'} {section.title}",
        label[0].upper() + label[1:] + ".",
        bars + only_best(len(drawn), len(rows)),
        picture,
        to_csv(["method", "value", "low", "high", "chance", "n"], data),
        kind="scores",
        group=section.group,
    )


def _guides(axes: Any, lines: dict[str, float]) -> None:
    """Draw dashed lines with labels above the axes. Labels that would overlap go to opposite sides."""
    low, high = axes.get_xlim()
    width_in = axes.get_window_extent().width / 72
    inches = {name: (x - low) / (high - low) * width_in for name, x in lines.items()}
    meet = len(inches) > 1 and abs(inches["chance"] - inches["oracle"]) < text_width("chance oracle", 8)
    left_first = meet and inches["chance"] <= inches["oracle"]
    for name, x in lines.items():
        axes.axvline(x, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0.5)
        side = "center"
        if meet:
            side = "right" if (name == "chance") == left_first else "left"
        if inches[name] > width_in - 0.15:
            side = "right"
        elif inches[name] < 0.15 and not (meet and side == "right"):
            side = "left"
        axes.annotate(name, (x, 1), xycoords=("data", "axes fraction"), fontsize=8, ha=side, va="bottom")


def comparison_scores(c: Comparison, display: DisplayNames) -> Figure:
    """Draw the scores of compared methods with their intervals and the letters of their groups."""
    rows = [(r, display.method(r.method, r.base_name or "")) for r in c.rows]
    drawn = rows[: drawable(len(rows))]
    letters = {r.method: join_letters(r.letters) for r, _ in drawn}
    names = [f"{short(n, MAX_NAME_CHARS)}  {letters[r.method]}".strip() for r, n in drawn]
    points = [(r.value, r.low, r.high, True) for r, _ in drawn]
    return Figure(
        f"comparison {c.task} {c.metric}",
        f"{display.metric(c.metric)} of each method",
        f"{title(c)}; {_bars_text(c, points, 'scenes')}; methods that share a "
        f"letter are not separated.{only_best(len(drawn), len(rows))}",
        _bars(names, points, _unit(c, display), c.percent, label=f"{c.metric} of each method"),
        to_csv(
            ["method", "value", "low", "high", "group"],
            [(n, r.value, r.low, r.high, join_letters(r.letters)) for r, n in rows],
        ),
        kind="scores",
        group=c.group,
    )


def differences_figure(c: Comparison, display: DisplayNames) -> Figure:
    """Draw the difference of each method to the baseline with its interval. Separated points are filled."""
    rows = [(r, display.method(r.method, r.base_name or "")) for r in c.rows if r.versus is not None]
    if not rows:
        raise InputError("there are no differences to draw; compare two methods that have scene values")
    drawn = rows[: drawable(len(rows))]
    base = next((display.method(r.method, r.base_name or "") for r in c.rows if r.method == c.baseline), "")
    points = [(v.difference, v.low, v.high, v.separated) for r, _ in drawn if (v := r.versus) is not None]
    label = f"{display.metric(c.metric)} minus that of {short(base, MAX_NAME_CHARS)}"
    table = [
        (n, v.difference, v.low, v.high, v.p_adjusted, v.separated)
        for r, n in rows
        if (v := r.versus) is not None
    ]
    return Figure(
        f"differences {c.task} {c.metric}",
        label,
        f"{title(c)}; {_bars_text(c, points, scene_count_text(c), joint(c.family_size, c.wide))}; "
        f"a filled point is separated from {base} (family-wise over {count_text(c.family_size, 'pair')})."
        + only_best(len(drawn), len(rows)),
        _bars(
            [short(n, MAX_NAME_CHARS) for _, n in drawn],
            points,
            f"{label} (percentage points)" if c.percent else label,
            c.percent,
            label=label,
            zero=True,
        ),
        to_csv(["method", "difference", "low", "high", "p_adjusted", "separated"], table),
        kind="differences",
        group=c.group,
    )


def _bars_text(c: Comparison, points: Sequence[Point], scenes: str, joint: str = "") -> str:
    """Return a text that explains the error bars of a figure, or why there are none.

    `joint` is put before the level if the intervals hold for several pairs together.
    """
    if any(low is not None for _, low, _, _ in points):
        return f"bars are {joint}{100 * c.level:g} % confidence intervals over {scenes}"
    return "no confidence intervals: there are too few scenes, or none are known"


def _unit(c: Comparison, display: DisplayNames) -> str:
    name = display.metric(c.metric)
    return f"{name} (%)" if c.percent else name


Point = tuple[float, float | None, float | None, bool]


def _bars(
    names: Sequence[str],
    points: Sequence[Point],
    axis: str,
    percent: bool,
    *,
    label: str,
    zero: bool = False,
) -> Drawing:
    """Return a drawing of points with intervals, one per row. `zero` adds a line at zero."""
    factor = 100.0 if percent else 1.0

    def draw(axes: Any) -> None:
        if zero:
            axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
        _draw_points(axes, names, points, factor)
        axes.set_xlabel(escape_mathtext(axis))

    rows = max(3, len(names))
    left = 0.2 + max(text_width(n) for n in names)
    return Drawing(draw, label=label, height=0.75 + 0.24 * rows, left=left, rows=rows)


def _draw_points(axes: Any, names: Sequence[str], points: Sequence[Point], factor: float) -> None:
    """Draw points (value, low, high, filled) with their intervals, one point per row."""
    for y, (value, low, high, filled) in enumerate(points):
        if low is not None and high is not None:
            axes.plot([factor * low, factor * high], [y, y], color=PALETTE[0], linewidth=1.8)
        inside = PALETTE[0] if filled else "white"
        axes.plot([factor * value], [y], "o", color=PALETTE[0], markerfacecolor=inside, markersize=5)
    axes.set_yticks(range(len(names)), [escape_mathtext(n) for n in names])
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.grid(axis="x")
