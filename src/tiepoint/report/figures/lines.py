# SPDX-License-Identifier: BSD-3-Clause
"""Figures of lines with bands, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.csv_table import to_csv
from ..runs.sections import TaskSection
from .figure import Figure, escape_mathtext, only_best, short
from .svg import INK, Drawing, look, text_width

MAX_SERIES = 12
MAX_BANDS = 5
NAME_MOST = 24
WIDTH, HEIGHT, TOP = 5.2, 2.5, 0.12
"""Inches of the picture, of its plot, and above it; the legend stands below."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """The curve of one run; `low` and `high` bound it where there are scenes enough."""

    name: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


def lines_figure(
    section: TaskSection,
    lines: Sequence[Line],
    *,
    name: str,
    title: str,
    caption: str,
    x_label: str,
    y_label: str,
    factor: float = 1.0,
    logarithmic: bool = False,
    unit_square: bool = False,
    guides: Sequence[tuple[str, Array, Array]] = (),
    kind: str = "",
    group: str = "all",
) -> Figure:
    """Lines of methods, best first, with bands around the first few; `guides` are thin lines with a name.

    The data have every line with its band; the picture shows the first twelve.
    """
    drawn = [line for line in lines if len(line.x)][:MAX_SERIES]
    names = [short(line.name, NAME_MOST) for line in drawn]
    few = len(drawn[0].x) <= 25 if drawn else True
    entries = [*names, *(g[0] for g in guides)]
    widest = max((text_width(n, 8.5) for n in entries), default=0.0)
    columns = max(1, min(4, len(entries), int((WIDTH - 0.3) / (widest + 0.55))))
    entries_high = -(-len(entries) // columns)

    def draw(axes: Any) -> None:
        for line, label in zip(drawn, names, strict=True):
            style = look(section.looks.get(line.name, 0))
            if not few:
                style.pop("marker")
            axes.plot(
                line.x, factor * line.y, label=escape_mathtext(label), markersize=3.5, linewidth=1.4, **style
            )
        for line in [d for d in drawn if d.low is not None][:MAX_BANDS]:
            tint = look(section.looks.get(line.name, 0))["color"]
            low, high = (factor * np.asarray(v) for v in (line.low, line.high))
            axes.fill_between(line.x, low, high, color=tint, alpha=0.13, linewidth=0)
        for label, x, y in guides:
            axes.plot(x, factor * y, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), label=label)
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xticks(_ticks(drawn), labels=[f"{v:g}" for v in _ticks(drawn)])
            axes.minorticks_off()
        if unit_square:
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.02)
        axes.grid(True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.46, -0.42 / (HEIGHT - TOP)),
            ncols=columns,
            labelspacing=0.3,
            columnspacing=1.2,
            handlelength=1.8,
        )

    picture = Drawing(
        draw,
        label=title,
        width=WIDTH,
        height=HEIGHT + 0.5 + 0.17 * entries_high,
        bottom=0.5 + 0.17 * entries_high,
        top=TOP,
    )
    bands = sum(line.low is not None for line in drawn)
    notes = [caption]
    if bands:
        which = "Bands" if bands <= MAX_BANDS else f"Bands (of the best {MAX_BANDS})"
        notes.append(f"{which} are pointwise 95 % confidence bands over scenes.")
    notes.append(only_best(len(drawn), len(lines)).strip())
    text = " ".join(n for n in notes if n)
    return Figure(name, f"{title}.", text, picture, _data(lines, x_label, y_label), kind=kind, group=group)


def _ticks(lines: Sequence[Line]) -> list[float]:
    """Values of a logarithmic axis to name: those of the data, thinned to about eight."""
    values = sorted({float(x) for line in lines for x in line.x if x > 0})
    step = max(1, -(-len(values) // 8))
    return values[::-1][::step][::-1]


def _data(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    rows = []
    for line in lines:
        nothing = [None] * len(line.x)
        low = nothing if line.low is None else line.low.tolist()
        high = nothing if line.high is None else line.high.tolist()
        rows += [[line.name, *row] for row in zip(line.x.tolist(), line.y.tolist(), low, high, strict=True)]
    return to_csv(["method", x_label, y_label.removesuffix(" (%)"), "low", "high"], rows)
