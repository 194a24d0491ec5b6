# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `wxbs/fundamental` and `wxbs/points`: clicked correspondences across wide baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...datasets.image_pairs.pair import ImagePair
from ...geometry.two_view.epipolar import symmetric_distances
from ...geometry.two_view.estimator import Estimator
from ...geometry.two_view.pose_estimation import FundamentalEstimate, estimate_fundamental
from ...metrics.dense import point_errors
from ..base import MetricInfo, TaskInfo
from ..info import WXBS, count
from ..pairs.data import OpenPairs, PairsOptions, PairsTask, SeededOptions, matches_in_frame, matches_of
from ..pairs.point_transfer import Asked, PointsTask, transferred_points
from ..pairs.score import SEED_SPREAD, model_facts, pair_facts, without_model
from ..scene_means import with_protocol
from ..steps import StepTable
from ..unit_values import Means
from .score import score_fundamental, score_loma, score_points
from .steps import loma_steps

Floats = NDArray[np.float64]
TOOL = "wxbs-benchmark"
LOMA = "loma"
README = Estimator("opencv-f", 0.25, 0.999, 100_000, method="USAC_MAGSAC")
"""Estimator used in the README of the WxBS benchmark and by LoMa."""
HORIZONTAL = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
"""Fundamental matrix with horizontal epipolar lines, which LoMa scores if the estimation fails."""
_LICENCE = "WxBS: images collected from the web for research; cite Mishkin et al. 2015"


class WxbsOptions(PairsOptions):
    """Options of both tasks on WxBS."""

    split: Literal["test", "val"] = "test"
    """Part of WxBS to use. Datasets other than WxBS have no parts and are used completely."""


class FundamentalOptions(WxbsOptions, SeededOptions):
    """Options of `wxbs/fundamental`."""


