# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/geometry`: means over image pairs, by threshold, matcher and estimator.

The headline uses mutual neighbours, or the matches that a method brings, and MAGSAC; other matchers and
estimators stand under their own groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import Score, group_name
from ....metrics.error_curves import homography_accuracy, homography_auc
from ....metrics.repeatability import matching_score, repeatability
from ...scene_means import SceneSums, by_scene, micro_score, with_protocol

THRESHOLDS_PX = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
HOMOGRAPHY_PX = (1, 3, 5)
HEADLINE_PX = 3
OWN_MATCHER = "own"
"""Name of the user's matcher in columns and groups."""
GIVEN = "given"
"""Name of the matches that a method on two images brings, in columns."""
_DEFAULT = {"matcher": ("mutual", GIVEN), "estimator": ("magsac",)}

Values = Callable[[Records], NDArray[np.float64]]


def geometry_thresholds(options: Mapping[str, Any]) -> NDArray[np.float64]:
    """Thresholds of matches and keypoints under the options of the records: 1 to 10 px and what they add.

    >>> geometry_thresholds({"tau_px": [0.5, 3]})[:4].tolist()
    [0.5, 1.0, 2.0, 3.0]
    """
    return np.array(sorted({*THRESHOLDS_PX, *options.get("tau_px", ())}), np.float64)


def format_threshold(px: float) -> int | float:
    """A threshold as groups name it: 3, not 3.0.

    >>> format_threshold(3.0), format_threshold(0.5)
    (3, 0.5)
    """
    return int(px) if px == int(px) else float(px)


def _sums(records: Sequence[Records], values: Values) -> SceneSums:
    """Sums over the pairs of each scene; NaN pairs have no value."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    found = [values(r) for r in records]
    total = np.array([np.nansum(v) for v in found])
    return SceneSums(scenes, kinds, total, np.array([np.isfinite(v).sum() for v in found], float))


def _emit(metric: str, sums: SceneSums, *, headline: bool = False, **parts: Any) -> list[Score]:
    """The score, for the default matcher and estimator (unnamed) by kind, for the headline also by scene."""
    named = {k: v for k, v in parts.items() if v not in _DEFAULT.get(k, ())}
    scores = [micro_score(metric, sums, group=group_name(**named))]
    if not set(named) & set(_DEFAULT):
        for kind in sorted(set(sums.kinds)):
            scores.append(micro_score(metric, sums.of_kind(kind), group=group_name(kind=kind, **named)))
    if headline:
        scores.append(micro_score(metric, sums, group="all"))
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
    """All scores; without keypoints those of matches and homographies."""
    scores: list[Score] = []
    if not records:
        return scores
    matchers = [m for m in (GIVEN, "mutual", "nn", "ratio", OWN_MATCHER) if _has(records, f"putative_{m}")]
    for at, limit in enumerate(geometry_thresholds(records[0].meta.get("options", {}))):
        tau = format_threshold(float(limit))
        head = tau == HEADLINE_PX
        if _has(records, "corresponding"):
            found = _sums(records, _pairs(repeatability, "corresponding", at))
            scores += _emit("repeatability", found, headline=head, tau_px=tau)
            scores += _emit(
                "localisation_error_px", _sums(records, _mean_error(at)), headline=head, tau_px=tau
            )
        for matcher in matchers:
            main = head and matcher in _DEFAULT["matcher"]
            if _has(records, f"placed_{matcher}"):
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


def _has(records: Sequence[Records], column: str) -> bool:
    return all(column in r.columns for r in records)


def _homographies(records: Sequence[Records], matcher: str, estimator: str) -> list[Score]:
    """Numbers of inliers, areas and shares of corner errors.

    Beside them, in groups ``corners=4``, those of the mean over all four corners, where records have it.
    """
    name = f"{matcher}_{estimator}"
    parts: dict[str, Any] = {"matcher": matcher, "estimator": estimator}
    found = _sums(records, lambda r: r[f"inliers_{name}"].astype(float))
    scores = _emit("inliers", found, **parts)
    rules = {"homography_auc": homography_auc, "homography_accuracy": homography_accuracy}
    kinds: list[tuple[str, dict[str, Any]]] = [(f"corner_px_{name}", {})]
    if _has(records, f"corners4_px_{name}"):
        kinds.append((f"corners4_px_{name}", {"corners": 4}))
    more = {format_threshold(float(px)) for px in records[0].meta.get("options", {}).get("tau_px", ())}
    for tau in sorted({*HOMOGRAPHY_PX, *more}):
        for column, extra in kinds:
            default = all(parts[k] in v for k, v in _DEFAULT.items())
            main = tau == HEADLINE_PX and default and not extra
            for metric, rule in rules.items():
                # Both are means over pairs, so the value of one pair is the rule applied to it alone.
                found = _sums(
                    records,
                    lambda r, f=rule, t=tau, c=column: np.array([f([e], t) for e in r[c]]),  # type: ignore[misc]
                )
                scores += _emit(metric, found, headline=main, tau_px=tau, **parts, **extra)
    return scores


def _without_repeats(scores: Sequence[Score]) -> list[Score]:
    return list({(s.metric, s.group): s for s in scores}.values())
