# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `stress/*`: means by level, and breakdown points (levels at which a score halves)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.records import Records
from ...core.scores import CAUTION, SceneValues, Score, group_name
from ...datasets.stress_kinds import StressKind
from ...stats.breakdown import BreakdownPoint, StressCurve, stress_curve
from ..scene_means import score_from_scenes
from .compare import CORNER_PX, MATCH_PX

METRICS = ("corner", "mma", "matching_score")
DESCRIPTIONS = {
    "corner": f"max(0, 1 - e/{CORNER_PX:g}), e the mean error in pixels of the corners under the estimated "
    "homography",
    "mma": f"share of the matches within {MATCH_PX:g} px of the true position in the changed image",
    "matching_score": "correct matches divided by the keypoints of the unchanged image",
}
NOT_MONOTONE = 0.05
"""Smallest rise of a curve above its monotone fit at which its breakdown point gets a caution."""


def score_levels(records: Sequence[Records], kind: StressKind) -> list[Score]:
    """Return the scores of all levels, of each level and of each scene, and the breakdown points."""
    if not records:
        return []
    levels = [float(x) for x in records[0].meta["levels"]]
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    scores: list[Score] = []
    for metric in METRICS:
        table = np.array([r[metric] for r in records], np.float64)
        if np.isnan(table).any():
            continue  # the method returns no matches or no keypoints
        values = SceneValues(scenes, kinds, np.ascontiguousarray(table.T))
        scores.append(score_from_scenes(metric, "all", table.size, values))
        for i, level in enumerate(levels):
            one = SceneValues(scenes, kinds, np.ascontiguousarray(table[:, i])[None])
            scores.append(score_from_scenes(metric, level_group(level), len(scenes), one))
        curve = stress_curve(table, levels, scenes, axis=kind.axis, kind=kind.name)
        scores.append(_breakdown_score(metric, curve, len(scenes), kind))
        for scene, row in zip(scenes, table, strict=True):
            scores.append(Score(metric, group_name(scene=scene), float(row.mean()), len(row)))
    return scores


def level_group(level: float) -> str:
    """Return the name of the score group of a level.

    >>> level_group(30.0), level_group(1.25)
    ('level=30', 'level=1.25')
    """
    return group_name(level=f"{level:g}")


def curves_from_values(tables: Mapping[tuple[str, str], object], kind: StressKind) -> dict[str, StressCurve]:
    """Return the curve of each metric from scene values, which are stored by metric and group."""
    found: dict[str, StressCurve] = {}
    for metric in METRICS:
        prefix = "level="
        groups = [g for m, g in tables if m == metric and g.startswith(prefix)]
        levels = sorted((float(g.removeprefix(prefix)) for g in groups), key=kind.axis.to)
        every = tables.get((metric, "all"))
        if isinstance(every, SceneValues) and len(levels) == len(every.cells):
            found[metric] = stress_curve(every.cells.T, levels, every.scenes, axis=kind.axis, kind=kind.name)
    return found


def point_text(point: BreakdownPoint, kind: StressKind) -> str:
    """Return a breakdown point as text.

    >>> from tiepoint.datasets.stress_kinds import KINDS
    >>> tilt, jpeg = KINDS["tilt"], KINDS["jpeg"]
    >>> point_text(BreakdownPoint(46.957), tilt), point_text(BreakdownPoint(75.0, beyond=True), tilt)
    ('47.0°', '> 75°')
    >>> point_text(BreakdownPoint(2.0, beyond=True), jpeg), point_text(BreakdownPoint(0, nothing=True), tilt)
    ('< q 2', 'at once')
    """
    if point.nothing:
        return "at once"
    if point.beyond:
        return f"{'<' if kind.last < kind.levels[0] else '>'} {kind.level_text(point.level, exact=True)}"
    return kind.level_text(point.level)


def interval_text(curve: StressCurve, kind: StressKind) -> str:
    """Return the interval of a breakdown point as text. Empty if there is none or it has no width."""
    if curve.interval is None or curve.interval == (curve.point, curve.point):
        return ""
    low, high = (point_text(point, kind) for point in curve.interval)
    return f"[{low}, {high}]"


def _breakdown_score(metric: str, curve: StressCurve, scenes: int, kind: StressKind) -> Score:
    notes = []
    if curve.point.beyond:
        notes.append(f"{CAUTION}above half of its first value up to the last level")
    if curve.point.nothing:
        notes.append(f"{CAUTION}no score at the first level")
    if curve.interval is not None and curve.interval[1].beyond and not curve.point.beyond:
        notes.append("the interval ends beyond the last level")
    if curve.rise >= NOT_MONOTONE:
        notes.append(
            f"{CAUTION}the curve rises {100 * curve.rise:.0f} points above its fit; look at the curve"
        )
    bounds = [None, None]
    if curve.interval is not None:
        bounds = sorted(point.level for point in curve.interval)  # type: ignore[assignment]
    return Score(
        f"breakdown_{metric}",
        "all",
        curve.point.level,
        scenes,
        low=bounds[0],
        high=bounds[1],
        note="; ".join(notes) or None,
    )
