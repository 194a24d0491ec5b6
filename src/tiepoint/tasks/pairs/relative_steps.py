# SPDX-License-Identifier: BSD-3-Clause
"""From a paper's protocol to `exact` one change at a time: what each is worth on the same matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...model.records import Records
from ..base import StepTable
from .relative_errors import AREAS, Poses, counted_rows, row_errors
from .relative_protocols import PROTOCOLS, THRESHOLDS_DEG, PoseProtocol, Scoring, Setting
from .relative_scores import headline_rows, pair_weights

ARROW = "->exact"
"""Ends the name of a comparison that walks from a protocol to `exact`."""
_WORDS = (
    "frame: longer side {side:g} px, points in the convention of K",
    "threshold: {px:g} px",
    "estimator: {estimator}, matches sorted, doubles dropped",
    "repeats: {seeds} seeds",
)


def chain(name: str, dataset: str, exact: PoseProtocol) -> PoseProtocol:
    """The settings between a protocol and `exact` for pairs of a dataset, the protocol's own first.

    >>> [s.order for s in chain("superglue", "scannet", exact_protocol()).settings]
    ['given', 'given', 'given', 'sorted', 'sorted']
    """
    protocol = PROTOCOLS[name]
    parts = protocol.parts_of(dataset)
    own = next(s for s in protocol.settings if parts.items() <= s.parts.items())
    goal = next(s for s in exact.settings if s.parts == exact.headline[""])
    framed = replace(own, frames=goal.frames, centre=True)
    nearer = replace(framed, estimator=replace(own.estimator, threshold_px=goal.estimator.threshold_px))
    other = replace(nearer, estimator=goal.estimator, order=goal.order)
    settings = [own, framed, nearer, other, replace(other, repeats=goal.repeats)]
    return PoseProtocol(tuple(_open(s) for s in settings), protocol.scoring)


def _open(setting: Setting) -> Setting:
    """For every dataset: whom the chain is for was decided before."""
    return replace(setting, only=(), parts={})


def step_tables(
    name: str, own: Sequence[Records], walked: Sequence[Records], exact: PoseProtocol
) -> list[StepTable]:
    """Areas up to 5, 10 and 20 degrees after each step from a protocol to `exact`.

    Args:
        name: of the protocol.
        own: its records, for the number that it prints.
        walked: records of `chain`, in the same order of pairs.
        exact: the protocol `exact` of the run.
    """
    protocol, poses = PROTOCOLS[name], Poses(walked)
    goal = next(s for s in exact.settings if s.parts == exact.headline[""])
    words = [
        text.format(
            side=next(iter(goal.frames.values())).side,
            px=goal.estimator.threshold_px,
            estimator=exact.headline[""]["estimator"],
            seeds=goal.repeats,
        )
        for text in _WORDS
    ]
    tables = []
    for t in THRESHOLDS_DEG:
        steps = [(name, _own_area(own, protocol, t))]
        settings = chain(name, str(walked[0].meta["dataset"]), exact).settings
        for number, text in enumerate(words, start=1):
            steps.append((text, _area(poses, replace(protocol, settings=settings), number, t)))
        for text, scoring in _scorings(protocol, exact):
            steps.append((text, _area(poses, PoseProtocol(settings, scoring), len(words), t)))
        if exact.scoring.both_directions_once:
            steps.append(("pairs in both directions once", _once(poses, settings, exact, t)))
        tables.append(StepTable("auc", steps, f"{name} to exact, threshold_deg={t}"))
    return tables


def _scorings(protocol: PoseProtocol, exact: PoseProtocol) -> list[tuple[str, Scoring]]:
    """The scoring after each change, in words."""
    failed = replace(protocol.scoring, failure=exact.scoring.failure, limit=None)
    angles = replace(failed, angles=exact.scoring.angles)
    kept = replace(angles, last_duplicate=False, again=(), best_px=())
    return [
        ("failure: 180 degrees, a zero translation included", failed),
        ("angles: stable, true rotation projected, translation not folded", angles),
        ("every pair and repeat once", kept),
        ("area: exact integral", exact.scoring),
    ]


def _own_area(records: Sequence[Records], protocol: PoseProtocol, t: float) -> float:
    poses = Poses(records)
    order = counted_rows(poses, protocol.scoring, headline_rows(poses, protocol))
    return float(AREAS[protocol.scoring.area](row_errors(poses, protocol)[2][order], t))


def _area(poses: Poses, protocol: PoseProtocol, number: int, t: float) -> float:
    rows = (np.asarray(poses["setting"]) == number) & (np.asarray(poses["budget"]) == 0)
    order = counted_rows(poses, protocol.scoring, rows)
    return float(AREAS[protocol.scoring.area](row_errors(poses, protocol)[2][order], t))


def _once(poses: Poses, settings: tuple[Setting, ...], exact: PoseProtocol, t: float) -> float:
    """Mean over pairs of their shares, those in both directions half each."""
    protocol = PoseProtocol(settings, exact.scoring)
    rows = np.asarray(poses["setting"]) == len(settings) - 1
    shares = np.clip(1 - row_errors(poses, protocol)[2][rows] / t, 0, None)
    weights = pair_weights(poses.records)[poses.pair[rows]]
    return float((shares * weights).sum() / weights.sum())
