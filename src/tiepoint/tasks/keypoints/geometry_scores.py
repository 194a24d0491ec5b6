# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/geometry`: means over image pairs, by threshold, matcher and estimator.

The headline uses mutual neighbours and MAGSAC; other matchers and estimators stand under their own groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics.homography import homography_accuracy, homography_auc
from ...metrics.repeatability import matching_score, repeatability
from ...model.records import Records
from ...model.scores import Score, group_name
from ..scene_means import Sums, by_scene, micro, with_protocol

THRESHOLDS_PX = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
HOMOGRAPHY_PX = (1, 3, 5)
HEADLINE_PX = 3
OWN_MATCHER = "own"
"""Name of the user's matcher in columns and groups."""
_DEFAULT = {"matcher": "mutual", "estimator": "magsac"}

Values = Callable[[Records], NDArray[np.float64]]


def _sums(records: Sequence[Records], values: Values) -> Sums:
    """Sums over the pairs of each scene; NaN pairs have no value."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    found = [values(r) for r in records]
    total = np.array([np.nansum(v) for v in found])
    return Sums(scenes, kinds, total, np.array([np.isfinite(v).sum() for v in found], float))


def _emit(metric: str, sums: Sums, *, headline: bool = False, **parts: Any) -> list[Score]:
    """The score, for the default matcher and estimator (unnamed) by kind, for the headline also by scene."""
    named = {k: v for k, v in parts.items() if _DEFAULT.get(k) != v}
    scores = [micro(metric, sums, group=group_name(**named))]
    if not set(named) & set(_DEFAULT):
        for kind in sorted(set(sums.kinds)):
            scores.append(micro(metric, sums.of_kind(kind), group=group_name(kind=kind, **named)))
    if headline:
        scores.append(micro(metric, sums, group="all"))
        scores += by_scene(metric, sums)
    return scores


def _pairs(rule: Callable[[int, int, int], float], column: str, at: int) -> Values:
    def values(r: Records) -> NDArray[np.float64]:
        rows = zip(r[column][:, at], r["visible_first"], r["visible_second"], strict=True)
        return np.array([rule(int(n), int(a), int(b)) for n, a, b in rows])

    return values


def _mean_error(at: int) -> Values:
    def values(r: Records) -> NDArray[np.float64]:
        count = r["corresponding"][:, at].astype(float)
        out = np.full(len(count), np.nan)
        return np.divide(r["error_sum_px"][:, at], count, out=out, where=count > 0)

    return values


def score_exact(records: Sequence[Records]) -> list[Score]:
    """All scores."""
    scores: list[Score] = []
    matchers = ["mutual", "nn", "ratio"]
    if all(f"putative_{OWN_MATCHER}" in r.columns for r in records):
        matchers.append(OWN_MATCHER)
    for at, tau in enumerate(THRESHOLDS_PX):
        head = tau == HEADLINE_PX
        found = _sums(records, _pairs(repeatability, "corresponding", at))
        scores += _emit("repeatability", found, headline=head, tau_px=tau)
        scores += _emit("localisation_error_px", _sums(records, _mean_error(at)), headline=head, tau_px=tau)
        for matcher in matchers:
            main = head and matcher == "mutual"
            found = _sums(records, _pairs(matching_score, f"placed_{matcher}", at))
            scores += _emit("matching_score", found, headline=main, tau_px=tau, matcher=matcher)
            found = _sums(records, lambda r, m=matcher, i=at: r[f"accuracy_{m}"][:, i])  # type: ignore[misc]
            scores += _emit("mma", found, headline=main, tau_px=tau, matcher=matcher)
    for matcher in matchers:
        found = _sums(records, lambda r, m=matcher: r[f"putative_{m}"].astype(float))  # type: ignore[misc]
        scores += _emit("putative_matches", found, matcher=matcher)
        for estimator in ("magsac", "ransac"):
            scores += _homographies(records, matcher, estimator)
    return with_protocol(_without_repeats(scores), "exact")


def _homographies(records: Sequence[Records], matcher: str, estimator: str) -> list[Score]:
    name = f"{matcher}_{estimator}"
    parts: dict[str, Any] = {"matcher": matcher, "estimator": estimator}
    found = _sums(records, lambda r: r[f"inliers_{name}"].astype(float))
    scores = _emit("inliers", found, **parts)
    rules = {"homography_auc": homography_auc, "homography_accuracy": homography_accuracy}
    for tau in HOMOGRAPHY_PX:
        main = tau == HEADLINE_PX and parts == _DEFAULT
        for metric, rule in rules.items():
            # Both are means over pairs, so the value of one pair is the rule applied to it alone.
            found = _sums(
                records,
                lambda r, f=rule, t=tau: np.array([f([e], t) for e in r[f"corner_px_{name}"]]),  # type: ignore[misc]
            )
            scores += _emit(metric, found, headline=main, tau_px=tau, **parts)
    return scores


def _without_repeats(scores: Sequence[Score]) -> list[Score]:
    return list({(s.metric, s.group): s for s in scores}.values())
