# SPDX-License-Identifier: BSD-3-Clause
"""Plot accuracy against cost, with the Pareto frontier."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...core.formatting import first_few
from ...formats.csv_table import to_csv
from ..runs.card import conditions, times_differ
from ..runs.sections import TaskSection, drawable
from .figure import Figure, axis_label, escape_mathtext, only_best, short
from .svg import INK, PALETTE, Drawing, text_width

KINDS = {"time_s": "time", "bytes_per_descriptor": "bytes", "peak_memory_bytes": "memory"}
"""Name of the figure of each cost."""
COSTS = tuple(KINDS)
LABEL_PT = 8.0
LABELS = "Labels that did not fit are in the data."


def frontier(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return the indices of the Pareto-optimal points (low cost, high value), sorted by cost.

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


def pareto_figure(section: TaskSection, cost: str) -> Figure | None:
    """Plot the headline score against time, memory or bytes. None if fewer than three have both.

    Times and memory of different machines are never ranked: the line connects methods of one machine, and
    methods of other machines have a mark.
    """
    if section.no_ranking:
        return None
    factor, _ = section.info.scale
    rows, per = [], "item"
    efficiencies: list[Mapping[str, Any]] = []
    for run in section.methods:
        s = section.score(run)
        e = run.manifest.efficiency
        if s is None or s.value is None or not (own := _cost(e, cost)):
            continue
        per = e.get("per", per)
        spread = e["time_quartiles_s"] if cost == "time_s" else (None, None)
        machine = "" if cost == "bytes_per_descriptor" else conditions(e)
        rows.append((section.names[run.id], own, s.value, s.low, s.high, *spread, machine))
        efficiencies.append(e)
    if len(rows) < 3:
        return None
    label, cost_factor = _axis(cost, per, max(r[1] for r in rows))
    sign = -1.0 if section.info.lower else 1.0
    ranked = _ranked([r[-1] for r in rows])
    best = [ranked[i] for i in frontier([rows[i][1] for i in ranked], [sign * rows[i][2] for i in ranked])]
    drawn = [i for i in range(len(rows)) if i < drawable(len(rows)) or i in best]
    first = [*best, *(i for i in drawn if i not in best)]

    def draw(axes: Any) -> None:
        xs, ys = [cost_factor * rows[i][1] for i in best], [factor * rows[i][2] for i in best]
        axes.plot(xs, ys, color=INK, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0.5)
        for i in drawn:
            _, x, y, low, high, fast, slow, _ = rows[i]
            tint, mark = (PALETTE[1], "D") if i in best else (PALETTE[0], "o")
            fill = {} if i in ranked else {"markerfacecolor": "none"}
            if low is not None and high is not None:
                axes.plot([cost_factor * x] * 2, [factor * low, factor * high], color=tint, alpha=0.25)
            if fast is not None:
                axes.plot([cost_factor * fast, cost_factor * slow], [factor * y] * 2, color=tint, alpha=0.6)
            axes.plot([cost_factor * x], [factor * y], mark, color=tint, markersize=5, **fill)
        axes.set_xscale("log")
        _decades(axes)
        axes.margins(x=0.12, y=0.08)
        axes.grid(True)
        axes.set_xlabel(label)
        axes.set_ylabel(axis_label(section.score_words, section.info))
        texts = [rows[i][0] if i in ranked else f"{rows[i][0]} *" for i in first]
        places = [(cost_factor * rows[i][1], factor * rows[i][2]) for i in first]
        _label_points(axes, [(t, *at) for t, at in zip(texts, places, strict=True)], len(best))

    kind = KINDS[cost]
    caption = "No other method is better in both than a diamond on the dashed line."
    if cost == "time_s":
        caption += " Times are medians with quartiles over the items."
        caption += _timing_notes(rows, efficiencies, ranked)
    caption += _machine_notes(rows, ranked)
    title = f"{section.score_words[0].upper()}{section.score_words[1:]} against {kind}"
    return Figure(
        f"cost {cost} {section.title}",
        f"{title}.",
        f"{caption} {LABELS}" + only_best(len(drawn), len(rows)),
        Drawing(draw, label=title, width=5.2, height=3.4),
        to_csv(["method", cost, "value", "low", "high", "cost_low", "cost_high", "conditions"], rows),
        kind=kind,
        group=section.group,
    )


def _cost(efficiency: Mapping[str, Any], cost: str) -> Any:
    """Return a cost of a method. Memory is that of the GPU for methods on a GPU."""
    if cost == "peak_memory_bytes" and efficiency.get("gpu_peak_memory_bytes"):
        return efficiency["gpu_peak_memory_bytes"]
    return efficiency.get(cost)


def _ranked(machines: Sequence[str]) -> list[int]:
    """Return the indices of the methods that were measured under the most frequent conditions.

    >>> _ranked(["a", "b", "b"]), _ranked(["", ""])
    ([1, 2], [0, 1])
    """
    frequent = Counter(machines).most_common(1)[0][0]
    return [i for i, machine in enumerate(machines) if machine == frequent]


def _timing_notes(
    rows: Sequence[tuple[Any, ...]], costs: Sequence[Mapping[str, Any]], ranked: Sequence[int]
) -> str:
    """Return a sentence about methods whose times overlap."""
    order = sorted((i for i in ranked if i < drawable(len(rows))), key=lambda i: (rows[i][1], i))
    level = [
        f"{rows[a][0]} and {rows[b][0]}"
        for a, b in pairwise(order)
        if times_differ(costs[a], costs[b]) is False
    ]
    return f" The times of {first_few(level)} overlap." if level else ""


def _machine_notes(rows: Sequence[tuple[Any, ...]], ranked: Sequence[int]) -> str:
    """Return sentences about the conditions of the measurements."""
    if not rows[ranked[0]][-1]:
        return ""
    others = [f"{row[0]} ({row[-1]})" for i, row in enumerate(rows) if i not in ranked]
    text = f" Measured on {rows[ranked[0]][-1]}."
    return text + (f" * Measured under other conditions, not ranked: {first_few(others)}." if others else "")


def _axis(cost: str, per: str, largest: float) -> tuple[str, float]:
    """Return label and factor of the cost axis. Times are in µs if all are below 20 ms, else in ms."""
    if cost == "bytes_per_descriptor":
        return "bytes per descriptor", 1.0
    if cost == "peak_memory_bytes":
        return "peak memory (MiB)", 2.0**-20
    unit, factor = ("µs", 1e6) if largest < 0.02 else ("ms", 1e3)
    return f"time per {per} ({unit})", factor


def _decades(axes: Any) -> None:
    """Set axis ticks at 1, 2 and 5 times powers of ten, or only at powers of ten for wide ranges."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _label_points(axes: Any, points: Sequence[tuple[str, float, float]], best: int) -> None:
    """Label points, with a thin line to distant labels. The first `best` points are on the frontier."""
    axes.autoscale_view()
    pixels = axes.transData.transform([(x, y) for _, x, y in points])
    places = [(float(x), float(y)) for x, y in pixels]
    texts = [short(name, 22) for name, _, _ in points]
    widths = [72 * 1.1 * text_width(t, LABEL_PT) + 2 for t in texts]
    box = axes.get_window_extent()
    area = (box.x0 + 1, box.y0 + 1, box.x1 + 6, box.y1 + 8)
    dashes = _along(places[:best])
    for text, (x, y), corner in zip(
        texts, places, place_labels(places, widths, 9.5, area, dashes), strict=True
    ):
        if corner is None:
            continue
        far = abs(corner[1] + 4.75 - y) > 9
        stroke = {"arrowstyle": "-", "linewidth": 0.5, "color": INK, "alpha": 0.5} if far else None
        axes.annotate(
            escape_mathtext(text),
            (x, y),
            xycoords="figure points",
            xytext=(corner[0] + 1, corner[1] + 2),
            textcoords="figure points",
            fontsize=LABEL_PT,
            arrowprops=stroke,
        )


