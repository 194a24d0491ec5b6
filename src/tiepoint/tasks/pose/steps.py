# SPDX-License-Identifier: BSD-3-Clause
"""Steps from a paper's protocol to `exact`, which change one convention at a time.

All steps use the same matches. The first step uses the records of the protocol, the last step those of
`exact`. Only the intermediate steps need new estimator calls: with the image size of `exact`, then also with
the threshold of `exact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...core.records import Records
from ..steps import StepTable
from .compare import AREAS, Floats, Poses, Rows, both_directions, counted_rows, group_scoring, pose_row_errors
from .protocols import (
    PROTOCOLS,
    THRESHOLDS_DEG,
    XFEAT_SCANNET_PX,
    PoseProtocol,
    PoseScoring,
    PoseSetting,
    exact_protocol,
)
from .score import headline_rows, pair_weights

ARROW = "->exact"
"""Suffix of comparison names for the steps from a protocol to `exact`."""


class StepSettings(NamedTuple):
    """Estimator settings of the steps to `exact`: `framed` changes the frame, `nearer` also the threshold."""

    own: PoseSetting
    framed: PoseSetting
    nearer: PoseSetting

    @property
    def new_settings(self) -> tuple[PoseSetting, ...]:
        """The settings that need new estimator calls. `nearer` is omitted if it equals `framed`."""
        return (self.framed,) if self.nearer == self.framed else (self.framed, self.nearer)


def steps_comparison_name(protocol: str) -> str:
    """Return the name of the records for the steps of a protocol. `zeb` shares the records of `loftr`.

    >>> steps_comparison_name("superglue"), steps_comparison_name("zeb")
    ('superglue->exact', 'loftr->exact')
    """
    return f"{PROTOCOLS[protocol].comparison or protocol}{ARROW}"


def step_settings(name: str, dataset: str, exact: PoseProtocol) -> StepSettings:
    """Return the settings of the steps from a protocol to `exact`, for pairs of a dataset.

    If the paper's tool selects its threshold on the test set, the steps use the threshold closest to that of
    `exact`.

    >>> own, framed, nearer = step_settings("loftr", "scannet", exact_protocol())
    >>> str(own.frame("scannet")), str(framed.frame("scannet")), nearer.estimator.threshold_px
    ('640x480', 'long:1000', 1.0)
    """
    protocol, goal = PROTOCOLS[name], _goal(exact)
    wanted = protocol.parts_of(dataset)
    same = [s for s in protocol.settings if s.parts == wanted]
    fitting = same or [s for s in protocol.settings if wanted.items() <= s.parts.items()]
    px = goal.estimator.threshold_px
    own = min(fitting, key=lambda s: abs(s.estimator.threshold_px - px))
    framed = replace(own, frames=goal.frames, centre=True, only=(), scoring=None, parts={})
    return StepSettings(own, framed, replace(framed, estimator=replace(own.estimator, threshold_px=px)))


def pose_step_chain(name: str, dataset: str, exact: PoseProtocol) -> PoseProtocol:
    """Return a protocol whose settings are the intermediate steps from protocol `name` to `exact`.

    >>> [s.estimator.threshold_px for s in pose_step_chain("dad", "scannet", exact_protocol()).settings]
    [2.0, 1.0]
    """
    return PoseProtocol(step_settings(name, dataset, exact).new_settings, PROTOCOLS[name].scoring)


def _goal(exact: PoseProtocol) -> PoseSetting:
    return next(s for s in exact.settings if s.parts == exact.headline[""])


@dataclass(frozen=True)
class _StepScores:
    """Records of all steps from one protocol to `exact`, from which the AUC after each step is computed."""

    name: str
    own: Poses
    walked: Poses
    last: Poses
    exact: PoseProtocol

    @property
    def protocol(self) -> PoseProtocol:
        return PROTOCOLS[self.name]

    @cached_property
    def walks(self) -> Mapping[str, StepSettings]:
        """Estimator settings of the steps, by dataset."""
        return {str(d): step_settings(self.name, str(d), self.exact) for d in np.unique(self.own.datasets)}

    @cached_property
    def scoring(self) -> PoseScoring:
        """Scoring with which the protocol prints its AUC."""
        return group_scoring(self.own, self.protocol, headline_rows(self.own, self.protocol))

    def printed_area(self, t: float) -> float:
        """Return the AUC that the protocol prints."""
        errors = pose_row_errors(self.own, self.protocol)[2]
        order = counted_rows(self.own, self.protocol.scoring, headline_rows(self.own, self.protocol))
        return float(AREAS[self.scoring.area](errors[order], t))

    def area_at_threshold(self, t: float) -> float:
        """Return the AUC of the protocol at its estimator threshold closest to the threshold of `exact`."""
        settings = self.protocol.settings
        ways = {d: (settings, settings.index(w.own)) for d, w in self.walks.items()}
        return self._area(self.own, ways, self.scoring, t)

    def area_at_stage(self, stage: str, t: float) -> float:
        """Return the AUC up to `t` degrees at the intermediate step `framed` or `nearer`."""
        ways = {d: (w.new_settings, w.new_settings.index(getattr(w, stage))) for d, w in self.walks.items()}
        return self._area(self.walked, ways, self.scoring, t)

    def exact_area(self, scoring: PoseScoring, t: float, *, all_seeds: bool = True) -> float:
        """Return the AUC of the poses of `exact`, with the failure error of the protocol.

        Without `all_seeds`, each pair has as many seeds as the protocol has repeats.
        """
        number = self.exact.settings.index(_goal(self.exact))
        ways, most = {}, {}
        for d, w in self.walks.items():
            ours = replace(self.exact.settings[number], failure=w.own.failure, success=w.own.success)
            ways[d] = ((*self.exact.settings[:number], ours), number)
            most[d] = w.own.repeats
        keep = None
        if not all_seeds:
            limit = np.array([most[str(d)] for d in self.last.datasets])
            keep = self.last["repeat"] < limit[self.last.pair]
        return self._area(self.last, ways, scoring, t, keep)

    def once(self, t: float) -> float:
        """Return the AUC of `exact`: the mean over pairs, with weight 1/2 for a pair in both directions."""
        rows = headline_rows(self.last, self.exact)
        shares = np.clip(1 - pose_row_errors(self.last, self.exact)[2][rows] / t, 0, None)
        weights = pair_weights(self.last.records)[self.last.pair[rows]]
        return float((shares * weights).sum() / weights.sum())

    def _area(
        self,
        poses: Poses,
        ways: Mapping[str, tuple[tuple[PoseSetting, ...], int]],
        scoring: PoseScoring,
        t: float,
        keep: Rows | None = None,
    ) -> float:
        """Return the AUC of the poses of one setting per dataset.

        `ways` maps a dataset to (settings, index of the one to use).
        """
        chosen = np.zeros(len(poses.pair), bool)
        errors: Floats = np.full(len(poses.pair), np.nan)
        for dataset, (settings, number) in ways.items():
            own = (poses.datasets == dataset)[poses.pair]
            chosen |= own & (poses["setting"] == number) & (poses["budget"] == 0)
            errors = np.where(own, pose_row_errors(poses, PoseProtocol(settings, scoring))[2], errors)
        order = counted_rows(poses, scoring, chosen if keep is None else chosen & keep)
        return float(AREAS[scoring.area](errors[order], t))


def pose_step_tables(
    name: str,
    own: Sequence[Records],
    walked: Sequence[Records],
    last: Sequence[Records],
    exact: PoseProtocol | None = None,
) -> list[StepTable]:
    """Return the AUC up to 5, 10 and 20 degrees after each step from a protocol to `exact`.

    Steps without any effect, such as an identical threshold, are excluded.

    Args:
        name: Name of the protocol.
        own: Records of the protocol.
        walked: Records of `pose_step_chain`, in the same order of pairs.
        last: Records of `exact`.
        exact: Protocol `exact` with the options of the run.
    """
    exact = exact or exact_protocol()
    way = _StepScores(name, Poses(own), Poses(walked), Poses(last), exact)
    return [StepTable("auc", _steps(way, t), f"{name} to exact, threshold_deg={t}") for t in THRESHOLDS_DEG]


def _steps(way: _StepScores, t: float) -> list[tuple[str, float]]:
    goal, scoring = _goal(way.exact), way.scoring
    px, walks = goal.estimator.threshold_px, way.walks.values()
    side = next(iter(goal.frames.values())).side
    steps = [(way.name, way.printed_area(t))]
    for dataset in set(way.protocol.scoring.best_px) & way.walks.keys():
        chosen = way.walks[dataset].own.estimator.threshold_px
        text = f"threshold: {chosen:g} px, not the best of {len(XFEAT_SCANNET_PX)} on the test set"
        steps.append((text, way.area_at_threshold(t)))
    steps.append(
        (f"frame: longer side {side:g} px, points in the convention of K", way.area_at_stage("framed", t))
    )
    if any(w.nearer != w.framed for w in walks):
        steps.append((f"threshold: {px:g} px", way.area_at_stage("nearer", t)))
    which = way.exact.headline[""]["estimator"]
    steps.append(
        (f"estimator: {which}, matches sorted, doubles dropped", way.exact_area(scoring, t, all_seeds=False))
    )
    if any(w.own.repeats < goal.repeats for w in walks):
        steps.append((f"repeats: {goal.repeats} seeds", way.exact_area(scoring, t)))
    steps += [(text, way.exact_area(changed, t)) for text, changed in _scorings(scoring, way.exact.scoring)]
    if both_directions(way.last.records):
        steps.append(("pairs in both directions once", way.once(t)))
    return steps


def _scorings(own: PoseScoring, exact: PoseScoring) -> list[tuple[str, PoseScoring]]:
    """Return the scoring after each step from a protocol to `exact`, with a description of the change."""
    failed = replace(own, failure=exact.failure, limit=None)
    angles = replace(failed, angles=exact.angles)
    steps = [
        ("failure: 180 degrees, a zero translation included", failed),
        ("angles: stable, true rotation projected, translation not folded", angles),
    ]
    kept = replace(angles, last_duplicate=False, again=(), best_px=())
    if own.last_duplicate or own.again:
        steps.append(("every pair and repeat once", kept))
    return [*steps, ("area: exact integral", exact)]
