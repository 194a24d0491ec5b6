# SPDX-License-Identifier: BSD-3-Clause
"""Curves and breakdown points of the tasks `stress/*`, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import UnknownNameError
from ..datasets.stress_kinds import StressKind
from ..run.result import Run
from ..stats.breakdown import BreakdownPoint, StressCurve
from ..tasks.capabilities import HasStressCurves
from ..tasks.stress.score import DESCRIPTIONS, METRICS, NOT_MONOTONE, interval_text, point_text
from .runs.sections import TaskSection, sections

LIMITS = (
    "These are synthetic changes of one plane: they do not show real viewpoint or light, and not the order "
    "of methods on photographs. Levels of different kinds have no common scale."
)
"""Limits of what the curves show."""


@dataclass(frozen=True)
class MethodCurve:
    """The curve of one method under one kind of change."""

    method: str
    run: str
    kind: StressKind
    metric: str
    curve: StressCurve
    scenes: int

    @property
    def point(self) -> str:
        """Breakdown point as text: ``47.0°``, ``> 75°`` if it is beyond the last level."""
        return point_text(self.curve.point, self.kind)

    @property
    def interval(self) -> str:
        """95 % interval of the breakdown point as text. Empty without one."""
        return interval_text(self.curve, self.kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        c = self.curve
        return {
            "method": self.method,
            "run": self.run,
            "kind": self.kind.name,
            "metric": self.metric,
            "scenes": self.scenes,
            "levels": list(c.levels),
            "mean": c.mean.tolist(),
            "fit": c.fit.tolist(),
            "rise": c.rise,
            "breakdown": _plain(c.point),
            "interval": None if c.interval is None else [_plain(p) for p in c.interval],
        }


def _plain(point: BreakdownPoint) -> dict[str, Any]:
    return {"level": point.level, "beyond_last_level": point.beyond, "nothing_at_first_level": point.nothing}


def is_stress(section: TaskSection) -> bool:
    """Return whether a section has curves along levels of a change."""
    return isinstance(section.definition, HasStressCurves)


def method_curves(section: TaskSection, metric: str | None = None) -> list[MethodCurve]:
    """Return the curves of all methods of a section that have the metric, best method first."""
    task = section.definition
    if not isinstance(task, HasStressCurves):
        return []
    wanted = metric or (section.metric if section.metric in METRICS else METRICS[0])
    found = []
    for run in section.runs:
        tables = section.tables(run)
        curve = task.stress_curves(tables).get(wanted)
        if curve is not None:
            scenes = len(tables[wanted, "all"].scenes)
            found.append(MethodCurve(section.names[run.id], run.id, task.kind, wanted, curve, scenes))
    return found


def curves_of_runs(runs: Sequence[Run], metric: str) -> list[list[MethodCurve]]:
    """Return the curves of runs: one list per kind of change, methods in the order of the runs."""
    if metric not in METRICS:
        raise UnknownNameError("metric of stress curves", metric, METRICS)
    order = {run.id: i for i, run in enumerate(runs)}
    kinds = list(dict.fromkeys(run.task for run in runs))
    found = sorted((s for s in sections(runs) if is_stress(s)), key=lambda s: kinds.index(s.task))
    curves = [sorted(method_curves(s, metric), key=lambda c: order[c.run]) for s in found]
    return [some for some in curves if some]


def breakdown_table(curves: Sequence[Sequence[MethodCurve]]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of breakdown points: one row per kind of change."""
    methods = list(dict.fromkeys(c.method for some in curves for c in some))
    rows = []
    for some in curves:
        cells = {c.method: f"{c.point} {c.interval}".strip() + _mark(c) for c in some}
        rows.append([some[0].kind.name, *(cells.get(method, "") for method in methods)])
    return ["kind", *methods], rows


def _mark(curve: MethodCurve) -> str:
    return " *" if curve.curve.rise >= NOT_MONOTONE else ""


def curve_table(curves: Sequence[MethodCurve]) -> tuple[str, list[str], list[list[str]]]:
    """Return title, header and rows of the curves under one kind of change, in percent.

    The non-increasing fit has a row of its own if it differs from the curve. `rise` is the largest amount by
    which the curve is above the fit, in percentage points.
    """
    kind = curves[0].kind
    levels = list(dict.fromkeys(level for c in curves for level in c.curve.levels))
    levels.sort(key=kind.axis.to)
    rows = []
    for c in curves:
        at = dict(zip(c.curve.levels, zip(c.curve.mean, c.curve.fit, strict=True), strict=True))
        mean, fit = ([_percent(at[x][k]) if x in at else "" for x in levels] for k in (0, 1))
        rows.append([c.method, *mean, f"{100 * c.curve.rise:.1f}"])
        if fit != mean:
            rows.append(["  fit", *fit, ""])
    return f"{kind.name}: {kind.label}", ["level", *(f"{x:g}" for x in levels), "rise"], rows


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def notes(curves: Sequence[Sequence[MethodCurve]]) -> list[str]:
    """Return notes on how to read the curves and the table."""
    every = [c for some in curves for c in some]
    if not every:
        return []
    metric = every[0].metric
    found = [
        f"Breakdown point [95 % interval]: where a non-increasing fit of {metric} falls to half of its first "
        f"value. {metric}: {DESCRIPTIONS[metric]}.",
    ]
    if any(_mark(c) for c in every):
        found.append(
            f"* The curve rises at least {100 * NOT_MONOTONE:.0f} points above its fit, so the "
            "breakdown point alone misleads; read the curve."
        )
    if any(c.kind.name == "rotation" for c in every):
        found.append("Rotation is not monotone: 90 and 180 degrees are exact copies without interpolation.")
    if any(c.kind.name in ("scale", "tilt") for c in every):
        found.append(
            "scale and tilt change the resolution: 3 px in the changed image are up to 12 px in the original."
        )
    return [*found, LIMITS]