Box = tuple[float, float, float, float]
Place = tuple[float, float]

_DIRECTIONS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_REACH = (5.0, 10.0, 16.0, 24.0)
NEAR = 20.0
"""Distance below which two points count as adjacent when labels are placed."""


def _along(line: Sequence[Place], step: float = 4.0) -> list[Box]:
    """Return small boxes (x0, y0, x1, y1) along a polyline.

    >>> _along([(0, 0), (6, 8)], 5)
    [(-1.0, -1.0, 1.0, 1.0), (2.0, 3.0, 4.0, 5.0), (5.0, 7.0, 7.0, 9.0)]
    """
    found = []
    for (x0, y0), (x1, y1) in pairwise(line):
        count = max(1, math.ceil(math.dist((x0, y0), (x1, y1)) / step))
        for k in range(count + 1):
            x, y = x0 + (x1 - x0) * k / count, y0 + (y1 - y0) * k / count
            found.append((x - 1.0, y - 1.0, x + 1.0, y + 1.0))
    return found


def place_labels(
    points: Sequence[Place], widths: Sequence[float], height: float, area: Box, avoid: Sequence[Box] = ()
) -> list[Place | None]:
    """Return the lower left corner of each label, in the units of the points. None if a label does not fit.

    Each label gets the free position closest to its point. A position is free if it is inside the area
    and covers no point and no earlier label. Boxes in `avoid` are covered only if no other position is free.
    The left one of two adjacent points has its label on the left.

    >>> place_labels([(50, 50), (50, 50)], [20, 20], 8, (0, 0, 100, 100))
    [(55.0, 46.0), (25.0, 46.0)]
    >>> place_labels([(50, 50), (58, 51)], [20, 20], 8, (0, 0, 100, 100))
    [(25.0, 46.0), (63.0, 47.0)]
    """
    taken: list[Box] = []
    dots = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    found: list[Place | None] = []
    for i, ((x, y), width) in enumerate(zip(points, widths, strict=True)):
        others = [d for j, d in enumerate(dots) if j != i and points[j] != points[i]]
        to_left = any(0 < px - x < NEAR and abs(py - y) < height for px, py in points)
        free = [b for b in _around(x, y, width, height, to_left=to_left) if _inside(b, area)]
        free = [b for b in free if not any(_meet(b, o) for o in [*taken, *others])]
        clear = next((b for b in free if not any(_meet(b, o) for o in avoid)), None)
        box = clear or next(iter(free), None)
        taken += [box] if box else []
        found.append(box[:2] if box else None)
    return found


def _around(x: float, y: float, width: float, height: float, *, to_left: bool = False) -> Iterator[Box]:
    """Yield label positions around a point, closest first. The right side comes first unless `to_left`."""
    for reach in _REACH:
        for side, dy in _DIRECTIONS:
            dx = -side if to_left else side
            left = x + reach if dx > 0 else x - reach - width if dx < 0 else x - width / 2
            low = y - height / 2 + dy * (reach if dx == 0 else reach * 0.8)
            yield (left, low, left + width, low + height)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(a: Box, area: Box) -> bool:
    return a[0] >= area[0] and a[1] >= area[1] and a[2] <= area[2] and a[3] <= area[3]
