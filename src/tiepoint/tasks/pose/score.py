# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `pose/relative`, computed from its records.

Scores under `exact` have intervals; those under papers' protocols are computed as published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import Score, group_name
from ...metrics.error_curves import accuracy, auc_shares, maa, map_roma
from ...stats.intervals import image_interval
from ...stats.samples import STUDENT_FROM
from ..pairs.score import strata
from ..scene_means import SceneSums, by_scene, micro_score, with_protocol
from .compare import (
    AREAS,
    Floats,
    Poses,
    Rows,
    both_directions,
    counted_pairs,
    counted_rows,
    group_scoring,
    pose_row_errors,
)
from .protocols import PROTOCOLS, THRESHOLDS_DEG, Parts, PoseProtocol, exact_protocol

HEADLINE_DEG = 10
MAA_DEG = 10
PIXELS = (1, 3, 5)
SQUARED = 5e-4


def protocol_of(records: Sequence[Records], name: str) -> PoseProtocol:
    """Return a protocol with the options stored in its records."""
    if name == "exact" and records:
        return exact_protocol(**records[0].meta["exact"])
    return PROTOCOLS[name]


def score(records: Sequence[Records], name: str) -> list[Score]:
    """Return all scores under a protocol."""
    if not records:
        return []
    protocol = protocol_of(records, name)
    poses = Poses(records)
    made = _exact(poses, protocol) if name == "exact" else _as_printed(poses, protocol, name)
    return with_protocol(made, name)


def rows_with(poses: Poses, protocol: PoseProtocol, parts: Parts, budget: int = 0) -> Rows:
    """Return a mask of the rows whose setting has the given group name parts, for one match budget.

    If no setting has exactly these parts, use settings whose parts include them. Budget 0 means all matches.
    """
    same = [i for i, s in enumerate(protocol.settings) if parts == s.parts]
    chosen = same or [i for i, s in enumerate(protocol.settings) if parts.items() <= s.parts.items()]
    return np.isin(poses["setting"], chosen) & (poses["budget"] == budget)


def headline_rows(poses: Poses, protocol: PoseProtocol, budget: int = 0) -> Rows:
    """Return a mask of the rows of the setting that the paper reports for the dataset of each pair.

    If the paper's tool selects the threshold with the best mean AUC on the test set, so does this function.
    """
    rows = np.zeros(len(poses.pair), bool)
    for dataset in np.unique(poses.datasets):
        own = (poses.datasets == dataset)[poses.pair]
        found = own & rows_with(poses, protocol, protocol.parts_of(str(dataset)), budget)
        if dataset in protocol.scoring.best_px:
            found = _best(poses, protocol, found)
        rows |= found
    return rows


def _best(poses: Poses, protocol: PoseProtocol, rows: Rows) -> Rows:
    errors = pose_row_errors(poses, protocol)[2]
    area = AREAS[group_scoring(poses, protocol, rows).area]
    setting = poses["setting"]
    means = {
        number: np.mean([area(errors[rows & (setting == number)], t) for t in THRESHOLDS_DEG])
        for number in np.unique(setting[rows])
    }
    best = max(means, key=lambda number: means[number])
    return rows & (setting == best)


def budgets_of(records: Sequence[Records]) -> list[int]:
    """Return the match budgets in the records; 0 means all matches."""
    return [int(b) for b in records[0].meta["budgets"]]


# as the papers print


def _as_printed(poses: Poses, protocol: PoseProtocol, name: str) -> list[Score]:
    made: list[Score] = []
    errors = pose_row_errors(poses, protocol)
    for budget in budgets_of(poses.records):
        extra: dict[str, Any] = {"budget": budget} if budget else {}
        groups: list[tuple[Parts, Rows]] = [({}, headline_rows(poses, protocol, budget))]
        if len(protocol.settings) > 1:
            groups += [(s.parts, rows_with(poses, protocol, s.parts, budget)) for s in protocol.settings]
        for parts, rows in groups:
            if rows.any():
                made += _areas(poses, protocol, errors, rows, name, {**parts, **extra})
        if name == "roma" and protocol.scoring.again:
            made += _once(poses, protocol, errors[2], groups[0][1], extra)
    made += _of_matches(poses.records, protocol, counted_pairs(poses.records, protocol.scoring))
    return made


