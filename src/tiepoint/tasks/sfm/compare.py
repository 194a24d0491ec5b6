# SPDX-License-Identifier: BSD-3-Clause
"""Records of a reconstructed scene: the true and the estimated poses, from which all protocols score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.formatting import count_text, first_few
from ...core.records import Records
from ...datasets.reconstructions.names import match_names, match_order
from ...datasets.reconstructions.poses import Poses
from ...datasets.reconstructions.scenes import EstimatedScene, TrueScene
from ...formats.colmap.tables import ModelPoints
from ...geometry.quaternions import camera_centres, conjugate
from ...metrics.reconstruction.relative import pair_angles
from ...metrics.reconstruction.scene import PosedModel, PosedScene

TRUTH = -1
"""Model number of the rows that hold the true poses."""
REGISTERED, INVALID, UNREGISTERED = 0, 1, 2
_INVERTED = 10.0
"""Ratio of median errors above which a model is reported as having inverted poses."""
_INVERTED_DEG = 1.0
_COMPARED = 60
"""Number of images of a model used for the comparison with inverted poses."""


def scene_records(
    true: TrueScene, estimate: EstimatedScene, *, cluster: str = "scene", absolute: str = "none"
) -> Records:
    """Return the records of a scene: one row per image and model, with the true poses first.

    Raises:
        InputError: A file without image names has a different number of poses than the truth.
    """
    known = [*true.poses.names, *true.outliers]
    models, words = _named(true, known, estimate.models)
    others = list(true.outliers)
    others += sorted({n for m in models for n in m.names} - set(known))
    names = [*true.poses.names, *others]
    place = {name: i for i, name in enumerate(names)}
    every = (true.poses, *models)
    image = [np.array([place[n] for n in m.names], np.int64) for m in every]
    state = [np.where(m.registered, np.where(np.isnan(m.q).any(axis=1), 1, 0), 2) for m in every]
    component = np.full(sum(map(len, every)), -1, np.int64)
    component[: len(true.poses)] = true.component
    columns = {
        "model": np.repeat(np.arange(TRUTH, len(models)), [len(m) for m in every]),
        "image": np.concatenate(image),
        "qvec": np.concatenate([m.q for m in every]),
        "tvec": np.concatenate([m.t for m in every]),
        "component": component,
        "state": np.concatenate(state).astype(np.int8),
    }
    meta: dict[str, Any] = {
        "scene": true.name,
        "kind": true.kind,
        "names": names,
        "outliers": len(true.outliers),
        "position_accuracy": true.position_accuracy,
        "unit": true.unit,
        "truth": true.truth,
        "cluster": cluster,
        "absolute": absolute,
        "points": [None if m.points is None else _point_facts(m.points) for m in models],
        "warnings": [],
    }
    records = Records("pair", columns, meta)
    meta["warnings"] = [*words, *_warnings(records, estimate)]
    return records


def _named(true: TrueScene, known: Sequence[str], models: Sequence[Poses]) -> tuple[list[Poses], list[str]]:
    """Return the models with their images named as in the truth, and warnings."""
    words = [w for m in models for w in m.warnings]
    found = list(dict.fromkeys(n for m in models if not m.ordered for n in m.names))
    renamed, way = match_names(known, found)
    if way:
        words.append(f"{true.name}: image names are compared {way}")
    named = []
    for m in models:
        if m.ordered and not true.poses.ordered:
            names = match_order(true.poses.names, len(m), m.place)
            words.append(f"{m.place}: the file has no image names; line i is taken as the i-th image by name")
        elif m.ordered:
            names = match_order(true.poses.names, len(m), m.place)
        else:
            names = [renamed.get(n, n) for n in m.names]
        named.append(Poses(tuple(names), m.q, m.t, m.registered, m.place, points=m.points))
    return named, words


def _point_facts(points: ModelPoints) -> dict[str, float | int | None]:
    """Return the number of 3D points and observations, and the reprojection errors stored in the model."""
    error, length = points.errors, points.lengths
    known = np.isfinite(error) & (error >= 0)
    order = np.argsort(error[known], kind="stable")
    total = np.cumsum(length[known][order])
    return {
        "points": len(error),
        "observations": int(length.sum()),
        "error_mean": float(error[known].mean()) if known.any() else None,
        "error_median": (
            float(error[known][order][np.searchsorted(total, total[-1] / 2)])
            if known.any() and total[-1]
            else None
        ),
    }


def posed_scene(records: Records) -> PosedScene:
    """Return the poses of a scene as arrays, from its records."""
    model, image, state = records["model"], records["image"], records["state"]
    true = model == TRUTH
    n = int(true.sum())
    others = len(records.meta["names"]) - n
    models = []
    for number in range(len(records.meta["points"])):
        own = (model == number) & (state != UNREGISTERED)
        q, t = np.array(records["qvec"][own]), np.array(records["tvec"][own])
        absent = np.array(image[(model == number) & (state == UNREGISTERED)])
        models.append(PosedModel(np.array(image[own]), q, t, absent))
    return PosedScene(
        np.array(records["qvec"][true]),
        np.array(records["tvec"][true]),
        np.array(records["component"][true]),
        np.arange(others) < records.meta["outliers"],
        tuple(models),
        float(records.meta["position_accuracy"] or 0.0),
    )


def _warnings(records: Records, estimate: EstimatedScene) -> list[str]:
    scene, name = posed_scene(records), str(records.meta["scene"])
    names, n = records.meta["names"], len(scene)
    if not estimate.found:
        return [f"{name}: no results; every pair is a miss"]
    if not any(len(m.image) for m in scene.models):
        return [f"{name}: the results have no registered image; every pair is a miss"]
    words = []
    found = np.unique(np.concatenate([m.image for m in scene.models]))
    extra = found[found >= n + records.meta["outliers"]]
    if len(extra) == len(found):
        shown = first_few([names[i] for i in extra], 2)
        words.append(
            f"{name}: no image name occurs in the truth ({shown}; true names: {first_few(names[:n], 2)}); "
            "rename the images"
        )
    elif len(extra):
        are = count_text(len(extra), "image has", "images have")
        words.append(
            f"{name}: {are} no true pose ({first_few([names[i] for i in extra], 3)}); `exact` ignores "
            "them, `colmap` counts their pairs as wrong"
        )
    invalid = int((records["state"] == INVALID).sum())
    if invalid:
        words.append(
            f"{name}: {count_text(invalid, 'pose is', 'poses are')} not finite and counted as missing"
        )
    words += _inverted(scene, name)
    return words


def _inverted(scene: PosedScene, name: str) -> list[str]:
    """Return a warning if the inverted poses of the largest model fit the truth ten times better."""
    model = scene.largest
    if model is None:
        return []
    rows = scene.with_truth(model)
    rows = rows[model.finite[rows]][:: max(1, len(rows) // _COMPARED)]
    if len(rows) < 3:
        return []
    inverse = PosedModel(
        model.image, conjugate(model.q), camera_centres(model.q, model.t), model.unregistered
    )
    given, turned = (_median_error(scene, m, rows) for m in (model, inverse))
    if given < _INVERTED_DEG or turned * _INVERTED > given:
        return []
    return [
        f"{name}: the inverse poses fit the truth {given / max(turned, given / 1e4):.0f} times better "
        f"(median error {turned:.2g}° against {given:.2g}°); are they camera to world? Expected is x_camera "
        "= R x_world + t"
    ]


def _median_error(scene: PosedScene, model: PosedModel, rows: Any) -> float:
    angles = pair_angles(scene, model, rows)
    apart = ~np.eye(len(rows), dtype=bool) & (angles.true > 0)
    with np.errstate(invalid="ignore"):
        errors = np.maximum(angles.rotation, np.nan_to_num(angles.translation, nan=180.0))[apart]
    return float(np.median(errors)) if len(errors) else 0.0
