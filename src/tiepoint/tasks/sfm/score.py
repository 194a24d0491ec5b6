# SPDX-License-Identifier: BSD-3-Clause
"""Scores of reconstructions, computed from their records under `exact` and the rules of other benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.formatting import count_text
from ...core.records import Records
from ...core.scores import CAUTION, SceneValues, Score, group_name
from ...metrics.reconstruction.areas import auc_colmap, recall
from ...metrics.reconstruction.centres import colmap_centre_errors, umeyama_centre_errors
from ...metrics.reconstruction.imc_centres import maa_2024, scores_2025, thresholds_2024
from ...metrics.reconstruction.imc_pairs import maa_2021, maa_2023, thresholds_2023
from ...metrics.reconstruction.relative import QUARTERS, PairErrors, colmap_errors, exact_errors
from ...metrics.reconstruction.scene import Floats, PosedScene
from ...metrics.reconstruction.trajectory import ALIGNMENTS, STATISTICS, statistics, trajectory_errors
from ...stats.intervals import image_interval
from ...stats.samples import STUDENT_FROM
from ..pose.score import random_pose_auc
from ..scene_means import score_from_scenes, with_protocol
from .compare import INVALID, posed_scene
from .protocols import (
    DEGREES,
    DISTANCES,
    HEADLINE_DEG,
    HEADLINE_DISTANCE,
    HEADLINE_SHARE,
    SHARES,
)

Column = tuple[str, str]
TRAJECTORY_METRICS = ("ape_translation", "ape_rotation_deg", "rpe_translation", "rpe_rotation_deg")


def score(records: Sequence[Records], protocol: str) -> list[Score]:
    """Return all scores under a protocol."""
    if not records:
        return []
    scenes = _Scenes(records)
    return with_protocol(_RULES[protocol](scenes), protocol)


class _Scenes:
    """Scenes of a run, with functions that return means over them as scores."""

    def __init__(self, records: Sequence[Records]) -> None:
        self.records = records
        self.names = tuple(str(r.meta["scene"]) for r in records)
        self.kinds = tuple(str(r.meta["kind"]) for r in records)
        self.posed = [posed_scene(r) for r in records]

    def mean(
        self, metric: str, values: Sequence[float], n: int, *, by_kind: bool = False, **more: Any
    ) -> Score:
        """Return the mean over scenes with a value as a score.

        If `by_kind`, every kind has the same weight.
        """
        group = more.pop("group", "all")
        table = np.array([values], np.float64)
        missing = int((~np.isfinite(table)).sum())
        if missing and missing < table.size:
            left = f"{CAUTION}{missing} of {count_text(table.size, 'scene has', 'scenes have')} no value"
            more["note"] = "; ".join(filter(None, (more.get("note"), left)))
        weights = None
        if by_kind:
            sizes = {k: sum(np.isfinite(table[0]) & (np.array(self.kinds) == k)) for k in set(self.kinds)}
            weights = np.array([[1.0 / max(1, sizes[k]) for k in self.kinds]])
        return score_from_scenes(
            metric, group, n, SceneValues(self.names, self.kinds, table, weights), **more
        )

    def each(self, metric: str, values: Sequence[float], counts: Sequence[int]) -> list[Score]:
        """Return the value of each scene as a score, and of each kind if there are several."""
        made = [
            Score(metric, group_name(scene=name), float(v), int(n))
            for name, v, n in zip(self.names, values, counts, strict=True)
            if np.isfinite(v)
        ]
        if len(set(self.kinds)) > 1:
            for kind in sorted(set(self.kinds)):
                own = [v for v, k in zip(values, self.kinds, strict=True) if k == kind and np.isfinite(v)]
                if own:
                    made.append(Score(metric, group_name(kind=kind), float(np.mean(own)), len(own)))
        return made

    def at_thresholds(
        self,
        metric: str,
        value: Callable[[int, float], float],
        counts: Sequence[int],
        key: str,
        thresholds: Sequence[float],
        headline: float,
        note: Callable[[float], Mapping[str, Any]] = lambda t: {},
    ) -> list[Score]:
        """Return the scores of a metric at each threshold: all scenes, then by scene.

        The first one is that of the headline threshold, as group `all`. `value` is a function of scene index
        and threshold.
        """
        made: list[Score] = []
        for t in thresholds:
            values = [value(k, t) for k in range(len(self.records))]
            one = self.mean(metric, values, sum(counts), group=group_name(**{key: f"{t:g}"}), **note(t))
            if t == headline:
                made = [replace(one, group="all"), *self.each(metric, values, counts), *made]
            made.append(one)
        return made


# exact


def _exact(scenes: _Scenes) -> list[Score]:
    errors = [exact_errors(s) for s in scenes.posed]
    pairs = [e.total for e in errors]
    made: list[Score] = []
    angles: dict[str, Callable[[PairErrors], Floats]] = {
        "auc": lambda e: e.error,
        "auc_rotation": lambda e: e.rotation,
        "auc_translation": lambda e: e.translation,
    }
    for metric, of in angles.items():

        def area(k: int, t: float, of: Callable[[PairErrors], Floats] = of) -> float:
            return _area(errors[k], of(errors[k]), t)

        chance: Callable[[float], Mapping[str, Any]] = (
            (lambda t: {"chance": random_pose_auc(t)}) if metric == "auc" else (lambda t: {})
        )
        made += scenes.at_thresholds(metric, area, pairs, "threshold_deg", DEGREES, HEADLINE_DEG, chance)
    made[0] = _with_images(made[0], scenes, errors)
    made += scenes.at_thresholds(
        "accuracy", lambda k, t: _accuracy(errors[k], t), pairs, "threshold_deg", DEGREES, HEADLINE_DEG
    )
    for quarter in range(QUARTERS):
        values = [_quarter(e, quarter) for e in errors]
        counts = int(sum(e.quarter_pairs[quarter] for e in errors))
        made.append(scenes.mean("auc", values, counts, group=group_name(baseline=quarter + 1)))
    for metric, of in (
        ("rotation_error_deg", lambda e: e.rotation),
        ("translation_error_deg", lambda e: e.translation),
    ):
        made.append(scenes.mean(metric, [e.median(of(e)) for e in errors], sum(pairs)))
    made += _registration(scenes)
    made += _points(scenes)
    made += _counts(scenes, errors)
    if scenes.records[0].meta["absolute"] == "umeyama":
        made += _absolute(scenes)
    return made


def _area(errors: PairErrors, values: Floats, threshold: float) -> float:
    """Return the AUC of a scene up to a threshold. Pairs with NaN, such as short baselines, are excluded."""
    kept = ~np.isnan(values)
    total = errors.weight[kept].sum() + errors.missing + errors.merged
    if not total:
        return float("nan")
    shares = np.clip(1 - values[kept] / threshold, 0, None)
    return float((errors.weight[kept] * shares).sum() / total)


def _accuracy(errors: PairErrors, threshold: float) -> float:
    return float(errors.weight[errors.error < threshold].sum() / errors.total)


def _quarter(errors: PairErrors, quarter: int) -> float:
    own = errors.quarter == quarter
    if not errors.quarter_pairs[quarter]:
        return float("nan")
    shares = np.clip(1 - errors.error[own] / HEADLINE_DEG, 0, None)
    return float((errors.weight[own] * shares).sum() / errors.quarter_pairs[quarter])


def _with_images(one: Score, scenes: _Scenes, errors: Sequence[PairErrors]) -> Score:
    """Return a score with an interval over images, if the run requests it and there are too few scenes."""
    if scenes.records[0].meta["cluster"] != "image" or len(scenes.names) >= STUDENT_FROM:
        return one
    values: list[float] = []
    images: list[tuple[str, str]] = []
    weights: list[float] = []
    labels: list[str] = []
    for name, posed, e in zip(scenes.names, scenes.posed, errors, strict=True):
        n = len(posed)
        total = np.zeros((n, n))
        np.add.at(total, (e.i, e.j), e.weight * np.clip(1 - e.error / HEADLINE_DEG, 0, None))
        i, j = np.nonzero(np.triu(posed.component[:, None] == posed.component[None], 1))
        values += ((total + total.T)[i, j] / 2).tolist()
        images += [(f"{name}/{a}", f"{name}/{b}") for a, b in zip(i.tolist(), j.tolist(), strict=True)]
        weights += [1.0 / len(i)] * len(i)
        labels += [name] * len(i)
    found = image_interval(np.array(values), images, np.array(weights), classes=labels)
    if found is None:
        return one
    few = count_text(len(scenes.names), "scene")
    return replace(one, low=found[0], high=found[1], note=f"interval over images of {few}, not over scenes")


def _registration(scenes: _Scenes) -> list[Score]:
    images = sum(map(len, scenes.posed))
    return [
        scenes.mean("registered", [_registered(s) / len(s) for s in scenes.posed], images),
        scenes.mean("largest", [_largest(s) / len(s) for s in scenes.posed], images),
        scenes.mean("models", [float(_models(s)) for s in scenes.posed], len(scenes.posed)),
    ]


def _registered(scene: PosedScene) -> int:
    """Return the number of true images with a finite pose in some model."""
    found = [m.image[m.finite & (m.image < len(scene))] for m in scene.models]
    return len(np.unique(np.concatenate(found))) if found else 0


def _largest(scene: PosedScene) -> int:
    return max((int((m.finite & (m.image < len(scene))).sum()) for m in scene.models), default=0)


def _models(scene: PosedScene) -> int:
    return sum(len(m.image) > 0 for m in scene.models)


def _points(scenes: _Scenes) -> list[Score]:
    """Return scores of the 3D points as stored in the models. Scenes without stored points have no value."""
    facts = [[p for p in r.meta["points"] if p is not None] for r in scenes.records]
    if not any(facts):
        return []

    def total(key: str, own: Sequence[Mapping[str, Any]]) -> float:
        return float(sum(p[key] for p in own)) if own else float("nan")

    def mean(key: str, weight: str, own: Sequence[Mapping[str, Any]]) -> float:
        known = [p for p in own if p[key] is not None and p[weight]]
        if not known:
            return float("nan")
        return float(np.average([p[key] for p in known], weights=[p[weight] for p in known]))

    points = [total("points", own) for own in facts]
    seen = [total("observations", own) for own in facts]
    images = [float(sum(int(m.finite.sum()) for m in s.models)) for s in scenes.posed]
    rows = {
        ("points", "all"): points,
        ("track_length", "all"): [s / p if p else float("nan") for s, p in zip(seen, points, strict=True)],
        ("observations_per_image", "all"): [
            s / i if i else float("nan") for s, i in zip(seen, images, strict=True)
        ],
        ("reprojection_error_px", "all"): [mean("error_median", "observations", own) for own in facts],
        ("reprojection_error_px", "over=points"): [mean("error_mean", "points", own) for own in facts],
    }
    made = []
    for (metric, group), values in rows.items():
        if np.isfinite(values).any():
            made.append(scenes.mean(metric, values, int(np.nansum(points)), group=group))
    return made


def _counts(scenes: _Scenes, errors: Sequence[PairErrors]) -> list[Score]:
    invalid = sum(int((r["state"] == INVALID).sum()) for r in scenes.records)
    extra = sum(_without_truth(s) for s in scenes.posed)
    found = {
        "failures": sum(e.failed for e in errors),
        "merged_pairs": sum(e.merged for e in errors),
        "short_baselines": sum(e.short for e in errors),
        "invalid_poses": invalid,
        "without_truth": extra,
    }
    return [
        Score(metric, "all", float(value), sum(e.total for e in errors)) for metric, value in found.items()
    ]


def _without_truth(scene: PosedScene) -> int:
    found = [m.image[m.image >= len(scene)] - len(scene) for m in scene.models]
    return int((~scene.outlier[np.unique(np.concatenate(found))]).sum()) if found else 0


def _absolute(scenes: _Scenes) -> list[Score]:
    """Return the AUC of camera centre errors at each threshold, after a least-squares similarity.

    Thresholds are in the unit of the data, if it states one; else they are shares of the extent of the scene.
    """
    errors = [umeyama_centre_errors(s) for s in scenes.posed]
    images = [len(s) for s in scenes.posed]
    known = all(r.meta["unit"] for r in scenes.records)

    def area(k: int, t: float) -> float:
        image, e = errors[k]
        limit = t if known else t * scenes.posed[k].extent
        shares = np.clip(1 - e / limit, 0, None) if limit else np.zeros(len(e))
        count = np.bincount(image, minlength=images[k])
        return float((shares / count[image]).sum() / images[k])

    if known:
        key, thresholds, headline = "threshold", DISTANCES, HEADLINE_DISTANCE
    else:
        key, thresholds, headline = "extent", SHARES, HEADLINE_SHARE
    note = {"note": "least squares: one wrong camera moves all"}
    return scenes.at_thresholds("absolute_auc", area, images, key, thresholds, headline, lambda t: note)


# rules of other benchmarks


def _colmap(scenes: _Scenes) -> list[Score]:
    errors = [colmap_errors(s) for s in scenes.posed]
    limits = [s.position_accuracy for s in scenes.posed]
    counts = [len(e) for e in errors]
    pooled, least = np.sort(np.concatenate(errors)), min(limits)
    made = scenes.at_thresholds(
        "auc",
        lambda k, t: auc_colmap(errors[k], t, limits[k]),
        counts,
        "threshold_deg",
        DEGREES,
        HEADLINE_DEG,
    )
    made += scenes.at_thresholds(
        "accuracy", lambda k, t: recall(errors[k], t), counts, "threshold_deg", DEGREES, HEADLINE_DEG
    )
    for t in DEGREES if len(errors) > 1 else ():
        group = group_name(threshold_deg=f"{t:g}", weighting="pairs")
        made.append(Score("auc", group, auc_colmap(pooled, t, least), len(pooled)))
        made.append(Score("accuracy", group, recall(pooled, t), len(pooled)))
    return [*made, *_registration(scenes)]


def _colmap_absolute(scenes: _Scenes) -> list[Score]:
    unknown = [n for n, s in zip(scenes.names, scenes.posed, strict=True) if not s.position_accuracy]
    if unknown:
        raise InputError(
            f"colmap-absolute aligns with the accuracy of the truth, which {unknown[0]} does not state; "
            "pass `position_accuracy` in units of the truth, such as 0.001"
        )
    errors = [colmap_centre_errors(s) for s in scenes.posed]
    counts = [len(e) for e in errors]
    limits = [s.position_accuracy for s in scenes.posed]
    made = scenes.at_thresholds(
        "absolute_auc",
        lambda k, t: auc_colmap(errors[k], t, limits[k]),
        counts,
        "threshold",
        DISTANCES,
        HEADLINE_DISTANCE,
    )
    made += scenes.at_thresholds(
        "absolute_accuracy",
        lambda k, t: recall(errors[k], t),
        counts,
        "threshold",
        DISTANCES,
        HEADLINE_DISTANCE,
    )
    return [*made, *_registration(scenes)]


def _imc2021(scenes: _Scenes) -> list[Score]:
    found = [maa_2021(s) for s in scenes.posed]
    counts = [len(s) * (len(s) - 1) // 2 for s in scenes.posed]
    ten = [b for _, b in found]
    made = [scenes.mean("maa", ten, sum(counts)), *scenes.each("maa", ten, counts)]
    made.append(scenes.mean("maa", [a for a, _ in found], sum(counts), group=group_name(max_deg=5)))
    return [*made, *_registration(scenes)]


def _imc2023(scenes: _Scenes) -> list[Score]:
    rules = [thresholds_2023(name) for name in scenes.names]
    found = [maa_2023(s, *r[:2]) for s, r in zip(scenes.posed, rules, strict=True)]
    counts = [len(s) * (len(s) - 1) // 2 for s in scenes.posed]
    known = all(r[2] for r in rules)
    note = {} if known else {"note": "thresholds of the dataset haiper: 1 to 10 degrees, 0.05 to 0.5 m"}
    made = []
    for i, metric in enumerate(("maa", "maa_rotation", "maa_translation")):
        values = [f[i] for f in found]
        made.append(scenes.mean(metric, values, sum(counts), by_kind=True, **note))
        made += scenes.each(metric, values, counts)
    return [*made, *_registration(scenes)]


def _imc2024(scenes: _Scenes) -> list[Score]:
    values = [maa_2024(s, thresholds_2024(n)) for s, n in zip(scenes.posed, scenes.names, strict=True)]
    counts = [len(s) for s in scenes.posed]
    made = [scenes.mean("maa", values, sum(counts), by_kind=True), *scenes.each("maa", values, counts)]
    return [*made, *_registration(scenes)]


def _imc2025(scenes: _Scenes) -> list[Score]:
    found = [scores_2025(s) for s in scenes.posed]
    counts = [len(s) for s in scenes.posed]
    made = []
    for i, metric in enumerate(("maa_clusterness", "maa", "clusterness")):
        values = [f[i] for f in found]
        made += [scenes.mean(metric, values, sum(counts)), *scenes.each(metric, values, counts)]
    return [*made, *_registration(scenes)]


def _evo(scenes: _Scenes) -> list[Score]:
    made: list[Score] = []
    for alignment in reversed(ALIGNMENTS):
        found = [
            trajectory_errors(s, np.argsort(r.meta["names"][: len(s)]), alignment)
            for s, r in zip(scenes.posed, scenes.records, strict=True)
        ]
        for metric in TRAJECTORY_METRICS:
            values = [statistics(f[metric]) if metric in f else None for f in found]
            counts = [len(f.get(metric, ())) for f in found]
            for name in STATISTICS:
                one = [float("nan") if v is None else v[name] for v in values]
                group = group_name(alignment=alignment, statistic=name)
                made.append(scenes.mean(metric, one, sum(counts), group=group))
    usual = group_name(alignment="similarity", statistic="rmse")
    first = [replace(s, group="all") for s in made if s.group == usual]
    return [*first, *made, *_registration(scenes)]


_RULES: dict[str, Callable[[_Scenes], list[Score]]] = {
    "exact": _exact,
    "colmap": _colmap,
    "colmap-absolute": _colmap_absolute,
    "imc2021": _imc2021,
    "imc2023": _imc2023,
    "imc2024": _imc2024,
    "imc2025": _imc2025,
    "evo": _evo,
}
