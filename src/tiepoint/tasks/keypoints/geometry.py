# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/geometry`: the geometric numbers: repeatability, matching score, MMA, homographies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, computed_field

from ...geometry.correspondence import OUT_OF_VIEW, answers, locations
from ...geometry.covisibility import centre, covisible
from ...geometry.homography import corner_error, inverse, project
from ...metrics.repeatability import matching_accuracy
from ...model.errors import InputError
from ...model.records import Records
from ...model.units import Features
from ..base import MetricInfo, TaskInfo
from .geometry_scores import OWN_MATCHER, THRESHOLDS_PX, score_exact
from .matchers import MATCHERS, matcher_hash, neighbours, select, user_matches
from .opened import CITE, LICENCE, ImageFeatures, KeypointTask, OpenKeypoints
from .options import SceneOptions

ESTIMATORS = ("magsac", "ransac")
CONFIDENCE = 0.9999
_FEWEST = 4
Row = dict[str, Any]


class GeometryOptions(SceneOptions):
    """Options of `keypoints/geometry`; thresholds are fixed (1 to 10 px), so there is no tolerance to set."""

    seed: int = 0
    """Seed of the random order that breaks ties between equally near neighbours."""

    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Largest ratio of first to second distance that the matcher `ratio` accepts (strictly below)."""

    ransac_px: Annotated[float, Field(gt=0)] = 3.0
    """Inlier threshold of the homography estimators, in pixels of the target image."""

    max_iterations: Annotated[int, Field(ge=1)] = 10_000
    """Most samples an estimator may try."""

    matcher: Annotated[str, Field(pattern=r"^.+\.py:\w+$")] | None = None
    """A matcher of yours beside ours, ``my.py:Class`` with ``match(features1, features2)``: group
    ``matcher=own``."""

    @computed_field
    def matcher_source(self) -> str | None:
        """Hash of the source of that matcher."""
        return matcher_hash(self.matcher)


def estimate_homography(
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
    if len(first) < _FEWEST:
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


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Records of a scene: one row per image pair with all its counts and errors."""
    sequences = opened.sequences
    first, *others = sequences.images(scene)
    source = opened.features_of(features, scene, first)
    rows = []
    for k in others:
        target = opened.features_of(features, scene, k)
        h, sizes = sequences.homography(scene, k), (sequences.size(scene, first), sequences.size(scene, k))
        row = _detections(source, target, h, sizes)
        rows.append(row | _matches(source, target, h, sizes, opened.options, features.distance, row))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    options = opened.options.settings()
    meta = {"scene": scene, "kind": sequences.kind(scene), "images": others, "options": options}
    return Records("pair", columns, meta)


def _detections(source: ImageFeatures, target: ImageFeatures, h: NDArray[np.float64], sizes: Any) -> Row:
    """Shared view and one-to-one correspondences of the locations, at every threshold."""
    here, there = locations(source.xy).xy, locations(target.xy).xy
    found = answers(
        h, here, there, source_size=sizes[0], target_size=sizes[1], tau_px=max(THRESHOLDS_PX), policy="mutual"
    )
    back = covisible(inverse(h), there, sizes[1], sizes[0])
    within = found.error_px[:, None] <= np.array(THRESHOLDS_PX)[None]
    return {
        "visible_first": int((found.status != OUT_OF_VIEW).sum()),
        "visible_second": int(back.visible.sum()),
        "corresponding": within.sum(axis=0),
        "error_sum_px": (within * found.error_px[:, None]).sum(axis=0),
    }


def _matches(
    source: ImageFeatures, target: ImageFeatures, h: Any, sizes: Any, options: Any, distance: str, row: Row
) -> Row:
    """Matches of every matcher, their errors, and the homographies estimated from them."""
    found = neighbours(source, target, distance=distance, seed=options.seed)
    places, spots = locations(source.xy).of, locations(target.xy).of
    out: Row = {}
    for matcher in MATCHERS if options.matcher is None else (*MATCHERS, OWN_MATCHER):
        if matcher == OWN_MATCHER:
            matches = user_matches(options.matcher, source, target, distance=distance)
        else:
            matches = select(found, matcher, ratio=options.ratio)
        a, b = source.xy[matches.first], target.xy[matches.second]
        shown = project(h, a, reference=centre(sizes[0]))
        error = np.nan_to_num(np.linalg.norm(shown - b, axis=1), nan=np.inf)
        limits = np.array(THRESHOLDS_PX)
        out[f"putative_{matcher}"] = len(a)
        out[f"accuracy_{matcher}"] = matching_accuracy(error, limits)
        # A location counts once, whichever of its orientations matched.
        out[f"placed_{matcher}"] = np.array(
            [
                min(len(np.unique(places[matches.first[ok]])), len(np.unique(spots[matches.second[ok]])))
                for ok in (error <= limit for limit in limits)
            ]
        )
        for estimator in ESTIMATORS:
            matrix, inliers = estimate_homography(
                a,
                b,
                estimator=estimator,
                threshold_px=options.ransac_px,
                max_iterations=options.max_iterations,
            )
            name = f"{matcher}_{estimator}"
            out[f"inliers_{name}"] = inliers
            out[f"corner_px_{name}"] = np.inf if matrix is None else corner_error(matrix, h, sizes[0])
    return out


def _tau(at: Mapping[str, str]) -> str:
    return f"{at.get('tau_px', '3')} px"


class Geometry(KeypointTask):
    """Detections and matches of image pairs against their homography."""

    name = "keypoints/geometry"
    info = TaskInfo(
        "Are keypoints re-detected and matched correctly, and do they suffice for the homography?",
        ("mma", "all"),
        {
            "repeatability": MetricInfo(
                lambda at: (
                    "share of the keypoints in the shared view that are re-detected in the other image, at "
                    f"{_tau(at)}"
                )
            ),
            "localisation_error_px": MetricInfo(
                lambda at: f"mean distance between keypoints that correspond, at {_tau(at)}",
                unit="px",
                better="lower",
            ),
            "matching_score": MetricInfo(
                lambda at: (
                    f"share of the keypoints in the shared view that are matched correctly, at {_tau(at)}"
                )
            ),
            "mma": MetricInfo(
                lambda at: (
                    f"mean matching accuracy: share of the matches whose error is at most {_tau(at)}, mean "
                    "over image pairs"
                )
            ),
            "homography_accuracy": MetricInfo(
                lambda at: (
                    "share of image pairs whose estimated homography misplaces the corners by at most "
                    f"{_tau(at)} on average"
                )
            ),
            "homography_auc": MetricInfo(
                lambda at: f"mean over image pairs of max(0, 1 - corner error / {_tau(at)})"
            ),
            "putative_matches": MetricInfo("mean number of matches per image pair", unit="count"),
            "inliers": MetricInfo(
                "mean number of matches per image pair that fit its homography", unit="count"
            ),
        },
        columns=(
            "repeatability",
            "localisation_error_px",
            "matching_score",
            "mma",
            "homography_accuracy",
            "homography_auc",
        ),
        brief=("repeatability", "mma", "homography_auc"),
        cite=CITE,
        licence=LICENCE,
    )
    options = GeometryOptions
    comparisons: ClassVar = {"exact": compare_exact}
    scorings: ClassVar = {"exact": score_exact}

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Mean matching accuracy over the threshold, overall and by scene."""
        groups = [("all", list(records)), *((f"scene={r.meta['scene']}", [r]) for r in records)]
        for group, chosen in groups:
            rows = np.concatenate([r["accuracy_mutual"] for r in chosen])
            yield group, "mma", THRESHOLDS_PX, rows.mean(axis=0)


TASK = Geometry()
