# SPDX-License-Identifier: BSD-3-Clause
"""Steps from the rules of other benchmarks to `exact`, on the same poses, averaged over scenes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...metrics.reconstruction.areas import auc_colmap
from ...metrics.reconstruction.imc_centres import (
    THRESHOLDS_2025,
    expected_seconds,
    maa_2024,
    scores_2025,
    thresholds_2024,
)
from ...metrics.reconstruction.imc_pairs import maa_2021, maa_2023, thresholds_2023
from ...metrics.reconstruction.relative import MISS, PairErrors, colmap_errors, exact_errors
from ...metrics.reconstruction.scene import Floats, Integers, PosedModel, PosedScene
from ..steps import StepTable
from .compare import posed_scene
from .protocols import DEGREES, HEADLINE_DEG

MAX_SECONDS = 60.0
"""Longest expected time in seconds of protocols that try all triples; beyond it, their table is omitted."""
Steps = list[tuple[str, float]]


def step_tables(records: Sequence[Records]) -> list[StepTable]:
    """Return the tables of steps from `colmap` and the Image Matching Challenges to `exact`."""
    scenes = [posed_scene(r) for r in records]
    names = [str(r.meta["scene"]) for r in records]
    errors = [exact_errors(s) for s in scenes]
    tables = [
        StepTable(
            "auc",
            _means([_from_colmap(s, e, t) for s, e in zip(scenes, errors, strict=True)]),
            f"colmap to exact, threshold_deg={t:g}",
        )
        for t in DEGREES
    ]
    chains: dict[str, Callable[[PosedScene, PairErrors, str], Steps]] = {
        "imc2021": _from_2021,
        "imc2023": _from_2023,
        "imc2024": _from_2024,
        "imc2025": _from_2025,
    }
    for protocol, chain in chains.items():
        count = len(THRESHOLDS_2025)
        if protocol in ("imc2024", "imc2025") and (
            sum(expected_seconds(len(s), count) for s in scenes) > MAX_SECONDS
        ):
            continue
        steps = _means([chain(s, e, n) for s, e, n in zip(scenes, errors, names, strict=True)])
        tables.append(StepTable("auc", steps, f"{protocol} to exact"))
    return tables


def _means(chains: Sequence[Steps]) -> Steps:
    """Return the mean over scenes after each step. Scenes without a value are skipped."""
    table = np.array([[value for _, value in chain] for chain in chains])
    with np.errstate(invalid="ignore"):
        known = np.isfinite(table)
        means = np.where(known, table, 0).sum(axis=0) / known.sum(axis=0)
    return [(step, float(value)) for (step, _), value in zip(chains[0], means, strict=True)]


def _from_colmap(scene: PosedScene, exact: PairErrors, t: float) -> Steps:
    errors = colmap_errors(scene)
    ignored = sum(
        len(m.image) * (len(m.image) - 1) - judged * (judged - 1)
        for m in scene.models
        for judged in [int(_is_judged(scene, m.image).sum())]
    )
    kept = np.delete(errors, np.flatnonzero(errors == MISS)[:ignored])
    return [
        ("colmap", auc_colmap(errors, t, scene.position_accuracy)),
        ("floor: metres of accuracy are no degrees", auc_colmap(errors, t)),
        ("other images: without truth, they are ignored", auc_colmap(kept, t)),
        ("pairs in several models: weight 1", _trapezoid(exact, exact.by_cosine, t)),
        ("angles: stable, 180 without a baseline", _trapezoid(exact, exact.error, t)),
        ("area: exact integral", exact.share(exact.error, t)),
    ]


def _is_judged(scene: PosedScene, image: Integers) -> NDArray[np.bool_]:
    """Return for each image whether it has truth or is an outlier."""
    return np.concatenate([np.ones(len(scene), bool), scene.outlier])[image]


def _trapezoid(exact: PairErrors, errors: Floats, t: float) -> float:
    """Return the trapezoid area under the weighted recall curve up to t, divided by t."""
    values = np.append(errors, MISS)
    weights = np.append(exact.weight, exact.missing + exact.merged)
    order = np.argsort(values, kind="stable")
    values, total = values[order], np.cumsum(weights[order])
    last = int(np.searchsorted(values, t, side="right"))
    recall = np.concatenate([[0.0], total[:last], [total[last - 1] if last else 0.0]]) / total[-1]
    x = np.concatenate([[0.0], values[:last], [t]])
    return float((np.diff(x) * (recall[1:] + recall[:-1])).sum() / 2 / t)


def _from_2021(scene: PosedScene, exact: PairErrors, name: str) -> Steps:
    valid = [m for m in scene.models if m.finite.all()]
    first = max(valid, key=lambda m: len(m.image), default=None)
    return [("imc2021", maa_2021(scene)[0]), *_from_largest(scene, first, exact, _whole_degrees)]


def _from_2023(scene: PosedScene, exact: PairErrors, name: str) -> Steps:
    degrees, metres, _ = thresholds_2023(name)

    def share(errors: PairErrors, values: Floats, misses: int) -> float:
        right = (values[:, None] <= degrees).mean(axis=1)
        return float((errors.weight * right).sum() / (errors.pairs + misses))

    return [
        ("imc2023", maa_2023(scene, degrees, metres)[0]),
        *_from_largest(scene, scene.largest, exact, share),
    ]


def _whole_degrees(errors: PairErrors, values: Floats, misses: int) -> float:
    shares = np.clip(HEADLINE_DEG - np.floor(values), 0, None) / HEADLINE_DEG
    return float((errors.weight * shares).sum() / (errors.pairs + misses))


def _from_largest(
    scene: PosedScene,
    model: PosedModel | None,
    exact: PairErrors,
    share: Callable[[PairErrors, Floats, int], float],
) -> Steps:
    """Return the steps to `exact` from a rule that uses one model and ignores the sign of translations.

    `share` computes the score of errors, with a number of additional misses.
    """
    one = exact_errors(replace(scene, models=() if model is None else (model,)))
    return [
        ("pairs: both directions, angles of degrees", share(one, _folded(one), 0)),
        ("models: all", share(exact, _folded(exact), 0)),
        ("translation: not folded", share(exact, exact.error, 0)),
        ("wrong merges: misses", share(exact, exact.error, exact.merged)),
        (f"area: exact integral up to {HEADLINE_DEG:g} degrees", exact.share(exact.error, HEADLINE_DEG)),
    ]


def _folded(errors: PairErrors) -> Floats:
    folded = np.minimum(errors.translation, 180 - errors.translation)
    error = np.fmax(errors.rotation, folded)
    return np.where(errors.error >= MISS, MISS, error)


def _from_2024(scene: PosedScene, exact: PairErrors, name: str) -> Steps:
    return _from_centres("imc2024", maa_2024(scene, thresholds_2024(name)), exact)


def _from_2025(scene: PosedScene, exact: PairErrors, name: str) -> Steps:
    return _from_centres("imc2025", scores_2025(scene).score, exact)


def _from_centres(name: str, value: float, exact: PairErrors) -> Steps:
    step = "relative poses of pairs: no alignment, rotations count"
    return [(name, value), (step, exact.share(exact.error, HEADLINE_DEG))]
