# SPDX-License-Identifier: BSD-3-Clause
"""Compare estimated homographies with true ones and with landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays, Records
from ...datasets.image_pairs.ground_truth import PairTruth
from ...datasets.image_pairs.pair import ImagePair
from ...datasets.image_pairs.planes import floor_px
from ...geometry.homography import project
from ...geometry.two_view.homography_errors import is_usable, named_corner_error, point_distances
from ...geometry.two_view.linear_estimation import (
    HomographyEstimate,
    HomographyEstimator,
    estimate_homography,
)
from ..pairs.data import matches_in_frame, matches_of
from ..pairs.score import model_facts, pair_facts

Floats = NDArray[np.float64]
MATCH_PX = (1, 3, 5)
"""Distances in pixels up to which a match is correct."""


def exact_homographies(pair: ImagePair, arrays: Arrays, options: Any) -> list[HomographyEstimate]:
    """Return the homography that a method provides, or one estimate from its matches for every seed."""
    if "H" in arrays:
        return [given_homography(arrays)]
    x0, x1, s0, s1 = matches_in_frame(pair, matches_of(arrays, pair.name), options.side_px)
    estimator = HomographyEstimator("poselib", options.threshold_px, 0.9999, 100_000)
    found = []
    for seed in range(options.seeds):
        made = estimate_homography(estimator, x0, x1, seed=seed)
        found.append(HomographyEstimate(np.linalg.inv(s1) @ made.H @ s0, made.inliers, made.ok, made.reason))
    return found


def given_homography(arrays: Arrays) -> HomographyEstimate:
    """Return the homography that a method provides."""
    H = np.asarray(arrays["H"], np.float64)
    ok = bool(np.isfinite(H).all() and H.any())
    return HomographyEstimate(H, 0, ok, "" if ok else "no H was given")


def compare_exact(truth: PairTruth, arrays: Arrays, options: Any) -> Records:
    """Compute the result records of a pair under `exact`: the errors of the homographies of every seed."""
    found = exact_homographies(truth.pair, arrays, options)
    size = truth.pair.sizes()[0]
    ok = [h.ok and is_usable(h.H, size) for h in found]
    H, landmarks = truth.annotations.get("H"), truth.annotations.get("landmarks")
    models = [h.H for h in found]
    columns = model_columns(models, ok)
    columns["error_px"] = (
        np.full(len(found), np.nan)
        if H is None
        else np.array(
            [named_corner_error(m, H, size) if o else np.inf for m, o in zip(models, ok, strict=True)]
        )
    )
    columns["landmark_px"] = landmark_errors(models, ok, landmarks)
    meta = plane_meta(truth, arrays, found)
    meta["ok"] = ok
    return Records("pair", columns, meta)


def model_columns(models: Sequence[Floats], ok: Sequence[bool]) -> dict[str, NDArray[Any]]:
    """Return the record columns of the estimated homographies."""
    return {
        "repeat": np.arange(len(models), dtype=np.int16),
        "H": np.array([np.asarray(m).ravel() for m in models], np.float64).reshape(len(models), 9),
        "ok": np.array(ok, bool),
    }


def landmark_errors(models: Sequence[Floats], ok: Sequence[bool], landmarks: Floats | None) -> Floats:
    """Return the mean landmark distance of each homography; inf if `ok` is false, NaN without landmarks."""
    if landmarks is None or not len(landmarks):
        return np.full(len(models), np.nan)
    errors = [
        float(point_distances(m, landmarks[:, :2], landmarks[:, 2:]).mean()) if o else np.inf
        for m, o in zip(models, ok, strict=True)
    ]
    return np.nan_to_num(np.array(errors, np.float64), nan=np.inf)


def plane_meta(
    truth: PairTruth, arrays: Arrays, found: Sequence[HomographyEstimate], *, behind: bool = False
) -> dict[str, Any]:
    """Return the metadata of a pair's records: facts about pair, homographies, truth and correct matches.

    With `behind`, points behind the camera count as if they were in front of it.
    """
    pair, H = truth.pair, truth.annotations.get("H")
    sizes = pair.sizes()
    floor = floor_px(truth)
    return {
        **pair_facts(pair),
        **model_facts(pair, arrays, found, given="H" in arrays),
        "images": list(pair.image_names()),
        "sizes": [list(size) for size in sizes],
        "truth": None if H is None else np.asarray(H, np.float64).ravel().tolist(),
        "floor_px": None if np.isnan(floor) else floor,
        "within": None if H is None else _within(H, arrays, pair, behind=behind),
    }


def _within(H: Floats, arrays: Arrays, pair: ImagePair, *, behind: bool) -> list[int] | None:
    """Return how many matches lie within each distance of `MATCH_PX` of their true position.

    None without matches. With `behind`, points behind the camera count as if they were in front of it.
    """
    if "points0" not in arrays and "flow" not in arrays:
        return None
    matches = matches_of(arrays, pair.name)
    if behind:
        distances = point_distances(H, matches.points0, matches.points1)
    else:
        width, height = pair.sizes()[0]
        there = project(H, matches.points0, reference=((width - 1) / 2, (height - 1) / 2))
        distances = np.linalg.norm(there - matches.points1, axis=1)
    with np.errstate(invalid="ignore"):
        return [int((distances <= t).sum()) for t in MATCH_PX]
