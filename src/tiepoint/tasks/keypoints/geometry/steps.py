# SPDX-License-Identifier: BSD-3-Clause
"""Steps from a paper's homography protocol to `exact`, which change one convention at a time.

All steps use the same matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....core.records import Records
from ....geometry.two_view.linear_estimation import HomographyEstimator
from ...steps import StepTable
from .protocols import (
    HEADLINE_PX,
    LEFT_OUT,
    ORIGINAL,
    HomographyProtocol,
    HomographyScoring,
    HomographySetting,
    protocol_under,
)
from .score import (
    AREAS,
    GIVEN,
    corner_row_errors,
    counted_records,
    d2net_thresholds,
    format_threshold,
    geometry_thresholds,
    score_d2net,
)

ARROW = "->exact"
"""Suffix of comparison names for the steps from a protocol to `exact`."""
EXACT_SCORING = HomographyScoring(area="exact", in_front=True)


def changes(name: str, options: Mapping[str, Any]) -> list[tuple[str, HomographySetting]]:
    """Return the setting after each step from a protocol to `exact`, with a description of the change.

    >>> [words for words, _ in changes("dad", {"ransac_px": 3.0, "max_iterations": 10000})][1:3]
    ['frame: original pixels', 'threshold: 3 px']
    """
    px, most = float(options["ransac_px"]), int(options["max_iterations"])
    own = protocol_under(name, options).settings[0]
    goal = HomographyEstimator("opencv", px, 0.9999, most, method="USAC_MAGSAC")
    every = replace(own, top=None, parts={})
    framed = replace(every, frame=ORIGINAL)
    nearer = replace(framed, estimator=replace(own.estimator, threshold_px=px))
    once = replace(nearer, order="given", repeats=1)
    walked = [
        (name, replace(own, parts={})),
        ("all matches", every),
        ("frame: original pixels", framed),
        (f"threshold: {px:g} px", nearer),
        ("one call, matches in the order given", once),
        ("estimator: MAGSAC, matches in the order of exact", replace(once, estimator=goal, order="exact")),
    ]
    return [step for i, step in enumerate(walked) if i == 0 or step[1] != walked[i - 1][1]]


def homography_step_chain(name: str, options: Mapping[str, Any]) -> HomographyProtocol:
    """Return a protocol whose settings are those of all steps from protocol `name` to `exact`, in order."""
    settings = tuple(setting for _, setting in changes(name, options))
    return HomographyProtocol(settings, protocol_under(name, options).scoring)


def homography_step_tables(name: str, own: Sequence[Records], walked: Sequence[Records]) -> list[StepTable]:
    """Return the AUC after each step from a protocol to `exact`, at the thresholds of the protocol.

    Args:
        name: Name of the protocol.
        own: Records of the protocol.
        walked: Records of the steps; see `homography_step_chain`.
    """
    options = walked[0].meta["options"]
    protocol, steps = protocol_under(name, options), changes(name, options)
    kept = [r for r in walked if not (protocol.leaves_out and r.meta["scene"] in LEFT_OUT)]
    first = [r for r in own if not (protocol.leaves_out and r.meta["scene"] in LEFT_OUT)]
    tables = []
    for px in protocol.scoring.thresholds_px:
        rows = [(name, _area(first, 0, protocol.settings[0], protocol.scoring, px))]
        for number, (words, setting) in enumerate(steps[1:], start=1):
            rows.append((words, _area(kept, number, setting, protocol.scoring, px)))
        last, setting = len(steps) - 1, steps[-1][1]
        if len(kept) < len(walked):
            rows.append(("all sequences", _area(walked, last, setting, protocol.scoring, px)))
        for words, scoring in _scorings(protocol.scoring):
            rows.append((words, _area(walked, last, setting, scoring, px)))
        tables.append(StepTable("homography_auc", rows, f"{name} to exact, tau_px={format_threshold(px)}"))
    return tables


def _scorings(scoring: HomographyScoring) -> list[tuple[str, HomographyScoring]]:
    """Return the scoring after each step from a protocol to `exact`, with a description of the change."""
    failed = replace(scoring, collapsed=False)
    corners = replace(failed, edge=False, single=False, in_front=True)
    walked = [
        ("", scoring),
        ("failure: never recalled", failed),
        ("corners: at w - 1, h - 1, those behind the camera left out", corners),
        ("area: exact integral", replace(EXACT_SCORING, thresholds_px=scoring.thresholds_px)),
    ]
    return [step for i, step in enumerate(walked) if i and step[1] != walked[i - 1][1]]


def _area(
    records: Sequence[Records], number: int, setting: HomographySetting, scoring: HomographyScoring, px: float
) -> float:
    errors = [corner_row_errors(r, number, setting, scoring) for r in records]
    return float(AREAS[scoring.area](np.concatenate(errors), px)) if errors else float("nan")


def d2net_steps(
    own: Sequence[Records], walked: Sequence[Records], exact: Sequence[Records]
) -> list[StepTable]:
    """Return the MMA at 3 px after each step from `d2net` to `exact`."""
    scores = {(s.metric, s.group): s.value for s in score_d2net(own)}
    kept, _ = counted_records(own)
    at = d2net_thresholds(own[0].meta["options"]).index(HEADLINE_PX)
    steps = [
        ("d2net", scores["mma", "all"]),
        ("divided by the pairs there are", scores["mma_of_pairs", "all"]),
    ]
    if len(kept) < len(own):
        steps.append(("all sequences", _mean(own, "accuracy", at)))
    steps.append(("matches of exact", _mean(walked, "accuracy", at)))
    place = int(np.flatnonzero(geometry_thresholds(exact[0].meta.get("options", {})) == HEADLINE_PX)[0])
    column = f"accuracy_{GIVEN}" if f"accuracy_{GIVEN}" in exact[0].columns else "accuracy_mutual"
    steps.append(("points behind the camera are wrong", _mean(exact, column, place)))
    return [StepTable("mma", steps, f"d2net to exact, tau_px={HEADLINE_PX}")]


def _mean(records: Sequence[Records], column: str, at: int) -> float:
    return float(np.concatenate([r[column][:, at] for r in records]).mean())
