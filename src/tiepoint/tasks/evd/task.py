# SPDX-License-Identifier: BSD-3-Clause
"""Task `evd/homography`: estimate the homography of a plane seen from extreme angles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairTruth
from ...datasets.image_pairs.pair import ImagePair
from ...geometry.two_view.homography_errors import visible_error, visible_error_float32
from ...geometry.two_view.linear_estimation import (
    HomographyEstimate,
    HomographyEstimator,
    estimate_homography,
)
from ..base import MetricInfo, TaskInfo
from ..homography.compare import exact_homographies
from ..info import EVD, count
from ..pairs.data import PairsTask, SeededOptions, matches_of
from ..pairs.score import (
    SEED_SPREAD,
    RecallCurve,
    count_scores,
    curve_scores,
    model_facts,
    pair_facts,
    without_model,
)
from ..scene_means import with_protocol
from ..unit_values import Means, Reasons
from ..wxbs.task import TOOL

Floats = NDArray[np.float64]
LIMIT_PX = 20.0
THRESHOLDS_PX = LIMIT_PX ** (np.arange(10) / 9)
LABELS = tuple(f"{t:.4g}" for t in THRESHOLDS_PX)
EXAMPLE = HomographyEstimator("opencv", 0.5, 0.999, 100_000, method="USAC_MAGSAC")
"""Estimator used in the examples of the original tool."""


class EvdOptions(SeededOptions):
    """Options of `evd/homography`."""


class EvdHomography(PairsTask):
    """Task `evd/homography`: homographies of a plane, scored by their error in the commonly visible area.

    A method returns a homography, or matches from which homographies are estimated.
    """

    name = "evd/homography"
    needs = "homography"
    options = EvdOptions
    libraries = ("cv2", "poselib")
    protocols = ("exact", TOOL)
    means: ClassVar[Means] = {"maa": frozenset(), "area": frozenset(), "recall": frozenset({"threshold_px"})}
    reasons: ClassVar[Reasons] = {"median_error_px": "a median is no mean of unit values"}
    info = TaskInfo(
        "How well do matches give the homography of a plane seen from extreme angles?",
        ("maa", "all"),
        {
            "maa": MetricInfo("mean of the recall at ten thresholds from 1 to 20 pixels"),
            "area": MetricInfo("area under the recall curve over the logarithm of 1 to 20 pixels, exact"),
            "recall": MetricInfo(
                lambda parts: (
                    f"share of pairs with an error of at most {parts.get('threshold_px', 'some')} px"
                )
            ),
            "median_error_px": MetricInfo(
                "median over pairs of the mean error in the visible part", unit="px", better="lower"
            ),
            "failures": MetricInfo(
                "pairs without a homography under some seed", unit="count", better="lower"
            ),
            **SEED_SPREAD,
            "matches": count("matches, mean over pairs"),
            "inliers": count("matches that agree with H, mean over pairs"),
        },
        columns=("maa", "area", "median_error_px", "matches", "inliers", "failures"),
        cite=(EVD,),
        licence="EVD: images for research; cite Mishkin, Matas, Perdoch 2015",
        title="EVD homography",
    )

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair: the error of every estimated homography."""
        pair, H = truth.pair, np.asarray(truth.annotations["H"], np.float64)
        found = homographies(pair, arrays, options, comparison)
        tool = comparison == TOOL
        rule = visible_error_float32 if tool else visible_error
        models = [h.H if h.ok or not tool else np.eye(3) for h in found]
        columns: dict[str, NDArray[Any]] = {
            "repeat": np.arange(len(found), dtype=np.int16),
            "H": np.array([np.asarray(m).ravel() for m in models], np.float64),
            "error_px": np.array([rule(m, H, *pair.sizes()) for m in models], np.float64),
            "ok": np.array([h.ok for h in found], bool),
        }
        meta = {**pair_facts(pair), **model_facts(pair, arrays, found, given="H" in arrays)}
        return Records("pair", columns, meta)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        if not records:
            return []
        exact = protocol == "exact"
        repeats = min(len(r) for r in records)
        errors = np.array([np.asarray(r["error_px"])[:repeats] for r in records]).T
        curve = RecallCurve(LABELS, recall_of(errors), log_area(errors))
        made = curve_scores(records, curve, exact=exact)
        middle = float(np.median(np.median(errors, axis=0)))
        made.append(Score("median_error_px", "all", middle, len(records)))
        return with_protocol([*made, *count_scores(records, exact=exact)], protocol)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about pairs without an estimated homography."""
        return without_model(records, "homography under some seed")

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the mean recall of each pair, for galleries of pictures."""
        for r in records:
            yield str(r.meta["pair"]), float(recall_of(np.asarray(r["error_px"])).mean())


def homographies(pair: ImagePair, arrays: Arrays, options: Any, comparison: str) -> list[HomographyEstimate]:
    """Return the homography that the method provides, or homographies estimated from its matches.

    The protocol of the original tool needs one estimate; `exact` needs one for each seed.
    """
    if comparison == TOOL and "H" not in arrays:
        matches = matches_of(arrays, pair.name)
        return [estimate_homography(EXAMPLE, matches.points0, matches.points1)]
    return exact_homographies(pair, arrays, options)


def recall_of(errors: Floats) -> Floats:
    """Return whether each error is within each of the ten thresholds, as 0 or 1 (…, 10).

    >>> recall_of(np.array([5.2])).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    """
    return np.asarray(np.asarray(errors)[..., None] <= THRESHOLDS_PX, np.float64)


def log_area(errors: Floats) -> Floats:
    """Return 1 - log(e)/log(20) for errors e in pixels, clipped to [0, 1].

    This is the share of thresholds that exceed the error, with thresholds from 1 to 20 px on a logarithmic
    scale.

    >>> log_area(np.array([0.5, 20**0.5, 30.0, np.inf])).round(12).tolist()
    [1.0, 0.5, 0.0, 0.0]
    """
    with np.errstate(divide="ignore"):
        share = 1 - np.log(np.maximum(errors, 1.0)) / np.log(LIMIT_PX)
    return np.asarray(np.where(np.isfinite(share), np.clip(share, 0, 1), 0.0), np.float64)


TASK = EvdHomography()
