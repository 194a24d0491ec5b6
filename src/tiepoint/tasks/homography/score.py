# SPDX-License-Identifier: BSD-3-Clause
"""Scores of homography tasks under `exact`: areas under recall curves, correct matches, failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import BELOW_FLOOR, CAUTION, Score, group_name
from ...metrics.error_curves import auc_shares
from ..base import MetricInfo
from ..info import count
from ..pairs.score import count_scores, sums_of
from ..scene_means import micro_score
from .compare import MATCH_PX

Floats = NDArray[np.float64]
Mean = Callable[[str, Sequence[Records], Floats, str], Score]
"""Function that averages one value per record to a score. Arguments: metric, records, values, group."""

MMA_PX = 3
"""Distance in pixels of the score `mma` in the group `all`."""

_AREA = "share of the area under the recall curve of {} up to {} px, {}; a failure counts 0"


def metrics_of(headline_px: int, mean: str = "mean over pairs") -> dict[str, MetricInfo]:
    """Return the descriptions of the metrics, for a task with a given headline threshold and mean."""

    def area(of: str) -> MetricInfo:
        return MetricInfo(
            lambda parts: _AREA.format(of, parts.get("tau_px", headline_px), mean), short=f"@{headline_px} px"
        )

    return {
        "auc": area("the mean error of the four image corners"),
        "landmark_auc": area("the mean distance of the landmarks"),
        "auc_seed_sd": MetricInfo("standard deviation of auc over seeds of the estimator", better="lower"),
        "auc_seed_min": MetricInfo("smallest auc over seeds of the estimator"),
        "auc_seed_max": MetricInfo("largest auc over seeds of the estimator"),
        "corner_px": MetricInfo(
            "median over pairs of the mean error of the four corners, failures infinite",
            unit="px",
            better="lower",
            title="corner error",
        ),
        "landmark_px": MetricInfo(
            "median over pairs of the mean distance of the landmarks, failures infinite",
            unit="px",
            better="lower",
            title="landmark error",
        ),
        "floor_px": MetricInfo(
            "median over pairs of the distance of the landmarks from where the true homography puts them",
            unit="px",
            better=None,
            title="floor of the truth",
        ),
        "mma": MetricInfo(
            lambda parts: (
                f"share of matches within {parts.get('tau_px', MMA_PX)} px of their true position, {mean}; "
                "no matches count 0"
            ),
            short=f"@{MMA_PX} px",
        ),
        "without_model": MetricInfo(
            f"share of estimates without a usable homography, {mean}", better="lower"
        ),
        "failures": MetricInfo(
            "pairs without a usable homography under some seed", unit="count", better="lower"
        ),
        "matches": count("matches, mean over pairs"),
        "inliers": count("matches that agree with H, mean over pairs"),
    }


def mean_over_pairs(metric: str, records: Sequence[Records], values: Floats, group: str = "all") -> Score:
    """Return the mean over pairs as a score."""
    return micro_score(metric, sums_of(records, values), group=group)


def score_exact(
    records: Sequence[Records],
    thresholds: Sequence[int],
    headline: int,
    mean: Mean = mean_over_pairs,
    keys: Sequence[str] = (),
) -> list[Score]:
    """Compute all scores under `exact`.

    Args:
        records: Records of the pairs.
        thresholds: Thresholds in pixels up to which the area under the recall curve is computed.
        headline: Threshold of the scores of group `all`.
        mean: Function that averages over pairs.
        keys: Properties of pairs by which scores are grouped.
    """
    if not records:
        return []
    made = _areas(records, thresholds, headline, mean, {})
    errors = errors_of(records, "error_px")
    if not np.isnan(errors).all():
        made += seed_spread(records, errors, headline, mean)
    made += median_scores(records, "all")
    made += match_scores(records, mean)
    failed = np.array([np.mean(~np.asarray(r["ok"])) for r in records])
    made.append(mean("without_model", records, failed, "all"))
    made += count_scores(records, exact=True)
    made += _by_property(records, thresholds, headline, mean, keys)
    made += _by_pair(records, headline)
    return made


def _areas(
    records: Sequence[Records],
    thresholds: Sequence[int],
    headline: int,
    mean: Mean,
    parts: Mapping[str, str],
) -> list[Score]:
    """Return the areas under the recall curves of one group, from corner and (if known) landmark errors."""
    made = []
    for metric, column in (("auc", "error_px"), ("landmark_auc", "landmark_px")):
        errors = errors_of(records, column)
        if np.isnan(errors).all():
            continue
        made.append(area_score(metric, records, errors, headline, group_name(**parts), mean))
        made += [
            area_score(metric, records, errors, t, group_name(**parts, tau_px=t), mean) for t in thresholds
        ]
    return made


def errors_of(records: Sequence[Records], column: str) -> Floats:
    """Return an error column as a table (repeats, pairs). NaN for pairs without the ground truth for it."""
    repeats = min(len(r) for r in records)
    return np.array([np.asarray(r[column], np.float64)[:repeats] for r in records]).T


def shares_of(errors: Floats, t: float) -> Floats:
    """Return max(0, 1 - e/t) of each error e: 0 for failures (inf), NaN for unknown errors."""
    return np.where(np.isnan(errors), np.nan, auc_shares(errors, t))


def area_score(
    metric: str, records: Sequence[Records], errors: Floats, t: int, group: str, mean: Mean
) -> Score:
    """Return the area under the recall curve of a table of errors, up to t pixels.

    The score gets a caution if the ground truth is less precise than the threshold.
    """
    made = mean(metric, records, shares_of(errors, t).mean(axis=0), group)
    floors = _floors(records)
    known = floors[np.isfinite(floors)]
    if metric == "auc" and len(known) and np.median(known) > t:
        said = f"{CAUTION}{BELOW_FLOOR}: {t} px against a median of {np.median(known):.1f} px ({group})"
        made = replace(made, note="; ".join(p for p in (made.note, said) if p))
    return made


def _floors(records: Sequence[Records]) -> Floats:
    return np.array([np.nan if r.meta["floor_px"] is None else r.meta["floor_px"] for r in records])


def seed_spread(records: Sequence[Records], errors: Floats, t: int, mean: Mean) -> list[Score]:
    """Return the standard deviation, minimum and maximum of `auc` over the seeds of the estimator."""
    if len(errors) < 2:
        return []
    by_seed = np.array([mean("auc", records, shares_of(row, t), "all").value for row in errors])
    found = {"sd": by_seed.std(ddof=1), "min": by_seed.min(), "max": by_seed.max()}
    return [Score(f"auc_seed_{name}", "all", float(value), len(errors)) for name, value in found.items()]


def median_scores(records: Sequence[Records], group: str) -> list[Score]:
    """Return medians over pairs: corner error, landmark error, precision of the ground truth (if known)."""
    made = []
    for metric, column in (("corner_px", "error_px"), ("landmark_px", "landmark_px")):
        errors = np.median(errors_of(records, column), axis=0)
        known = errors[~np.isnan(errors)]
        if len(known):
            made.append(Score(metric, group, float(np.median(known)), len(known)))
    floors = _floors(records)
    known = floors[np.isfinite(floors)]
    if len(known):
        made.append(Score("floor_px", group, float(np.median(known)), len(known)))
    return made


def match_scores(records: Sequence[Records], mean: Mean, group: str = "all") -> list[Score]:
    """Return `mma` (share of correct matches) at each distance. Empty for methods without matches."""
    known = [r for r in records if r.meta["within"] is not None]
    if not known:
        return []
    made = []
    for k, t in enumerate(MATCH_PX):
        values = np.array([r.meta["within"][k] / max(r.meta["matches"], 1) for r in known])
        if t == MMA_PX:
            made.append(mean("mma", known, values, group))
        if group == "all":
            made.append(mean("mma", known, values, group_name(tau_px=t)))
    return made


def _by_property(
    records: Sequence[Records], thresholds: Sequence[int], headline: int, mean: Mean, keys: Sequence[str]
) -> list[Score]:
    """Return area, median and match scores of groups of pairs that share a property, such as a category."""
    made = []
    for key in keys or sorted({k for r in records for k in r.meta["facts"]}):
        values = [str(r.meta["facts"].get(key, "")) for r in records]
        for value in sorted(set(values) - {""}):
            own = [r for r, v in zip(records, values, strict=True) if v == value]
            made += _areas(own, thresholds, headline, mean, {key: value})
            made += median_scores(own, group_name(**{key: value}))
            made += match_scores(own, mean, group_name(**{key: value}))
    return made


def _by_pair(records: Sequence[Records], headline: int) -> list[Score]:
    """Return, for each pair, the area under its recall curve and the precision of its ground truth."""
    has_corners = [not np.isnan(r["error_px"]).any() for r in records]
    found = [
        Score("auc" if corners else "landmark_auc", group_name(pair=name), value, 1)
        for (name, value), corners in zip(pair_areas(records, headline), has_corners, strict=True)
    ]
    floors = {str(r.meta["pair"]): r.meta["floor_px"] for r in records}
    return [
        *found,
        *(Score("floor_px", group_name(pair=k), v, 1) for k, v in floors.items() if v is not None),
    ]


def pair_areas(records: Sequence[Records], headline: int) -> list[tuple[str, float]]:
    """Return the name and the area under the recall curve of each pair, averaged over seeds.

    The errors are corner errors, or landmark errors if the corner errors are unknown.
    """
    corner, marks = errors_of(records, "error_px"), errors_of(records, "landmark_px")
    values = shares_of(np.where(np.isnan(corner), marks, corner), headline).mean(axis=0)
    return [(str(r.meta["pair"]), float(v)) for r, v in zip(records, values, strict=True)]