def _areas(
    poses: Poses,
    protocol: PoseProtocol,
    errors: tuple[Floats, Floats, Floats],
    rows: Rows,
    name: str,
    parts: Parts,
) -> list[Score]:
    """Return the AUC of one group of rows, and the other scores that the original tool prints."""
    order = counted_rows(poses, protocol.scoring, rows)
    e_t, e_R, e = (a[order] for a in errors)
    n = len(np.unique(poses.pair[order]))
    scoring = group_scoring(poses, protocol, rows)
    area = AREAS[scoring.area]

    def one(metric: str, value: float, **more: Any) -> Score:
        return Score(metric, group_name(**parts, **more), float(value), n)

    areas = {t: area(e, t) for t in THRESHOLDS_DEG}
    made = [one("auc", areas[HEADLINE_DEG])] if not parts else []
    made += [one("auc", value, threshold_deg=t) for t, value in areas.items()]
    made += [one("accuracy", accuracy(e, t, strict=scoring.strict), threshold_deg=t) for t in THRESHOLDS_DEG]
    if name == "roma":
        made += [one("map", map_roma(e, t), threshold_deg=t) for t in THRESHOLDS_DEG]
    if name == "glue-factory":
        made.append(one("mean_auc", float(np.mean(list(areas.values())))))
    if name == "imc":
        made.append(one("maa", _maa_by_scene(poses, order, e)))
    made.append(one("rotation_error_deg", float(np.median(e_R))))
    made.append(one("translation_error_deg", float(np.median(e_t))))
    made.append(one("inliers", float(np.mean(np.asarray(poses["inliers"])[order]))))
    failed = poses.failed[order]
    made.append(one("failures", float(len(np.unique(poses.pair[order][failed])))))
    return made


def _once(
    poses: Poses, protocol: PoseProtocol, errors: Floats, rows: Rows, parts: Mapping[str, Any]
) -> list[Score]:
    """Return the AUC with every repeat counted once, for protocols that count the last repeat twice."""
    area, n = AREAS[protocol.scoring.area], len(np.unique(poses.pair[rows]))
    return [
        Score("auc", group_name(**parts, repeats="once", threshold_deg=t), area(errors[rows], t), n)
        for t in THRESHOLDS_DEG
    ]


def _maa_by_scene(poses: Poses, order: NDArray[np.int64], e: Floats) -> float:
    """Return the mAA at integer degrees, averaged over repeats and then over scenes."""
    scenes = np.array([str(r.meta["scene"]) for r in poses.records])[poses.pair[order]]
    repeat = poses["repeat"][order]
    rows = [
        np.mean([maa(e[(scenes == s) & (repeat == k)], MAA_DEG) for k in np.unique(repeat[scenes == s])])
        for s in np.unique(scenes)
    ]
    return float(np.mean(rows))


def _of_matches(records: Sequence[Records], protocol: PoseProtocol, keep: Rows) -> list[Score]:
    """Return the number, precision and matching score of the matches, averaged over pairs."""
    used = [r for r, k in zip(records, keep, strict=True) if k]
    made = [Score("matches", "all", float(np.mean([r.meta["matches"] for r in used])), len(used))]
    if protocol.precision is None:
        return made
    rule, thresholds = protocol.precision
    for t in thresholds:
        value = float(np.mean([_share(r, rule, t) for r in used]))
        group = "all" if len(thresholds) == 1 else group_name(threshold=f"{t:g}")
        made.append(Score("precision", group, value, len(used)))
    counted = [r for r in used if r.meta["keypoints"]]
    if rule == "squared" and counted:
        made.append(
            Score("matching_score", "all", float(np.mean([_matching(r) for r in counted])), len(counted))
        )
    return made


def _share(record: Records, rule: str, threshold: float) -> float:
    """Return the share of a pair's matches with an epipolar distance below a threshold; 0 without matches."""
    n = int(record.meta["matches"])
    return float(record.meta["precision"][rule][f"{threshold:g}"]) / n if n else 0.0


def _matching(record: Records) -> float:
    """Return the number of correct matches divided by the number of keypoints in the first image."""
    return float(record.meta["precision"]["squared"][f"{SQUARED:g}"]) / max(1, record.meta["keypoints"][0])


