# SPDX-License-Identifier: BSD-3-Clause
"""A figure of the report: its picture and the numbers behind it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.metric_units import unit_of
from ..run.result import Run
from .collect import CANARIES, LOWER_IS_BETTER, Section
from .svg import INK, look, svg


@dataclass(frozen=True)
class Figure:
    """`svg` is the picture, `csv` its data, both downloadable; `name` is unique in the report."""

    name: str
    title: str
    caption: str
    svg: str
    csv: str


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""CSV text; numbers with all their digits.

    >>> to_csv(["a", "b"], [[1, 0.5], ["x,y", None]])
    'a,b\n1,0.5\n"x,y",\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def short(name: str, most: int = 32) -> str:
    """A name that fits a figure; the page has it whole.

    >>> short("x" * 40)[-1]
    '…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def shown(text: str) -> str:
    """Text for Matplotlib, whose mathematics mode starts at a dollar sign."""
    return text.replace("$", r"\$")


def scale_of(metric: str) -> tuple[float, str]:
    """Factor and unit for the axis: fractions are shown in percent, pixels and counts as they are."""
    unit = unit_of(metric)
    if unit == "fraction":
        return 100.0, "%"
    return 1.0, "" if unit == "count" else unit


def leaderboard_figure(section: Section) -> Figure:
    """Headline score of each method with its interval, chance and oracle as lines."""
    factor, unit = scale_of(section.metric)
    rows = []
    for run in section.runs:
        s = section.score(run)
        if s is not None and s["value"] is not None:
            rows.append((run.method, s["value"], s["low"], s["high"], s["chance"], s["n"]))
    oracle = next((r[1] for r in rows if r[0] == "oracle"), None)
    chance = next((r[4] for r in rows if r[4] is not None), None)

    def draw(axes: Any) -> None:
        for y, (_, value, low, high, _, _) in enumerate(rows):
            if low is not None and high is not None:
                axes.plot([factor * low, factor * high], [y, y], color=look(0)["color"], linewidth=1.6)
            axes.plot([factor * value], [y], "o", color=look(0)["color"], markersize=4.5)
        for x, name in ((chance, "chance"), (oracle, "oracle")):
            if x is not None:
                axes.axvline(factor * x, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
                axes.annotate(
                    name,
                    (factor * x, 1),
                    xycoords=("data", "axes fraction"),
                    fontsize=8,
                    ha="center",
                    va="bottom",
                )
        axes.set_yticks(range(len(rows)), [shown(short(r[0])) for r in rows])
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.set_xlabel(f"{section.metric} ({unit})")

    name = f"leaderboard {section.task}"
    data = to_csv(["method", "value", "low", "high", "chance", "n"], rows)
    caption = (
        f"{section.metric}, group {section.group}, protocol {section.protocol}; 95 % intervals by scene."
    )
    picture = svg(draw, height=0.9 + 0.25 * max(3, len(rows)), label=f"{section.metric} of each method")
    return Figure(name, f"{section.task}: {section.metric}", caption, picture, data)


def heat_map(section: Section) -> Figure | None:
    """Headline metric by method and scene."""
    import numpy as np

    def scene_scores(run: Run) -> dict[str, float]:
        found = {}
        for s in run.stored.scores:
            alone = str(s["group"]).startswith("scene=") and "," not in str(s["group"])
            if s["protocol"] == section.protocol and s["metric"] == section.metric and alone:
                found[str(s["group"]).removeprefix("scene=")] = math.nan if s["value"] is None else s["value"]
        return found

    table = [(r.method, scene_scores(r)) for r in section.runs if r.method not in CANARIES]
    scenes = sorted({scene for _, row in table for scene in row})
    if not scenes:
        return None
    factor, unit = scale_of(section.metric)
    values = np.array([[row.get(s, math.nan) for s in scenes] for _, row in table]) * factor
    names = [name for name, _ in table]

    def draw(axes: Any) -> None:
        colours = "cividis_r" if section.metric in LOWER_IS_BETTER else "cividis"
        picture = axes.imshow(values, aspect="auto", cmap=colours, interpolation="nearest")
        axes.set_yticks(range(len(names)), [shown(short(n, 24)) for n in names])
        step = max(1, len(scenes) // 40)
        ticks = range(0, len(scenes), step)
        axes.set_xticks(ticks, [shown(short(scenes[i], 18)) for i in ticks], rotation=90, fontsize=7)
        axes.figure.colorbar(picture, ax=axes, label=f"{section.metric} ({unit})", pad=0.01)

    rows = [[n, *row] for n, row in zip(names, (values / factor).tolist(), strict=True)]
    picture = svg(draw, width=8.2, height=1.6 + 0.22 * len(names), label=f"{section.metric} by scene")
    return Figure(
        f"scenes {section.task}",
        f"{section.task} by scene",
        f"{section.metric} of each method in each scene; {len(scenes)} scenes.",
        picture,
        to_csv(["method", *scenes], rows),
    )
