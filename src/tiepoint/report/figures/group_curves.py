# SPDX-License-Identifier: BSD-3-Clause
"""Scores along a group of numbers, such as thresholds, as curves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...run.result import Run
from ...tasks.titles import metric_title
from ..runs.sections import Row, TaskSection
from .figure import Figure, axis_label
from .lines import Array, Line, lines_figure

AXES = {
    "pool": ("distractors in the pool", True),
    "tau_px": ("threshold (px)", False),
    "threshold": ("threshold (% of the larger side)", False),
    "gallery": ("gallery size", True),
    "alpha": ("alpha", False),
    "rank": ("rank of the right answer", False),
}
"""Group keys whose values are numbers: axis label, and whether the axis is logarithmic."""


def numeric_groups(section: TaskSection) -> list[tuple[str, str]]:
    """(metric, key) of the scores along a numeric group key and no other key, headline metric first."""
    seen: dict[tuple[str, str], int] = {}
    for metric, group in section.columns:
        key, _, value = group.partition("=")
        if key in AXES and "," not in group and _number(value) is not None:
            seen[(metric, key)] = seen.get((metric, key), 0) + 1
    found = [name for name, count in seen.items() if count > 1 and name[0] != "rank_histogram"]
    return sorted(found, key=lambda name: name[0] != section.metric)


def group_curve(section: TaskSection, metric: str, key: str) -> Figure:
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


def _points(section: TaskSection, run: Run, metric: str, key: str) -> list[tuple[float, Row]]:
    found = []
    for (name, group), s in section.rows(run).items():
        k, _, value = group.partition("=")
        x = _number(value)
        if name == metric and k == key and x is not None and s["value"] is not None:
            found.append((x, s))
    return sorted(found, key=lambda p: p[0])


def _line(section: TaskSection, run: Run, metric: str, key: str) -> Line:
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


def _chance(section: TaskSection, metric: str, key: str) -> Array:
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