def pose_values(
    records: Mapping[str, Records], name: str, metric: str, parts: Mapping[str, str]
) -> dict[str, float]:
    """Return the value that each pair adds to a score, averaged over the pair's rows."""
    listed = list(records.values())
    protocol, poses = protocol_of(listed, name), Poses(listed)
    errors = pose_row_errors(poses, protocol)[2]
    rows = headline_rows(poses, protocol)
    degrees = int(parts.get("threshold_deg", HEADLINE_DEG))
    strict = group_scoring(poses, protocol, rows).strict
    if metric == "auc":
        values = auc_shares(errors, degrees)
    elif metric == "mean_auc":
        values = np.mean([auc_shares(errors, t) for t in THRESHOLDS_DEG], axis=0)
    elif metric == "accuracy":
        values = (errors < degrees if strict else errors <= degrees).astype(np.float64)
    elif metric == "map":
        values = np.mean([errors < t for t in range(5, degrees + 1, 5)], axis=0)
    else:
        values = _maa_shares(errors)
    # Counted in one pass per pair: repeats that count twice appear twice.
    scoring = replace(protocol.scoring, last_duplicate=False)
    order = counted_rows(poses, scoring, rows)
    total = np.bincount(poses.pair[order], weights=values[order], minlength=len(listed))
    count = np.bincount(poses.pair[order], minlength=len(listed))
    with np.errstate(invalid="ignore"):
        return dict(zip(records, (total / count).tolist(), strict=True))


# Scores under `exact`.


def by_seed(poses: Poses, rows: Rows, values: Floats) -> Floats:
    """Arrange the values of rows as a table (seeds, pairs). Missing values are NaN."""
    seeds = int(poses["repeat"].max(initial=0)) + 1
    table = np.full((seeds, len(poses.records)), np.nan)
    table[poses["repeat"][rows], poses.pair[rows]] = values[rows]
    return table


def pair_shares(poses: Poses, errors: Floats, rows: Rows, threshold: float) -> Floats:
    """Return the part of the AUC that each pair contributes, for each seed, (seeds, pairs)."""
    return by_seed(poses, rows, auc_shares(errors, threshold))


def pair_weights(records: Sequence[Records]) -> Floats:
    """Return the weight of each pair: 0.5 for pairs that occur in both directions, otherwise 1."""
    weights = np.ones(len(records))
    for i, j in both_directions(records):
        weights[i] = weights[j] = 0.5
    return weights


def _sums(
    records: Sequence[Records], values: Floats, weights: Floats, chance: float | None = None
) -> SceneSums:
    """Return the weighted sums of values over the pairs of each scene."""
    names, of = np.unique([str(r.meta["scene"]) for r in records], return_inverse=True)
    kind = {str(r.meta["scene"]): str(r.meta["dataset"]) or "other" for r in records}
    known = np.isfinite(values)
    total = np.bincount(of[known], weights=(values * weights)[known], minlength=len(names))
    count = np.bincount(of[known], weights=weights[known], minlength=len(names))
    sums = None if chance is None else np.asarray(chance * count, np.float64)
    counted = np.asarray(count, np.float64)
    scenes = tuple(map(str, names))
    return SceneSums(scenes, tuple(kind[s] for s in scenes), np.asarray(total, np.float64), counted, sums)


def _exact(poses: Poses, protocol: PoseProtocol) -> list[Score]:
    records, weights = poses.records, pair_weights(poses.records)
    errors = pose_row_errors(poses, protocol)
    made: list[Score] = []
    for budget in budgets_of(records):
        extra: dict[str, Any] = {"budget": budget} if budget else {}
        head = headline_rows(poses, protocol, budget)
        made += _exact_group(poses, errors, head, weights, extra, main=not budget)
        for setting in protocol.settings:
            rows = rows_with(poses, protocol, setting.parts, budget)
            made += _exact_group(poses, errors, rows, weights, {**setting.parts, **extra}, main=False)
    made += _exact_matches(records, weights)
    return made


def _exact_group(
    poses: Poses,
    errors: tuple[Floats, Floats, Floats],
    rows: Rows,
    weights: Floats,
    parts: Mapping[str, Any],
    *,
    main: bool,
) -> list[Score]:
    records = poses.records
    note = _note(records)
    e_t, e_R, e = errors
    made: list[Score] = []
    for t in THRESHOLDS_DEG:
        table = pair_shares(poses, e, rows, t)
        values = table.mean(axis=0)
        sums = _sums(records, values, weights, chance=random_pose_auc(t))
        group = group_name(**parts, threshold_deg=t)
        score = _with_images(micro_score("auc", sums, group=group, note=note), records, values, weights)
        made.append(score)
        if main and t == HEADLINE_DEG:
            made.insert(0, replace(score, group="all"))
            made += by_scene("auc", sums)
        made += _spread(table, weights, group)
        if main:
            made += _by_strata(records, values, weights, t)
        right = by_seed(poses, rows, (e < t).astype(np.float64)).mean(axis=0)
        made.append(micro_score("accuracy", _sums(records, right, weights), group=group))
    if not main:
        return made

    def mean(metric: str, values: Floats) -> Score:
        return micro_score(metric, _sums(records, by_seed(poses, rows, values).mean(axis=0), weights))

    made.append(mean("maa", _maa_shares(e)))
    n = len(records)
    for metric, angle in (("rotation_error_deg", e_R), ("translation_error_deg", e_t)):
        made.append(Score(metric, "all", _median(np.median(by_seed(poses, rows, angle), axis=0), weights), n))
    made.append(mean("inliers", poses["inliers"].astype(np.float64)))
    failed = by_seed(poses, rows, poses.failed.astype(np.float64)).max(axis=0)
    made.append(Score("failures", "all", float((failed > 0).sum()), n))
    return made


