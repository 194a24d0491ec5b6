# SPDX-License-Identifier: BSD-3-Clause
"""Curves of a task: means of scene curves, ROC and PR curves of pooled lists, scores along a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...model.scores import PooledBins
from ...run.result import Run
from ...stats.bands import pooled_band, scene_band
from ...tasks.titles import group_title, metric_title
from ..runs.sections import Row, Section
from .figure import Figure, axis_label
from .lines import MOST_SERIES, Array, Line, lines_figure

MOST_FIGURES = 12
POOLED_DRAWS = 200
NAMES = {
    "roc": ("ROC curve", "false positive rate", "true positive rate"),
    "pr": ("Precision over recall", "recall", "precision"),
    "precision_recall": ("Precision over recall", "recall", "precision"),
    "success_at_k": ("Right answer among the first k", "k", "share of queries"),
    "flow_accuracy": ("Flow accuracy over the threshold", "threshold (% of the larger side)", "accuracy"),
}
"""Curves the report draws: title, axes. Others are told better by scores along a group."""

ODD = {("pr", "balance=balanced"), ("roc", "balance=imbalanced")}
"""Left out: the task's scores are ROC measures of the balanced list and AP of the imbalanced one."""

_BINS = {"roc": "auc", "pr": "ap", "precision_recall": "ap"}
_RECALL = (np.arange(100) + 0.5) / 100
_FPR = np.concatenate([np.linspace(0, 0.1, 41), np.linspace(0.1, 1, 46)[1:]])

Found = dict[tuple[str, str], list[Line]]


def curve_figures(section: Section) -> list[Figure]:
    """All curves of a section, at most twelve."""
    found = _scene_lines(section)
    mean = bool(found)
    if not found:
        found = _pooled_lines(section)
    drawn = {curve for _, curve in found}
    figures = [
        group_curve(section, metric, key)
        for metric, key in numeric_groups(section)
        if metric not in drawn or key != "threshold"
    ]
    ordered = sorted(_different(found).items(), key=lambda item: (item[0][1], item[0][0]))
    figures += [_figure(section, group, curve, lines, mean) for (group, curve), lines in ordered]
    return figures[:MOST_FIGURES]


def _different(found: Found) -> Found:
    """Without groups that are all there is (a benchmark of one subset)."""
    kept: Found = {}
    for (group, curve), lines in found.items():
        every = found.get(("all", curve), [])
        same = len(every) == len(lines) and all(
            np.array_equal(a.y, b.y) for a, b in zip(every, lines, strict=True)
        )
        if group == "all" or not same:
            kept[(group, curve)] = lines
    return kept


def _scene_lines(section: Section) -> Found:
    found: Found = {}
    if section.protocol != "exact":
        return found
    for run in section.looked_into:
        for c in section.definition.scene_curves(section.records(run)):
            bounds = scene_band(c) or (None, None)
            line = Line(section.names[run.id], c.x, c.mean, *bounds)
            found.setdefault((c.group, c.curve), []).append(line)
    return found


def _pooled_lines(section: Section) -> Found:
    found: Found = {}
    if section.protocol != "exact":
        return found
    for run in section.methods[:MOST_SERIES]:
        bins = _bins(section, run)
        records = section.records(run)
        for group, curve, xs, ys in (section.definition.curves(records) if records else None) or ():
            parts = group.split(",")
            if curve not in NAMES or any(
                p.startswith(("scene=", "pair=")) or (curve, p) in ODD for p in parts
            ):
                continue
            x, y = _on_grid(curve, np.asarray(xs, np.float64), np.asarray(ys, np.float64))
            pooled = bins.get((_BINS.get(curve, ""), group))
            bounds = (None if pooled is None else pooled_band(pooled, curve, x, y, draws=POOLED_DRAWS)) or (
                None,
                None,
            )
            found.setdefault((group, curve), []).append(Line(section.names[run.id], x, y, *bounds))
    return found


def _bins(section: Section, run: Run) -> dict[tuple[str, str], PooledBins]:
    tables = section.tables(run).items()
    return {name: t for name, t in tables if isinstance(t, PooledBins) and not t.also}


def _on_grid(curve: str, x: Array, y: Array) -> tuple[Array, Array]:
    """A curve at the points its band is made for; a PR curve is level up to each of its points."""
    if curve == "roc":
        return _FPR, np.interp(_FPR, x, y)
    if curve in ("pr", "precision_recall"):
        at = np.searchsorted(x, _RECALL)
        inside = at < len(x)
        return _RECALL, np.where(inside, y[np.minimum(at, len(y) - 1)], 0.0)
    return x, y


def _figure(section: Section, group: str, curve: str, lines: Sequence[Line], mean: bool) -> Figure:
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


AXES = {
    "pool": ("distractors in the pool", True),
    "tau_px": ("threshold (px)", False),
    "threshold": ("threshold (% of the larger side)", False),
    "gallery": ("gallery size", True),
    "alpha": ("alpha", False),
    "rank": ("rank of the right answer", False),
}
"""Group keys whose values are numbers: axis label, and whether the axis is logarithmic."""


def numeric_groups(section: Section) -> list[tuple[str, str]]:
    """(metric, key) of the scores along a numeric group key and no other key, headline metric first."""
    seen: dict[tuple[str, str], int] = {}
    for metric, group in section.columns:
        key, _, value = group.partition("=")
        if key in AXES and "," not in group and _number(value) is not None:
            seen[(metric, key)] = seen.get((metric, key), 0) + 1
    found = [name for name, count in seen.items() if count > 1 and name[0] != "rank_histogram"]
    return sorted(found, key=lambda name: name[0] != section.metric)


def group_curve(section: Section, metric: str, key: str) -> Figure:
    """A metric along a numeric group, a line a method, with chance and oracle beside them."""
    label, logarithmic = AXES[key]
    info = section.definition.metric(metric)
    words = section.called.metrics.get(metric) or info.title or metric_title(metric)
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
        title=f"{words[0].upper()}{words[1:]} over {label.split(' (')[0]}",
        caption="",
        x_label=label,
        y_label=axis_label(words, info),
        factor=info.scale[0],
        logarithmic=logarithmic,
        guides=guides,
        kind=f"{metric}-by-{key}".replace("_", "-"),
    )


def _points(section: Section, run: Run, metric: str, key: str) -> list[tuple[float, Row]]:
    found = []
    for (name, group), s in section.rows(run).items():
        k, _, value = group.partition("=")
        x = _number(value)
        if name == metric and k == key and x is not None and s["value"] is not None:
            found.append((x, s))
    return sorted(found, key=lambda p: p[0])


def _line(section: Section, run: Run, metric: str, key: str) -> Line:
    points = _points(section, run, metric, key)
    x = np.array([p[0] for p in points])
    y = np.array([p[1]["value"] for p in points])
    bounds = [_numbers(p[1]) for p in points]
    if not bounds or not all(np.isfinite(b).all() for b in bounds):
        return Line(section.names[run.id], x, y)
    low, high = np.array(bounds).T
    return Line(section.names[run.id], x, y, low, high)


def _numbers(score: Mapping[str, object]) -> Array:
    return np.array([np.nan if score[k] is None else score[k] for k in ("low", "high")], np.float64)


def _chance(section: Section, metric: str, key: str) -> Array:
    levels: dict[float, float] = {}
    for run in section.runs:
        for x, s in _points(section, run, metric, key):
            if s["chance"] is not None:
                levels.setdefault(x, float(s["chance"]))
    return np.array(sorted(levels.items()))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
