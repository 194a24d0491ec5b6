# SPDX-License-Identifier: BSD-3-Clause
"""Errors of estimated camera centres, after a similarity has aligned each model with the ground truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...geometry.similarity import Similarity, robust_similarity, umeyama
from .scene import Floats, Integers, PosedModel, PosedScene

MIN_IMAGES = 4
"""Minimum number of images with truth to align a model under `exact`; three fit nearly always."""
Fit = Callable[[Floats, Floats], Similarity | None]


def colmap_centre_errors(scene: PosedScene) -> Floats:
    """Return the sorted errors of camera centres under COLMAP's absolute rule. NaN is last.

    Each model is aligned by LO-RANSAC with the accuracy of the truth as threshold. A model with fewer than
    three inliers is dropped. If a model has images of several true components, only those of the most
    frequent component are correct. All its other images, and images in no model, have an infinite error.
    """
    limit = scene.position_accuracy

    def fit(x: Floats, y: Floats) -> Similarity | None:
        return robust_similarity(x, y, limit)

    found = [e for m in scene.models for e in [_model_errors(scene, m, fit, apart=False)] if e is not None]
    seen = {int(k) for image, _ in found for k in image}
    # Images of a model that is dropped are images without any model.
    absent = len(scene) - len(seen)
    return np.sort(np.concatenate([*(e for _, e in found), np.full(absent, np.inf)]))


def umeyama_centre_errors(scene: PosedScene) -> tuple[Integers, Floats]:
    """Return image index and error of each true image in each model, aligned by least squares.

    If a model has images of several true components, only those of the most frequent component are aligned.
    At least four of them need a finite pose. An image without an estimate has one row with an infinite error.
    """

    def fit(x: Floats, y: Floats) -> Similarity | None:
        known = np.isfinite(x).all(axis=1)
        return umeyama(x[known], y[known]) if known.sum() >= MIN_IMAGES else None

    found = [e for m in scene.models for e in [_model_errors(scene, m, fit, apart=True)] if e is not None]
    seen = np.unique(np.concatenate([i for i, _ in found] or [np.empty(0, np.int64)]))
    absent = np.setdiff1d(np.arange(len(scene)), seen)
    image = np.concatenate([*(i for i, _ in found), absent])
    errors = np.concatenate([*(e for _, e in found), np.full(len(absent), np.inf)])
    return image, np.where(np.isfinite(errors), errors, np.inf)


def _model_errors(
    scene: PosedScene, model: PosedModel, fit: Fit, *, apart: bool
) -> tuple[Integers, Floats] | None:
    """Return image index and error of each image of a model that has truth; None if the alignment fails.

    Only images of the most frequent true component get a finite error. If `apart`, only these images are used
    for the alignment.
    """
    rows = scene.with_truth(model)
    image = model.image[rows]
    if not len(image):
        return None
    x, y, component = model.centres[rows], scene.centres[image], scene.component[image]
    parts, counts = np.unique(component, return_counts=True)
    own = component == parts[np.argmax(counts)]
    aligned = own if apart else np.ones(len(rows), bool)
    sim = fit(x[aligned], y[aligned])
    if sim is None:
        return None
    errors = np.full(len(rows), np.inf)
    errors[own] = np.linalg.norm(sim.apply(x[own]) - y[own], axis=1)
    return image, errors
