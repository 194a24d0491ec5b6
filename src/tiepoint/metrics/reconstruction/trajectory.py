# SPDX-License-Identifier: BSD-3-Clause
"""Errors of trajectories: absolute and relative pose errors (APE, RPE) of the registered images."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...geometry.quaternions import conjugate, product, quaternions_of, rotated
from ...geometry.similarity import Similarity, umeyama
from .scene import Floats, Integers, PosedScene

ALIGNMENTS = ("none", "rigid", "similarity")
STATISTICS = ("rmse", "mean", "median", "std", "min", "max", "sse")


def trajectory_errors(scene: PosedScene, order: Integers, alignment: str) -> dict[str, Floats]:
    """Return the trajectory errors of the largest model by name, in units of the truth or in degrees.

    `order` (n,) lists the true images in the order of the trajectory. Images without an estimate are skipped.
    The result is empty if no image is registered, a pose is not finite, or the centres are too degenerate to
    align. A single image has no relative errors.
    """
    model = scene.largest
    if model is None:
        return {}
    rank = np.empty(len(scene), np.int64)
    rank[order] = np.arange(len(scene))
    rows = scene.with_truth(model)
    rows = rows[np.argsort(rank[model.image[rows]], kind="stable")]
    if not len(rows) or not model.finite[rows].all():
        return {}
    image = model.image[rows]
    true_q, true_c = conjugate(scene.q[image]), scene.centres[image]
    q, c = conjugate(model.q[rows]), model.centres[rows]
    if alignment != "none":
        sim: Similarity | None = umeyama(c, true_c, with_scale=alignment == "similarity")
        if sim is None:
            return {}
        q, c = product(quaternions_of(sim.R), q), sim.apply(c)
    found = {
        "ape_translation": np.linalg.norm(c - true_c, axis=1),
        "ape_rotation_deg": _degrees(product(conjugate(q), true_q)),
    }
    if len(rows) > 1:
        step_q, step = product(conjugate(q[:-1]), q[1:]), rotated(conjugate(q[:-1]), np.diff(c, axis=0))
        true_step_q = product(conjugate(true_q[:-1]), true_q[1:])
        true_step = rotated(conjugate(true_q[:-1]), np.diff(true_c, axis=0))
        found["rpe_translation"] = np.linalg.norm(step - true_step, axis=1)
        found["rpe_rotation_deg"] = _degrees(product(conjugate(true_step_q), step_q))
    return found


def _degrees(q: Floats) -> Floats:
    return np.rad2deg(2 * np.arctan2(np.linalg.norm(q[:, 1:], axis=1), np.abs(q[:, 0])))


def statistics(errors: Floats) -> Mapping[str, float]:
    """Return the seven statistics of an error array, by name.

    >>> statistics(np.array([3.0, 4.0]))["sse"], statistics(np.array([3.0, 4.0]))["std"]
    (25.0, 0.5)
    """
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mean": float(np.mean(errors)),
        "median": float(np.median(errors)),
        "std": float(np.std(errors)),
        "min": float(np.min(errors)),
        "max": float(np.max(errors)),
        "sse": float(np.sum(errors**2)),
    }