def _maa_shares(errors: Floats) -> Floats:
    """Return the part that each error in degrees adds to the mean accuracy at 1, 2, …, 10 degrees."""
    share = np.clip(MAA_DEG - np.floor(errors), 0, None) / MAA_DEG + (errors == MAA_DEG) / MAA_DEG
    return np.asarray(share, np.float64)


def _with_images(score: Score, records: Sequence[Records], values: Floats, weights: Floats) -> Score:
    """Return a score with an interval over images, if the run requests it and there are too few scenes."""
    scenes = {str(r.meta["scene"]) for r in records}
    if records[0].meta["cluster"] != "image" or len(scenes) >= STUDENT_FROM:
        return score
    found = image_interval(values, [(r.meta["images"][0], r.meta["images"][1]) for r in records], weights)
    if found is None:
        return score
    said = f"interval over images of {len(scenes)} scene{'s' if len(scenes) > 1 else ''}, not over scenes"
    return replace(score, low=found[0], high=found[1], note=said)


def _median(values: Floats, weights: Floats) -> float:
    """Return the weighted median of the finite values: the lower of two middle values."""
    known = np.isfinite(values)
    order = np.argsort(values[known], kind="stable")
    total = np.cumsum(weights[known][order])
    return float(values[known][order][np.searchsorted(total, total[-1] / 2)]) if known.any() else float("nan")


def _spread(table: Floats, weights: Floats, group: str) -> list[Score]:
    """Return the standard deviation, minimum and maximum of a score over seeds. They are not an interval."""
    if len(table) < 2 or not np.isfinite(table).any():
        return []
    known = np.isfinite(table).all(axis=0)
    scores = (table[:, known] * weights[known]).sum(axis=1) / weights[known].sum()
    found = {"sd": scores.std(ddof=1), "min": scores.min(), "max": scores.max()}
    return [Score(f"auc_seed_{name}", group, float(value), len(table)) for name, value in found.items()]


def _by_strata(records: Sequence[Records], values: Floats, weights: Floats, t: float) -> Iterator[Score]:
    for parts, chosen in strata(records):
        part = np.where(chosen, values, np.nan)
        if np.isfinite(part).any():
            yield micro_score(
                "auc", _sums(records, part, weights), group=group_name(**parts, threshold_deg=t)
            )


def _exact_matches(records: Sequence[Records], weights: Floats) -> list[Score]:
    def mean(metric: str, values: Sequence[float], group: str = "all") -> Score:
        return micro_score(metric, _sums(records, np.array(values, np.float64), weights), group=group)

    made = [mean("matches", [float(r.meta["matches"]) for r in records])]
    made.append(mean("precision", [_share(r, "squared-centred", SQUARED) for r in records]))
    made += [
        mean("epipolar_precision_px", [_share(r, "px", px) for r in records], group_name(tau_px=px))
        for px in PIXELS
    ]
    if any(r.meta["keypoints"] for r in records):
        shares = [_matching(r) if r.meta["keypoints"] else float("nan") for r in records]
        made.append(mean("matching_score", shares))
    return made


def _note(records: Sequence[Records]) -> str | None:
    """Return a note if there are too few scenes for an interval, else None."""
    scenes = {str(r.meta["scene"]) for r in records}
    if len(scenes) >= STUDENT_FROM:
        return None
    names = " and ".join(sorted({str(r.meta["dataset"]) for r in records} - {""})) or "the data"
    return f"{names} has {len(scenes)} scene{'s' if len(scenes) > 1 else ''}; no interval for new scenes"


def random_pose_auc(threshold_deg: float, steps: int = 2000) -> float:
    """Return the AUC of random poses: 1/t times the integral of P(e_R < a) P(e_t < a) over 0 < a < t.

    P(e_R < a) = (a - sin a)/pi for a random rotation, P(e_t < a) = (1 - cos a)/2 for a random direction.

    >>> 1e-6 < random_pose_auc(20) < 1e-4
    True
    """
    a = (np.arange(steps) + 0.5) / steps * np.deg2rad(threshold_deg)
    return float(np.mean((a - np.sin(a)) / np.pi * (1 - np.cos(a)) / 2))
