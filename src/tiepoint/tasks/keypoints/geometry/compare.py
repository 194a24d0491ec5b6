# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/geometry` under `exact`: counts and errors of every image pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.records import Features, Records
from ....geometry.correspondence import OUT_OF_VIEW, answers, centre, covisible, locations
from ....geometry.homography import corner_error, inverse, project
from ....geometry.two_view.homography_errors import corner_distance
from ....metrics.repeatability import matching_accuracy
from ..data import ComparedFeatures
from ..neighbours import MATCHERS, first_neighbours_mutual, select_matches, user_class_matches
from .data import OpenGeometry
from .score import GIVEN, OWN_MATCHER, geometry_thresholds

ESTIMATORS = ("magsac", "ransac")
CONFIDENCE = 0.9999
_MIN_MATCHES = 4
Row = dict[str, Any]
Floats = NDArray[np.float64]


def estimate_exact_homography(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    estimator: str,
    threshold_px: float,
    max_iterations: int,
) -> tuple[NDArray[np.float64] | None, int]:
    """Homography from points (m, 2) of the first image to those of the second, and its number of inliers.

    None and 0 where fewer than four matches exist or the estimator gives up. The threshold is part of the
    protocol and the same for every method.
    """
    try:
        import cv2
    except ImportError as e:
        raise InputError("keypoints/geometry needs OpenCV: pip install 'tiepoint[opencv]'") from e
    if len(first) < _MIN_MATCHES:
        return None, 0
    flag = cv2.USAC_MAGSAC if estimator == "magsac" else cv2.RANSAC
    cv2.setRNGSeed(0)  # RANSAC and USAC start from here; without it a second call may differ
    matrix, inliers = cv2.findHomography(
        np.ascontiguousarray(first, np.float64).reshape(-1, 1, 2),
        np.ascontiguousarray(second, np.float64).reshape(-1, 1, 2),
        flag,
        threshold_px,
        maxIters=max_iterations,
        confidence=CONFIDENCE,
    )
    if matrix is None or not np.isfinite(matrix).all():
        return None, 0
    return np.asarray(matrix, np.float64), int(np.asarray(inliers).sum())


def compare_exact(opened: OpenGeometry, scene: str, features: Features) -> Records:
    """Records of a scene: one row per image pair with all its counts and errors.

    Matches that a method brings are one matcher, `given`; nothing is known then about keypoints.
    """
    sequences, options = opened.sequences, opened.options.settings()
    first, *others = sequences.images(scene)
    limits = geometry_thresholds(options)
    source = None if opened.pairs_as_items else opened.features_of(features, scene, first)
    rows = []
    for k in others:
        h, sizes = sequences.homography(scene, k), (sequences.size(scene, first), sequences.size(scene, k))
        if source is None:
            found = opened.matches(features, scene, k, exact=True)
            rows.append(_matched(GIVEN, found.points0, found.points1, h, sizes, opened.options, limits)[0])
            continue
        target = opened.features_of(features, scene, k)
        row = _detections(source, target, h, sizes, limits)
        rows.append(row | _matches(source, target, h, sizes, opened.options, features.distance, limits))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    meta = {"scene": scene, "kind": sequences.kind(scene), "images": others, "options": options}
    return Records("pair", columns, meta)


def _detections(
    source: ComparedFeatures, target: ComparedFeatures, h: NDArray[np.float64], sizes: Any, limits: Floats
) -> Row:
    """Shared view and one-to-one correspondences of the locations, at every threshold."""
    here, there = locations(source.xy).xy, locations(target.xy).xy
    found = answers(
        h,
        here,
        there,
        source_size=sizes[0],
        target_size=sizes[1],
        tau_px=float(limits.max()),
        policy="mutual",
    )
    back = covisible(inverse(h), there, sizes[1], sizes[0])
    within = found.error_px[:, None] <= limits[None]
    return {
        "visible_first": int((found.status != OUT_OF_VIEW).sum()),
        "visible_second": int(back.visible.sum()),
        "corresponding": within.sum(axis=0),
        "error_sum_px": (within * found.error_px[:, None]).sum(axis=0),
    }


def _matches(
    source: ComparedFeatures,
    target: ComparedFeatures,
    h: Any,
    sizes: Any,
    options: Any,
    distance: str,
    limits: Floats,
) -> Row:
    """Matches of every matcher, their errors, and the homographies estimated from them."""
    found = first_neighbours_mutual(source, target, distance=distance, seed=options.seed)
    places, spots = locations(source.xy).of, locations(target.xy).of
    out: Row = {}
    for matcher in MATCHERS if options.matcher is None else (*MATCHERS, OWN_MATCHER):
        if matcher == OWN_MATCHER:
            matches = user_class_matches(options.matcher, source, target, distance=distance)
        else:
            matches = select_matches(found, matcher, ratio=options.ratio)
        a, b = source.xy[matches.first], target.xy[matches.second]
        row, error = _matched(matcher, a, b, h, sizes, options, limits)
        # A location counts once, whichever of its orientations matched.
        row[f"placed_{matcher}"] = np.array(
            [
                min(len(np.unique(places[matches.first[ok]])), len(np.unique(spots[matches.second[ok]])))
                for ok in (error <= limit for limit in limits)
            ]
        )
        out |= row
    return out


def _matched(
    matcher: str, a: Floats, b: Floats, h: Any, sizes: Any, options: Any, limits: Floats
) -> tuple[Row, Floats]:
    """Number of matches and their shares within the limits, both homographies; and the matches' errors."""
    shown = project(h, a, reference=centre(sizes[0]))
    error = np.nan_to_num(np.linalg.norm(shown - b, axis=1), nan=np.inf)
    out: Row = {f"putative_{matcher}": len(a), f"accuracy_{matcher}": matching_accuracy(error, limits)}
    for estimator in ESTIMATORS:
        matrix, inliers = estimate_exact_homography(
            a, b, estimator=estimator, threshold_px=options.ransac_px, max_iterations=options.max_iterations
        )
        name = f"{matcher}_{estimator}"
        out[f"inliers_{name}"] = inliers
        out[f"corner_px_{name}"] = np.inf if matrix is None else corner_error(matrix, h, sizes[0])
        out[f"corners4_px_{name}"] = _four(matrix, h, sizes[0])
    return out, error


def _four(matrix: Floats | None, h: Any, size: tuple[int, int]) -> float:
    """Mean over all four corners, wherever the truth sends them; infinite without a homography."""
    found = np.inf if matrix is None else corner_distance(matrix, h, size)
    return float(found) if np.isfinite(found) else np.inf
