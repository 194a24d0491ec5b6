# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `mmim/homography`: means over categories under `exact`, and the scores that MINIMA prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ...metrics.error_curves import auc_python_sorted
from ..homography.compare import MATCH_PX
from ..homography.score import MMA_PX
from ..scene_means import score_from_scenes

Floats = NDArray[np.float64]
HEADLINE_PX = 10
"""Threshold of the headline in pixels. The truth of most categories is less precise than 3 px."""
EXACT_PX = (3, 5, 10, 20)
MINIMA_PX = (1, 3, 5, 7, 10, 15, 20)
MINIMA_MODALITIES = ("Medical", "RemoteSensing")
"""Modalities that MINIMA reports, each as the mean of its categories."""
NOT_PRINTED = "mean over all categories of Medical and RemoteSensing, which MINIMA does not print"


def category_of(record: Records) -> str:
    """Return the category of a pair, such as `Medical/PD_T1`."""
    return str(record.meta["facts"].get("category", ""))


def mean_over_categories(
    metric: str, records: Sequence[Records], values: Floats, group: str = "all"
) -> Score:
    """Return the mean over categories of the mean over each category's pairs, as a score.

    Image slices with the same number count as one scene.
    """
    categories = sorted({category_of(r) for r in records})
    scenes = sorted({str(r.meta["scene"]) for r in records})
    total, number = np.zeros((2, len(categories), len(scenes)))
    kinds: dict[str, set[str]] = {}
    for r, value in zip(records, values, strict=True):
        kinds.setdefault(str(r.meta["scene"]), set()).add(category_of(r))
        if np.isfinite(value):
            place = categories.index(category_of(r)), scenes.index(str(r.meta["scene"]))
            total[place] += value
            number[place] += 1
    with np.errstate(invalid="ignore"):
        cells = total / number
    used, seen = np.flatnonzero(number.sum(axis=1)), np.flatnonzero(number.sum(axis=0))
    if not len(used):
        return Score(metric, group, float("nan"), 0)
    names = tuple(scenes[i] for i in seen)
    table = SceneValues(
        names,
        tuple(" ".join(sorted(kinds[name])) for name in names),
        cells[np.ix_(used, seen)],
        number[np.ix_(used, seen)],
    )
    return score_from_scenes(metric, group, int(number.sum()), table)


def score_minima(records: Sequence[Records]) -> list[Score]:
    """Compute the scores that MINIMA prints, by category and as float32 means over categories."""
    by_category: dict[str, list[Records]] = {}
    for r in records:
        if str(r.meta["facts"].get("modality", "")) in MINIMA_MODALITIES:
            by_category.setdefault(category_of(r), []).append(r)
    tables = {name: _category(own) for name, own in sorted(by_category.items())}
    if not tables:
        return []
    made = []
    for modality in MINIMA_MODALITIES:
        own = {name: t for name, t in tables.items() if name.startswith(f"{modality}/")}
        if own:
            pairs = sum(len(by_category[name]) for name in own)
            made += _scores(_averaged(list(own.values())), pairs, {"modality": modality})
    for name, table in tables.items():
        made += _scores(table, len(by_category[name]), {"category": name})
    count = sum(map(len, by_category.values()))
    return [*_scores(_averaged(list(tables.values())), count, {}, NOT_PRINTED), *made]


Key = tuple[str, tuple[tuple[str, str], ...]]


def _category(records: Sequence[Records]) -> dict[Key, float]:
    """Return the scores that MINIMA prints for one category, by metric and group parts."""
    errors = np.array([float(r["error_px"][0]) for r in records])
    found: dict[Key, float] = {}
    for t in MINIMA_PX:
        found["auc", (("tau_px", str(t)),)] = auc_python_sorted(errors, t)
    known = [r for r in records if r.meta["within"] is not None]
    matches = np.array([r.meta["matches"] for r in known], np.float64)
    for k, t in enumerate(MATCH_PX):
        near = np.array([r.meta["within"][k] for r in known], np.float64)
        if len(known):
            shares = np.divide(near, matches, out=np.zeros_like(near), where=matches > 0)
            found["mma", (("per", "pair"), ("tau_px", str(t)))] = float(shares.mean())
            total = float(near.sum() / matches.sum()) if matches.sum() else 0.0
            found["mma", (("per", "match"), ("tau_px", str(t)))] = total
    finite = errors[np.isfinite(errors)]
    found["finite_mean_px", ()] = float(finite.mean()) if len(finite) else float("nan")
    return found


def _averaged(tables: Sequence[dict[Key, float]]) -> dict[Key, float]:
    """Return the unweighted mean over categories of each score, in float32."""
    keys = [key for key in tables[0] if all(key in t for t in tables)]
    return {key: float(np.mean(np.array([t[key] for t in tables], np.float32))) for key in keys}


def _scores(table: dict[Key, float], n: int, own: dict[str, str], note: str | None = None) -> list[Score]:
    made = []
    for (metric, parts), value in table.items():
        named = {**own, **dict(parts)}
        headline = {("tau_px", str(HEADLINE_PX)), ("tau_px", str(MMA_PX))} & set(parts)
        if metric == "auc" and ("tau_px", str(HEADLINE_PX)) in headline:
            made.append(Score(metric, group_name(**own), value, n, note=note))
        if metric == "mma" and parts == (("per", "pair"), ("tau_px", str(MMA_PX))):
            made.append(Score(metric, group_name(**own), value, n, note=note))
        made.append(Score(metric, group_name(**named), value, n, note=note))
    return made