class WxbsTask(PairsTask):
    """Base class of both WxBS tasks: dataset split and recall at 0, 1, …, 19 pixels."""

    needs = "corrs"
    protocols: tuple[str, ...] = ("exact", TOOL)
    scoring_options = frozenset({"split"})
    means: ClassVar[Means] = {
        **dict.fromkeys(("maa", "maa_10px", "area"), frozenset()),
        "recall": frozenset({"threshold_px"}),
    }

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """Return the pairs of the split. Pairs without a split belong to every split."""
        found = data.select(lambda p: p.facts.get("split", options.split) == options.split)
        if not found:
            raise InputError(
                f"{data.what} has no pair of the split {options.split!r}; choose another `split`"
            )
        return found

    def data_warnings(self, opened: OpenPairs) -> Sequence[str]:
        """Return a warning with the number of pairs if WxBS is incomplete."""
        known = [p for p in opened.pairs.values() if "split" in p.facts]
        if not known:
            return ()
        opened.split = opened.options.split
        whole = {"test": 32, "val": 2}[opened.options.split]
        n = len(opened.pairs)
        return () if n == whole else (f"{n} of the {whole} pairs of WxBS {opened.options.split} are used",)

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the mean recall of each pair, for galleries of pictures."""
        for score in self.score(records, "exact") if records else ():
            if score.group.startswith("pair="):
                yield score.group.removeprefix("pair="), score.value


_METRICS = {
    "maa": MetricInfo("mean of the recall at 0, 1, …, 19 pixels, mean over image pairs"),
    "area": MetricInfo("area under the recall curve from 0 to 20 pixels, exact, mean over image pairs"),
    "recall": MetricInfo(
        lambda parts: (
            f"share of clicked correspondences within {parts.get('threshold_px', 'some')} px, mean over pairs"
        )
    ),
}


class WxbsFundamental(WxbsTask):
    """Task `wxbs/fundamental`: fundamental matrices scored on clicked points.

    A method returns a matrix, or matches from which matrices are estimated.
    """

    name = "wxbs/fundamental"
    protocols: tuple[str, ...] = ("exact", TOOL, LOMA)
    options = FundamentalOptions
    libraries = ("cv2", "poselib")
    info = TaskInfo(
        "How well do the matches of two very different images give their epipolar lines?",
        ("maa", "all"),
        {
            **_METRICS,
            "failures": MetricInfo("pairs without F under some seed", unit="count", better="lower"),
            "maa_10px": MetricInfo(
                "mean of the recall at 0, 1, …, 10 pixels, mean over image pairs",
                title="mean average accuracy to 10 px",
            ),
            **SEED_SPREAD,
            "matches": count("matches, mean over pairs"),
            "inliers": count("matches that agree with F, mean over pairs"),
        },
        columns=("maa", "maa_10px", "area", "matches", "inliers", "failures"),
        cite=(WXBS,),
        licence=_LICENCE,
        title="WxBS fundamental matrix",
    )

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the epipolar distance of every clicked correspondence under every estimated F."""
        pair, corrs = truth.pair, np.asarray(truth.annotations["corrs"], np.float64)
        found = fundamentals(pair, arrays, options, comparison)
        if comparison == LOMA:
            found = [f if f.ok else replace(f, F=HORIZONTAL) for f in found]
            rows = [_epipolar_distances(corrs, f.F) for f in found]
        else:
            rows = [_distances(corrs, f) for f in found]
        columns: dict[str, NDArray[Any]] = {
            "repeat": np.repeat(np.arange(len(rows), dtype=np.int16), len(corrs)),
            "point": np.tile(np.arange(len(corrs), dtype=np.int32), len(rows)),
            "distance_px": np.concatenate(rows),
        }
        given = "F" in arrays
        meta = {**pair_facts(pair), **model_facts(pair, arrays, found, given=given), "given": given}
        return Records("pair", columns, meta)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        made = (
            score_loma(records) if protocol == LOMA else score_fundamental(records, exact=protocol == "exact")
        )
        return with_protocol(made, protocol)

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the comparison of `loma` if it was run in addition to `exact`."""
        return (LOMA,) if {"exact", LOMA} <= set(protocols) else ()

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the mean recall after each step from `loma` to `exact`."""
        return loma_steps(records[LOMA], records["exact"])

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about pairs whose estimation of F failed."""
        return without_model(records, "F under some seed; recall 0")


def fundamentals(pair: ImagePair, arrays: Arrays, options: Any, comparison: str) -> list[FundamentalEstimate]:
    """Return the fundamental matrix that the method provides, or matrices estimated from its matches.

    The protocol of the WxBS benchmark needs one estimate; `exact` needs one for each seed.
    """
    if "F" in arrays:
        F = np.asarray(arrays["F"], np.float64)
        ok = bool(np.isfinite(F).all() and F.any())
        return [FundamentalEstimate(F, np.zeros(0, bool), ok, "" if ok else "no F was given")]
    matches = matches_of(arrays, pair.name)
    if comparison != "exact":
        return [estimate_fundamental(README, matches.points0, matches.points1)]
    x0, x1, s0, s1 = matches_in_frame(pair, matches, options.side_px)
    estimator = Estimator("poselib-f", options.threshold_px, 0.9999, 100_000)
    found = []
    for seed in range(options.seeds):
        made = estimate_fundamental(estimator, x0, x1, seed)
        found.append(replace(made, F=s1 @ made.F @ s0))
    return found


def _distances(corrs: Floats, found: FundamentalEstimate) -> Floats:
    return _epipolar_distances(corrs, found.F) if found.ok else np.full(len(corrs), np.inf)


def _epipolar_distances(corrs: Floats, F: Floats) -> Floats:
    d = symmetric_distances(corrs[:, :2], corrs[:, 2:], F)
    return np.where(np.isnan(d), np.inf, d)


class WxbsPoints(PointsTask, WxbsTask):
    """Task `wxbs/points`: transfer clicked points from each image to the other."""

    name = "wxbs/points"
    options = WxbsOptions
    info = TaskInfo(
        "Does a method carry points between two very different images to where they belong?",
        ("maa", "all"),
        {
            **_METRICS,
            "failures": MetricInfo(
                "pairs without any answer in one of the directions", unit="count", better="lower"
            ),
            "unanswered": MetricInfo("share of points without an answer", better="lower"),
        },
        columns=("maa", "area", "unanswered", "failures"),
        cite=(WXBS,),
        licence=_LICENCE,
        title="WxBS points",
    )

    def asks_back(self, options: Any) -> bool:
        """Return True: points of image 1 are transferred to image 0 as well."""
        return True

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, `exact`: both protocols score the same distances."""
        super().comparison(protocol)
        return "exact"

    def compare_both(self, there: Asked, back: Asked | None, options: Any, comparison: str) -> Records:
        """Compute the distance of every point from its true position, in both directions."""
        sides = [] if back is None else [there, back]
        columns: dict[str, list[Any]] = {"side": [], "truth": [], "distance_px": []}
        sizes = []
        for side, (truth, arrays) in enumerate(sides):
            pair, corrs = truth.pair, np.asarray(truth.annotations["corrs"], np.float64)
            found = transferred_points(arrays, np.ascontiguousarray(corrs[:, :2]), pair.name)
            columns["side"].append(np.full(len(corrs), side, np.int8))
            columns["truth"].append(corrs[:, 2:])
            columns["distance_px"].append(point_errors(found, corrs[:, 2:]))
            sizes.append(list(pair.sizes()[1]))
        made = {name: np.concatenate(parts) for name, parts in columns.items()}
        ok = [bool(np.isfinite(d).any()) for d in columns["distance_px"]]
        return Records("pair", made, {**pair_facts(there[0].pair), "sizes": sizes, "ok": ok, "matches": None})

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return with_protocol(score_points(records, exact=protocol == "exact"), protocol)


FUNDAMENTAL, POINTS = WxbsFundamental(), WxbsPoints()
