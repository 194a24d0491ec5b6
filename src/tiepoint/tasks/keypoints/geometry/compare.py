# SPDX-License-Identifier: BSD-3-Clause
"""Records of `keypoints/geometry`: counts, errors and homographies of every image pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.records import Features, Records
from ....geometry.correspondence import OUT_OF_VIEW, answers, centre, covisible, locations
from ....geometry.homography import corner_error, inverse, project
from ....geometry.two_view.homography_errors import (
    corner_distance,
    map_points,
    scaled_homography,
    transfer_distances,
)
from ....geometry.two_view.linear_estimation import HomographyEstimate, estimate_homography
from ....geometry.two_view.pose_estimation import shuffles
from ....metrics.repeatability import matching_accuracy
from ...pairs.data import PairMatches
from ..data import ComparedFeatures
from ..neighbours import MATCHERS, first_neighbours_mutual, select_matches, user_class_matches
from .data import OpenGeometry
from .protocols import HomographyProtocol, HomographySetting
from .score import D2NET, GIVEN, OWN_MATCHER, PRECISION_PX, d2net_thresholds, geometry_thresholds

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
    """Estimate the homography from points (m, 2) of the first image to the second. Also count its inliers.

    Return None and 0 if there are fewer than four matches or the estimator fails. The threshold is part of
    the protocol and the same for every method.
    """
    try:
        import cv2
    except ImportError as e:
        raise InputError("keypoints/geometry needs OpenCV: pip install 'tiepoint[opencv]'") from e
    if len(first) < _MIN_MATCHES:
        return None, 0
    flag = cv2.USAC_MAGSAC if estimator == "magsac" else cv2.RANSAC
    cv2.setRNGSeed(0)  # OpenCV's random state; without it a second call may differ
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
    """Compute the records of a scene: one row per image pair with all its counts and errors.

    If the method returns matches, they are scored as the only matcher, named `given`, and keypoint scores are
    not available.
    """
    sequences, options = opened.sequences, opened.options.settings()
    first, *others = sequences.images(scene)
    limits = geometry_thresholds(options)
    source = None if opened.pairs_as_items else opened.features_of(features, scene, first)
    rows = []
    for k in others:
        h, sizes = sequences.homography(scene, k), opened.pair_sizes(scene, k)
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
    """Count the locations visible in both images, and mutual nearest neighbours within each threshold."""
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
    """Return the counts, accuracy and homography errors of an image pair for every matcher."""
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
    """Return the match count, accuracy and corner errors of a matcher, and the error (px) of each match."""
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
    """Return the mean error of all four corners, even of corners that map outside the image.

    Infinite without a homography.
    """
    found = np.inf if matrix is None else corner_distance(matrix, h, size)
    return float(found) if np.isfinite(found) else np.inf


def compare_d2net(opened: Any, scene: str, features: Features, *, exact: bool = False) -> Records:
    """Compute the share of matches within each threshold, one row per image pair; 0 without matches.

    Args:
        opened: Data of the task.
        scene: Name of the sequence.
        features: Features of the method.
        exact: Whether to use the matches of `exact` instead of D2-Net's.
    """
    sequences = opened.sequences
    _, *others = sequences.images(scene)
    limits = d2net_thresholds(opened.options.settings())
    counts, shares = [], []
    for k in others:
        if exact:
            given = opened.matches(features, scene, k, exact=True)
            x0, x1 = given.points0, given.points1
        else:
            x0, x1 = opened.d2net_matches(features, scene, k)
        away = np.linalg.norm(map_points(sequences.homography(scene, k), x0) - x1, axis=1)
        counts.append(len(x0))
        shares.append(matching_accuracy(np.nan_to_num(away, nan=np.inf), np.array(limits)))
    columns: dict[str, NDArray[Any]] = {
        "matches": np.array(counts, np.int32),
        "accuracy": np.array(shares, np.float64),
    }
    meta = {
        "scene": scene, "kind": sequences.kind(scene), "images": others, "protocol": D2NET,
        "options": opened.options.settings(),
    }  # fmt: skip
    return Records("pair", columns, meta)


ESTIMATE_COLUMNS: Mapping[str, Any] = {
    "pair": np.int16, "setting": np.int16, "repeat": np.int16, "H": np.float64, "ok": bool,
    "inliers": np.int32,
}  # fmt: skip


def compare_homographies(
    opened: Any, scene: str, features: Features, protocol: HomographyProtocol, comparison: str
) -> Records:
    """Estimate the homographies of a scene's image pairs under every setting, one row per estimate.

    A setting may resize the images. The estimated H then maps between the resized images.
    """
    sequences = opened.sequences
    _, *others = sequences.images(scene)
    rows: dict[str, list[Any]] = {name: [] for name in ESTIMATE_COLUMNS}
    about: dict[str, list[Any]] = {"sizes": [], "H": [], "matches": [], "scored": [], "within": []}
    for pair, k in enumerate(others):
        sizes = opened.pair_sizes(scene, k)
        truth = sequences.homography(scene, k)
        given = opened.matches(features, scene, k)
        for number, setting in enumerate(protocol.settings):
            if not is_installed(setting):
                continue
            used = opened.matches(features, scene, k, exact=True) if setting.order == "exact" else given
            for repeat, made in enumerate(_estimates(used, setting, sizes, opened.options, scene, k)):
                values = (pair, number, repeat, made.H.reshape(9), made.ok, made.inliers)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
        about["sizes"].append([list(size) for size in sizes])
        about["H"].append(truth.ravel().tolist())
        about["matches"].append(len(given))
        about["scored"].append(given.confidence is not None)
        about["within"].append(_within(given, protocol.settings[0], sizes, truth))
    columns = {name: np.asarray(values, ESTIMATE_COLUMNS[name]) for name, values in rows.items()}
    columns["H"] = columns["H"].reshape(-1, 9)
    meta = {
        "scene": scene, "kind": sequences.kind(scene), "images": others, "protocol": comparison,
        "options": opened.options.settings(), **about,
    }  # fmt: skip
    return Records("pair", columns, meta)


def is_installed(setting: HomographySetting) -> bool:
    """Return whether the estimator library of a setting is installed. Only pydegensac is optional."""
    return setting.estimator.kind != "degensac" or find_spec("pydegensac") is not None


def _estimates(
    matches: PairMatches, setting: HomographySetting, sizes: Any, options: Any, scene: str, k: str
) -> Iterator[HomographyEstimate]:
    """Yield the homography estimates of an image pair under a setting, one per repeat."""
    if setting.top is not None and matches.confidence is not None:
        matches = matches.best(setting.top, f"{scene}/1-{k}")
    x0, x1 = _in_frame(matches, setting, sizes)
    scale = setting.frame.threshold_unit(sizes)
    estimator = replace(setting.estimator, threshold_px=setting.estimator.threshold_px * scale)
    weighted = matches.confidence is not None and estimator.kind == "dlt"
    for order in _orders(len(matches), setting, options.permutation_seed):
        weights = matches.confidence[order] if weighted and matches.confidence is not None else None
        yield estimate_homography(estimator, x0[order], x1[order], weights=weights)


def _orders(n: int, setting: HomographySetting, seed: int) -> Iterator[NDArray[Any]]:
    if setting.order == "shuffled":
        yield from shuffles(n, setting.repeats, seed)
    else:
        yield from (np.arange(n) for _ in range(setting.repeats))


def _in_frame(
    matches: PairMatches, setting: HomographySetting, sizes: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    dtype = setting.estimator.dtype
    resizes = setting.frame.resizes(sizes, single=dtype == "float32")
    made = [
        points.astype(dtype) * np.asarray(resize.scale, dtype)
        for points, resize in zip((matches.points0, matches.points1), resizes, strict=True)
    ]
    return made[0], made[1]


def _within(
    matches: PairMatches, setting: HomographySetting, sizes: Any, truth: NDArray[np.float64]
) -> list[int]:
    """Count the matches with mean transfer error below each of `PRECISION_PX`, in the setting's units."""
    resizes = setting.frame.resizes(sizes, single=setting.estimator.dtype == "float32")
    with np.errstate(all="ignore"):
        d = transfer_distances(*_in_frame(matches, setting, sizes), scaled_homography(truth, *resizes))
    return [int((d / setting.frame.unit(sizes) < px).sum()) for px in PRECISION_PX]
