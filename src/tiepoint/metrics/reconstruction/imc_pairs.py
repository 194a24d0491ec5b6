# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the Image Matching Challenges 2021 and 2023, from relative poses of unordered pairs."""

from __future__ import annotations

import numpy as np

from ...geometry.quaternions import conjugate, product, rotated
from ..error_curves import maa
from .scene import Floats, Integers, PosedModel, PosedScene

_FLOOR = 1e-15
DEGREES = {"heritage/wall": np.linspace(0.2, 10, 10)}
"""Thresholds of rotation in degrees by `DATASET/SCENE`; all other scenes use 1, 2, …, 10."""
METRES = {
    "urban": (0.5, 5.0),
    "haiper": (0.05, 0.5),
    "heritage/cyprus": (0.1, 2.0),
    "heritage/dioscuri": (0.1, 2.0),
    "heritage/wall": (0.05, 1.0),
}
"""First and last of ten geometric translation thresholds in metres, by `DATASET` or `DATASET/SCENE`."""
USUAL = "haiper"
"""Dataset whose translation thresholds apply to scenes that the challenge does not have."""


def thresholds_2023(scene: str) -> tuple[Floats, Floats, bool]:
    """Return the thresholds of a scene in degrees and metres, and whether the challenge has the scene.

    >>> thresholds_2023("urban/kyiv")[1].round(2)[[0, -1]].tolist(), thresholds_2023("mine")[2]
    ([0.5, 5.0], False)
    """
    key = next((k for k in METRES if scene == k or scene.startswith(f"{k}/")), None)
    metres = METRES[key or USUAL]
    degrees = DEGREES.get(key or "", np.linspace(1, 10, 10))
    return degrees, np.geomspace(*metres, 10), key is not None


def maa_2021(scene: PosedScene) -> tuple[float, float]:
    """Return the mean average accuracies up to 5 and 10 degrees over all pairs of images with truth.

    The error of a pair is the larger of its rotation error and its translation angle, ignoring the sign of
    the translation. Only the model with most images counts; models with a non-finite pose are ignored. A pair
    that is not in the model is a miss.
    """
    n = len(scene)
    valid = [m for m in scene.models if m.finite.all()]
    model = max(valid, key=lambda m: len(m.image), default=None)
    errors = np.full(n * (n - 1) // 2, np.inf)
    if model is not None:
        e_q, e_t, _, covered = _angles(scene, model)
        errors[covered] = np.maximum(e_q, e_t)
    return maa(errors, 5), maa(errors, 10)


def _angles(scene: PosedScene, model: PosedModel) -> tuple[Floats, Floats, Floats, Integers]:
    """Return the errors of all pairs in a model: rotation and translation in degrees, translation in metres.

    Translation errors ignore the sign of the translation; the estimate is scaled to the true length. The last
    array holds the index of each pair among all pairs of the scene.
    """
    rows = scene.with_truth(model)
    a, b = np.triu_indices(len(rows), 1)
    i, j = model.image[rows][a], model.image[rows][b]
    est_q, est_t = _relative(model.q[rows], model.t[rows], a, b)
    true_q, true_t = _relative(scene.q, scene.t, i, j)
    inner = np.abs((est_q * true_q).sum(axis=1))
    e_q = np.arccos(1 - 2 * np.minimum(np.maximum(_FLOOR, 1 - inner**2), 1.0))
    u, v = (x / (np.linalg.norm(x, axis=1, keepdims=True) + _FLOOR) for x in (est_t, true_t))
    e_t = np.arccos(np.sqrt(1 - np.maximum(_FLOOR, 1 - np.minimum((u * v).sum(axis=1) ** 2, 1.0))))
    length = np.linalg.norm(true_t, axis=1)
    scaled = est_t * (length / (np.linalg.norm(est_t, axis=1) + _FLOOR))[:, None]
    metres = np.minimum(np.linalg.norm(true_t - scaled, axis=1), np.linalg.norm(true_t + scaled, axis=1))
    n = len(scene)
    return np.rad2deg(e_q), np.rad2deg(e_t), metres, i * n - i * (i + 1) // 2 + j - i - 1


def _relative(q: Floats, t: Floats, i: Integers, j: Integers) -> tuple[Floats, Floats]:
    turn = product(q[j], conjugate(q[i]))
    return turn, t[j] - rotated(turn, t[i])


def maa_2023(scene: PosedScene, degrees: Floats, metres: Floats) -> tuple[float, float, float]:
    """Return the mean average accuracies of pose, rotation and translation.

    Only the model with most images counts. An image without a pose is placed at the origin without rotation,
    as in submissions to the challenge. NaN if a pose is not finite, because the challenge's tool then fails.
    """
    n = len(scene)
    if n < 2:
        return np.nan, np.nan, np.nan
    q, t = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.zeros((n, 3))
    if scene.largest is not None:
        model = scene.largest
        rows = scene.with_truth(model)
        q[model.image[rows]], t[model.image[rows]] = model.q[rows], model.t[rows]
    if not (np.isfinite(q).all() and np.isfinite(t).all()):
        return np.nan, np.nan, np.nan
    complete = PosedModel(np.arange(n), q, t, np.empty(0, np.int64))
    e_q, _, e_t, _ = _angles(scene, complete)
    right_q, right_t = e_q[:, None] <= degrees, e_t[:, None] <= metres
    both = (right_q & right_t).mean(axis=0).mean(), right_q.mean(axis=0).mean(), right_t.mean(axis=0).mean()
    return float(both[0]), float(both[1]), float(both[2])
