# SPDX-License-Identifier: BSD-3-Clause
"""Curves of a task: means of scene curves, ROC and PR curves of pooled lists, scores along a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.scores import PooledBins
from ...run.result import Run
from ...stats.curve_bands import pooled_band, scene_band
from ...tasks.titles import group_title
from ..runs.sections import TaskSection
from .figure import Figure
from .group_curves import group_curve, numeric_groups
from .lines import MAX_SERIES, Array, Line, lines_figure

MAX_FIGURES = 12
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


def curve_figures(section: TaskSection) -> list[Figure]:
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
    return figures[:MAX_FIGURES]


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


def _scene_lines(section: TaskSection) -> Found:
    found: Found = {}
    if section.protocol != "exact":
        return found
    for run in section.inspected:
        for c in section.definition.scene_curves(section.records(run)):
            bounds = scene_band(c) or (None, None)
            line = Line(section.names[run.id], c.x, c.mean, *bounds)
            found.setdefault((c.group, c.curve), []).append(line)
    return found


def _pooled_lines(section: TaskSection) -> Found:
    found: Found = {}
    if section.protocol != "exact":
        return found
    for run in section.methods[:MAX_SERIES]:
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


def _bins(section: TaskSection, run: Run) -> dict[tuple[str, str], PooledBins]:
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
