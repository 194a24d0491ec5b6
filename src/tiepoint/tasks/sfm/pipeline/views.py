# SPDX-License-Identifier: BSD-3-Clause
"""Cameras and points of a reconstruction for pictures, and the worst image of each scene."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....geometry.quaternions import camera_centres, rotations_of
from ....geometry.similarity import Similarity, umeyama
from ....metrics.reconstruction.relative import exact_errors
from ...scene_views import Camera, SceneView, ViewedModel, WorstImage
from ..compare import REGISTERED, TRUTH, posed_scene
from ..protocols import HEADLINE_DEG

Floats = NDArray[np.float64]
MIN_ALIGNED = 3
MIN_INLIERS = 15
"""Number of verified matches from which COLMAP uses a pair of images (`min_num_matches`)."""
_UP = {**dict.fromkeys((1, 2), (1, -1)), **dict.fromkeys((3, 4), (1, 1))}
_UP |= {**dict.fromkeys((5, 6), (0, -1)), **dict.fromkeys((7, 8), (0, 1))}
"""Axis of the stored image that points up when it is shown, and its sign, by EXIF orientation."""
_OUTLIER = 3.0
"""Cameras with an error above this multiple of the median do not affect the alignment."""


def scene_views(records: Sequence[Records]) -> list[SceneView]:
    """Return one view per scene, from its first seed with a model."""
    chosen: dict[str, Records] = {}
    for record in records:
        scene = str(record.meta["scene"])
        if scene not in chosen or (not _models(chosen[scene]) and _models(record)):
            chosen[scene] = record
    return [scene_view(record) for record in chosen.values()]


def _models(record: Records) -> int:
    return len(record.meta["points"])


def scene_view(record: Records) -> SceneView:
    """Return the view of the scene and seed of one record."""
    names = record.meta["names"]
    true = _cameras(record, TRUTH)
    found = [(_cameras(record, k), _cloud(record, k)) for k in range(_models(record))]
    models = []
    for cameras, cloud in found:
        fit = _alignment(cameras, true)
        models.append(_moved(cameras, cloud, fit))
    truth = [(names[i], c, R) for i, (c, R) in sorted(true.items())]
    shown = [[(names[i], c, R) for i, (c, R) in m[0].items()] for m in models]
    stored = record.meta.get("orientations", {})
    upright = _upright([(R, stored.get(n, 1)) for n, _, R in truth or [c for m in shown for c in m]])
    note = f"seed {record.meta['seed']}, {record.meta['mapper']} mapper"
    if true and models and not all(m[2] for m in models):
        note += "; models with fewer than 3 true images are in their own frame"
    return SceneView(
        str(record.meta["scene"]),
        int(record.meta["seed"]),
        tuple(Camera(n, upright @ c, R @ upright.T) for n, c, R in truth),
        tuple(
            ViewedModel(
                tuple(Camera(n, upright @ c, R @ upright.T) for n, c, R in cameras),
                cloud @ upright.T,
                aligned,
            )
            for cameras, (_, cloud, aligned) in zip(shown, models, strict=True)
        ),
        note,
    )


Placed = dict[int, tuple[Floats, Floats]]


def _cameras(record: Records, model: int) -> Placed:
    own = (record["model"] == model) & (record["state"] == REGISTERED)
    q, t = np.array(record["qvec"][own]), np.array(record["tvec"][own])
    centres, R = camera_centres(q, t), rotations_of(q)
    return {int(i): (centres[k], R[k]) for k, i in enumerate(record["image"][own])}


def _cloud(record: Records, model: int) -> Floats:
    clouds = record.meta["cloud"]
    return np.array(clouds[model] if model < len(clouds) else [], np.float64).reshape(-1, 3)


def _alignment(cameras: Placed, true: Placed) -> Similarity | None:
    """Return the least-squares similarity from estimated to true cameras, fitted again without outliers."""
    common = [i for i in cameras if i in true]
    if len(common) < MIN_ALIGNED:
        return None
    x, y = (np.array([placed[i][0] for i in common]) for placed in (cameras, true))
    fit = umeyama(x, y)
    if fit is None:
        return None
    distance = np.linalg.norm(fit.apply(x) - y, axis=1)
    near = distance <= _OUTLIER * np.median(distance)
    again = umeyama(x[near], y[near]) if near.sum() > MIN_ALIGNED else None
    return again or fit


def _moved(cameras: Placed, cloud: Floats, fit: Similarity | None) -> tuple[Placed, Floats, bool]:
    if fit is None:
        return cameras, cloud, False
    moved = {i: (fit.apply(c[None])[0], R @ fit.R.T) for i, (c, R) in cameras.items()}
    return moved, fit.apply(cloud), True


def _upright(cameras: Sequence[tuple[Floats, int]]) -> Floats:
    """Return the rotation (3, 3) to a frame in which z points up and y is the mean viewing direction.

    `cameras` are (rotation from world to camera, EXIF orientation of the image).
    """
    if not cameras:
        return np.eye(3)
    stack = np.array([R for R, _ in cameras])
    up = np.median([sign * R[axis] for R, tag in cameras for axis, sign in (_UP.get(tag, _UP[1]),)], axis=0)
    up = up / (np.linalg.norm(up) or 1.0)
    ahead = stack[:, 2].mean(axis=0)
    ahead = ahead - (ahead @ up) * up
    if np.linalg.norm(ahead) < 1e-6 or not np.linalg.norm(up):
        return np.eye(3)
    ahead = ahead / np.linalg.norm(ahead)
    return np.array([np.cross(ahead, up), ahead, up])


def worst_images(records: Sequence[Records]) -> list[WorstImage]:
    """Return the worst image of each scene.

    With true poses it has the smallest pose AUC, averaged over seeds. Without, it has the most failed pairs.
    """
    made = []
    for scene in dict.fromkeys(str(r.meta["scene"]) for r in records):
        own = [r for r in records if r.meta["scene"] == scene]
        names, pairs = own[0].meta["images"], _mean_pairs(own)
        areas = np.mean([_areas(r) for r in own], axis=0) if own[0].meta["has_truth"] else None
        if areas is None:
            failures = [sum(i in p[:2] and p[3] < MIN_INLIERS for p in pairs) for i in range(len(names))]
            name, area = names[int(np.argmax(failures))], None
        else:
            true = own[0].meta["names"][: len(areas)]
            k = int(np.argmin(areas))
            name, area = true[k], float(areas[k])
        place = names.index(name) if name in names else -1
        mine = [p for p in pairs if place in p[:2]]
        failed = [(names[p[0] + p[1] - place], int(p[2]), round(p[3])) for p in mine if p[3] < MIN_INLIERS]
        made.append(WorstImage(scene, name, area, len(mine), tuple(sorted(failed, key=lambda f: f[1]))))
    return made


def _mean_pairs(records: Sequence[Records]) -> list[list[float]]:
    """Return [i, j, matches, verified matches] of each image pair. Verified matches are a mean over seeds."""
    table = np.array([r.meta["pairs"] for r in records], np.float64).reshape(len(records), -1, 4)
    return [[int(v) for v in p[:3]] + [float(p[3])] for p in table.mean(axis=0)]


def _areas(record: Records) -> Floats:
    """Return the pose AUC of each true image: the mean over the pairs that contain the image."""
    scene = posed_scene(record)
    errors = exact_errors(scene)
    total = np.zeros(len(scene))
    shares = errors.weight * np.clip(1 - errors.error / HEADLINE_DEG, 0, None)
    np.add.at(total, errors.i, shares)
    np.add.at(total, errors.j, shares)
    same = scene.component[:, None] == scene.component[None]
    return total / np.maximum(2 * (same.sum(axis=1) - 1), 1)
