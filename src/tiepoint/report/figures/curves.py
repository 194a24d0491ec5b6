# SPDX-License-Identifier: BSD-3-Clause
"""Draw curves: means over scenes, ROC and PR curves of pooled pair lists, scores by a numeric group key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import PooledBins, ScoreRow
from ...formats.csv_table import to_csv
from ...run.result import Run
from ...stats.curve_bands import pooled_band, scene_band
from ...tasks.base import Task
from ...tasks.capabilities import CurvePoints, HasCurves, HasSceneCurves
from ...tasks.info import MetricInfo, group_title, metric_info, metric_title
from ..runs.sections import TaskSection
from .figure import Figure, axis_label, escape_mathtext, only_best, short
from .svg import INK, Drawing, look, text_width

MAX_SERIES = 12
MAX_BANDS = 5
MAX_NAME_CHARS = 24
WIDTH, HEIGHT, TOP = 5.2, 2.5, 0.12
"""Width of the picture, height of the plot and upper margin, in inches. The legend is below the plot."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """Curve of one run. `low` and `high` are its confidence band, None if there are too few scenes."""

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
    """Draw one line per method, best score first. The first few have bands. `guides` are thin labelled lines.

    The picture shows the first twelve lines. The CSV data has all lines with their bands.
    """
    lines = [_without_zero_width(line) for line in lines]
    drawn = [line for line in lines if len(line.x)][:MAX_SERIES]
    names = [short(line.name, MAX_NAME_CHARS) for line in drawn]
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
    banded = [line.low for line in drawn if line.low is not None]
    bands = len(banded)
    notes = [caption]
    if bands:
        which = "Bands" if bands <= MAX_BANDS else f"Bands (of the best {MAX_BANDS})"
        notes.append(f"{which} are pointwise 95 % confidence bands over scenes.")
    if any(np.isnan(low).any() for low in banded[:MAX_BANDS]):
        notes.append("There is no band where all scenes have the same value.")
    notes.append(only_best(len(drawn), len(lines)).strip())
    text = " ".join(n for n in notes if n)
    return Figure(name, f"{title}.", text, picture, _data(lines, x_label, y_label), kind=kind, group=group)


def _without_zero_width(line: Line) -> Line:
    """Return a line without its band where the band has zero width, except at values of 0 and 1."""
    if line.low is None or line.high is None:
        return line
    is_equal = (line.low == line.high) & (line.y > 0) & (line.y < 1)
    low, high = (np.where(is_equal, np.nan, bound) for bound in (line.low, line.high))
    is_empty = not np.isfinite(low).any()
    return Line(line.name, line.x, line.y) if is_empty else Line(line.name, line.x, line.y, low, high)


def _ticks(lines: Sequence[Line]) -> list[float]:
    """Return the ticks of a logarithmic axis: about eight of the data's x values."""
    values = sorted({float(x) for line in lines for x in line.x if x > 0})
    step = max(1, -(-len(values) // 8))
    return values[::-1][::step][::-1]


def _data(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    rows = []
    for line in lines:
        bounds = (np.full(len(line.x), np.nan) if v is None else v for v in (line.low, line.high))
        low, high = ([v if np.isfinite(v) else None for v in bound.tolist()] for bound in bounds)
        rows += [[line.name, *row] for row in zip(line.x.tolist(), line.y.tolist(), low, high, strict=True)]
    return to_csv(["method", x_label, y_label.removesuffix(" (%)"), "low", "high"], rows)


AXES = {
    "pool": ("distractors in the pool", True),
    "tau_px": ("threshold (px)", False),
    "threshold": ("threshold", False),
    "gallery": ("gallery size", True),
    "alpha": ("alpha", False),
    "rank": ("rank of the right answer", False),
}
"""Group keys whose values are numbers: axis label, and whether the axis is logarithmic."""


def group_axis(info: MetricInfo, key: str) -> tuple[str, bool]:
    """Return the axis label of a numeric group key for a metric, and whether the axis is logarithmic."""
    label, logarithmic = AXES[key]
    if key != "threshold":
        return label, logarithmic
    unit = "% of the larger side" if info.threshold_unit == "%" else info.threshold_unit
    return f"{label} ({unit})", logarithmic


def numeric_groups(section: TaskSection) -> list[tuple[str, str]]:
    """Return (metric, group key) of all scores that are grouped by one numeric key, headline metric first."""
    seen: Counter[tuple[str, str]] = Counter()
    for metric, group in section.columns:
        key, _, value = group.partition("=")
        if key in AXES and "," not in group and _number(value) is not None:
            seen[(metric, key)] += 1
    curves = [name for name, count in seen.items() if count > 1 and name[0] != "rank_histogram"]
    return sorted(curves, key=lambda name: name[0] != section.metric)


def group_curve(section: TaskSection, metric: str, key: str) -> Figure:
    """Plot a metric against a numeric group key, one line per method, with chance level and oracle."""
    info = metric_info(section.definition.info, metric)
    label, logarithmic = group_axis(info, key)
    title = section.display.metrics.get(metric) or info.title or metric_title(metric)
    lines = [_line(section, run, metric, key) for run in section.methods]
    guides = []
    chance = _chance(section, metric, key)
    if len(chance):
        guides.append(("chance", *chance.T))
    if section.oracle is not None:
        top = _line(section, section.oracle, metric, key)
        if len(top.x):
            guides.append(("oracle", top.x, top.y))
    return lines_figure(
        section,
        [line for line in lines if len(line.x)],
        name=f"{metric} along {key} {section.title}",
        title=f"{title[0].upper()}{title[1:]} over {label.split(' (')[0]}",
        caption="",
        x_label=label,
        y_label=axis_label(title, info),
        factor=info.scale[0],
        logarithmic=logarithmic,
        guides=guides,
        kind=f"{metric}-by-{key}".replace("_", "-"),
    )


def _points(section: TaskSection, run: Run, metric: str, key: str) -> list[tuple[float, ScoreRow]]:
    found = []
    for (name, group), s in section.rows(run).items():
        k, _, value = group.partition("=")
        x = _number(value)
        if name == metric and k == key and x is not None and s.value is not None:
            found.append((x, s))
    return sorted(found, key=lambda p: p[0])


def _line(section: TaskSection, run: Run, metric: str, key: str) -> Line:
    points = _points(section, run, metric, key)
    x = np.array([p[0] for p in points])
    y = np.array([p[1].value for p in points])
    bounds = np.array([[p[1].low, p[1].high] for p in points], np.float64)
    if not np.isfinite(bounds).any():
        return Line(section.names[run.id], x, y)
    return Line(section.names[run.id], x, y, *bounds.T)


def _chance(section: TaskSection, metric: str, key: str) -> Array:
    levels: dict[float, float] = {}
    for run in section.runs:
        for x, s in _points(section, run, metric, key):
            if s.chance is not None:
                levels.setdefault(x, s.chance)
    return np.array(sorted(levels.items()))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


MAX_FIGURES = 12
POOLED_DRAWS = 200
NAMES = {
    "roc": ("ROC curve", "false positive rate", "true positive rate"),
    "pr": ("Precision over recall", "recall", "precision"),
    "precision_recall": ("Precision over recall", "recall", "precision"),
    "success_at_k": ("Right answer among the first k", "k", "share of queries"),
    "flow_accuracy": ("Flow accuracy over the threshold", "threshold (% of the larger side)", "accuracy"),
}
"""Title and axis labels of the drawn curves. Other curves are drawn as scores by a numeric group key."""

SKIPPED = {("pr", "balance=balanced"), ("roc", "balance=imbalanced")}
"""Skipped curves. The task scores ROC on the balanced pair list and AP on the imbalanced pair list only."""

_BINS = {"roc": "auc", "pr": "ap", "precision_recall": "ap"}
_RECALL = (np.arange(100) + 0.5) / 100
_FPR = np.concatenate([np.linspace(0, 0.1, 41), np.linspace(0.1, 1, 46)[1:]])

Curves = dict[tuple[str, str], list[Line]]
"""Lines by group and curve."""


def curve_figures(section: TaskSection) -> list[Figure]:
    """Return the curve figures of a section, at most twelve."""
    found = _scene_lines(section)
    mean = bool(found)
    found = found or _pooled_lines(section)
    drawn = {curve for _, curve in found}
    figures = [
        group_curve(section, metric, key)
        for metric, key in numeric_groups(section)
        if metric not in drawn or key != "threshold"
    ]
    ordered = sorted(_different(found).items(), key=lambda item: (item[0][1], item[0][0]))
    figures += [_figure(section, group, curve, lines, mean) for (group, curve), lines in ordered]
    return figures[:MAX_FIGURES]


def _different(found: Curves) -> Curves:
    """Remove groups whose curves equal those of group `all`, as in a benchmark with one subset."""
    different: Curves = {}
    for (group, curve), lines in found.items():
        every = found.get(("all", curve), [])
        same = len(every) == len(lines) and all(
            np.array_equal(a.y, b.y) for a, b in zip(every, lines, strict=True)
        )
        if group == "all" or not same:
            different[(group, curve)] = lines
    return different


def curve_points(task: Task, records: Sequence[Records]) -> Iterable[CurvePoints] | None:
    """Compute the points of a task's curves from records of `exact`. None if the task has no curves."""
    return task.curves(records) if isinstance(task, HasCurves) else None


def _scene_lines(section: TaskSection) -> Curves:
    found: Curves = {}
    task = section.definition
    if section.protocol != "exact" or not isinstance(task, HasSceneCurves):
        return found
    for run in section.inspected:
        for c in task.scene_curves(section.records(run)):
            bounds = scene_band(c) or (None, None)
            line = Line(section.names[run.id], c.x, c.mean, *bounds)
            found.setdefault((c.group, c.curve), []).append(line)
    return found


def _pooled_lines(section: TaskSection) -> Curves:
    found: Curves = {}
    if section.protocol != "exact":
        return found
    for run in section.methods[:MAX_SERIES]:
        bins = _bins(section, run)
        records = section.records(run)
        for group, curve, xs, ys in (curve_points(section.definition, records) if records else None) or ():
            parts = group.split(",")
            if curve not in NAMES or any(
                p.startswith(("scene=", "pair=")) or (curve, p) in SKIPPED for p in parts
            ):
                continue
            x, y = _on_grid(curve, np.asarray(xs, np.float64), np.asarray(ys, np.float64))
            pooled = bins.get((_BINS.get(curve, ""), group))
            band = None if pooled is None else pooled_band(pooled, curve, x, y, draws=POOLED_DRAWS)
            line = Line(section.names[run.id], x, y, *(band or (None, None)))
            found.setdefault((group, curve), []).append(line)
    return found


def _bins(section: TaskSection, run: Run) -> dict[tuple[str, str], PooledBins]:
    tables = section.tables(run).items()
    return {name: t for name, t in tables if isinstance(t, PooledBins) and not t.also}


def _on_grid(curve: str, x: Array, y: Array) -> tuple[Array, Array]:
    """Sample a curve at the x values of its band.

    At each recall, a PR curve takes the next point with at least that recall.
    """
    if curve == "roc":
        return _FPR, np.interp(_FPR, x, y)
    if curve in ("pr", "precision_recall"):
        index = np.searchsorted(x, _RECALL)
        return _RECALL, np.where(index < len(x), y[np.minimum(index, len(y) - 1)], 0.0)
    return x, y


def _figure(section: TaskSection, group: str, curve: str, lines: Sequence[Line], mean: bool) -> Figure:
    title, x_label, y_label = NAMES[curve]
    order = {section.names[r.id]: i for i, r in enumerate(section.runs)}
    square = curve in ("roc", "pr", "precision_recall")
    diagonal: Any = [("chance", np.array([0.0, 1.0]), np.array([0.0, 1.0]))] if curve == "roc" else []
    caption = "The area under the mean curve is the score." if curve == "pr" and mean else ""
    return lines_figure(
        section,
        sorted(lines, key=lambda line: order[line.name]),
        name=f"{curve} {group} {section.title}",
        title=title if group == "all" else f"{title}, {group_title(group)}",
        caption=caption,
        x_label=x_label,
        y_label=y_label,
        unit_square=square,
        guides=diagonal,
        kind=curve.replace("_", "-"),
        group=group,
    )
