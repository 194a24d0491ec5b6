# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `wxbs/fundamental` and `wxbs/points`: clicked correspondences across wide baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...datasets.image_pairs.pair import ImagePair
from ...geometry.areas import disc_share
from ...geometry.two_view.epipolar import symmetric_distances
from ...geometry.two_view.estimator import Estimator
from ...geometry.two_view.linear_estimation import HomographyEstimate
from ...geometry.two_view.pose_estimation import FundamentalEstimate, estimate_fundamental
from ...methods.source_files import library_versions
from ...metrics.dense import point_errors
from ...metrics.error_curves import auc_shares
from ..base import MetricInfo, TaskInfo
from ..info import WXBS, count
from ..pairs.data import OpenPairs, PairsOptions, PairsTask, SeededOptions, matches_in_frame, matches_of
from ..pairs.point_transfer import Asked, PointsTask, transferred_points
from ..pairs.score import SEED_SPREAD, RecallCurve, count_scores, curve_scores
from ..scene_means import with_protocol

Floats = NDArray[np.float64]
TOOL = "wxbs-benchmark"
THRESHOLDS_PX = np.arange(20)
AREA_PX = 20.0
README = Estimator("opencv-f", 0.25, 0.999, 100_000, method="USAC_MAGSAC")
"""The estimator of the tool's README."""
_LICENCE = "WxBS: images collected from the web for research; cite Mishkin et al. 2015"


class WxbsOptions(PairsOptions):
    """What both tasks on WxBS know."""

    split: Literal["test", "val"] = "test"
    """Part of WxBS; pairs of one's own have none and are all used."""


class FundamentalOptions(WxbsOptions, SeededOptions):
    """Options of `wxbs/fundamental`."""


class WxbsTask(PairsTask):
    """What both tasks share: the split and recall at 0, 1, …, 19 pixels."""

    needs = "corrs"
    protocols = ("exact", TOOL)
    scoring_options = frozenset({"split"})

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """The pairs of the split; those that state none belong to every split."""
        found = data.select(lambda p: p.facts.get("split", options.split) == options.split)
        if not found:
            raise InputError(
                f"{data.what} has no pair of the split {options.split!r}; choose another `split`"
            )
        return found

    def notices(self, opened: OpenPairs) -> Sequence[str]:
        """How many pairs are used, where the set is WxBS and not whole."""
        known = [p for p in opened.pairs.values() if "split" in p.facts]
        if not known:
            return ()
        opened.split = opened.options.split
        whole = {"test": 32, "val": 2}[opened.options.split]
        n = len(opened.pairs)
        return () if n == whole else (f"{n} of the {whole} pairs of WxBS {opened.options.split} are used",)

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Mean recall of each pair, for galleries."""
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
    "failures": MetricInfo("pairs without an answer", unit="count", better="lower"),
}


class WxbsFundamental(WxbsTask):
    """F from matches (or as given), scored by the distances of clicked points to its epipolar lines."""

    name = "wxbs/fundamental"
    options = FundamentalOptions
    info = TaskInfo(
        "How well do the matches of two very different images give their epipolar lines?",
        ("maa", "all"),
        {
            **_METRICS,
            **SEED_SPREAD,
            "matches": count("matches, mean over pairs"),
            "inliers": count("matches that agree with F, mean over pairs"),
        },
        columns=("maa", "area", "matches", "inliers", "failures"),
        cite=(WXBS,),
        licence=_LICENCE,
        title="WxBS fundamental matrix",
    )

    def versions(self, options: Any) -> Mapping[str, str]:
        """OpenCV and PoseLib decide F."""
        return library_versions(("cv2", "poselib"))

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Distance of every clicked correspondence under every F."""
        pair, corrs = truth.pair, np.asarray(truth.annotations["corrs"], np.float64)
        found = fundamentals(pair, arrays, options, comparison)
        rows = [_distances(corrs, f) for f in found]
        columns: dict[str, NDArray[Any]] = {
            "repeat": np.repeat(np.arange(len(rows), dtype=np.int16), len(corrs)),
            "point": np.tile(np.arange(len(corrs), dtype=np.int32), len(rows)),
            "distance_px": np.concatenate(rows),
        }
        given = "F" in arrays
        meta = {**facts_of(pair), **model_facts(pair, arrays, found, given=given), "given": given}
        return Records("pair", columns, meta)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol, from records alone."""
        self.comparison(protocol)
        if not records:
            return []
        exact = protocol == "exact"
        repeats = min(len(r.meta["ok"]) for r in records)
        recall = np.zeros((repeats, len(records), len(THRESHOLDS_PX)))
        area = np.zeros((repeats, len(records)))
        for i, r in enumerate(records):
            distance, repeat = np.asarray(r["distance_px"]), np.asarray(r["repeat"])
            for k in range(repeats):
                recall[k, i] = recall_curve(distance[repeat == k], rounded=not exact)
                area[k, i] = _area(distance[repeat == k])
        labels = [str(t) for t in THRESHOLDS_PX]
        made = curve_scores(records, RecallCurve(labels, recall, area), exact=exact)
        return with_protocol([*made, *count_scores(records, exact=exact)], protocol)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Pairs without F."""
        return without_model(records, "F under some seed; recall 0")


def fundamentals(pair: ImagePair, arrays: Arrays, options: Any, comparison: str) -> list[FundamentalEstimate]:
    """F of a pair as given, or by a protocol's estimator: one under the tool's, one a seed under exact."""
    if "F" in arrays:
        F = np.asarray(arrays["F"], np.float64)
        ok = bool(np.isfinite(F).all() and F.any())
        return [FundamentalEstimate(F, np.zeros(0, bool), ok, "" if ok else "no F was given")]
    matches = matches_of(arrays, pair.name)
    if comparison == TOOL:
        return [estimate_fundamental(README, matches.points0, matches.points1)]
    x0, x1, s0, s1 = matches_in_frame(pair, matches, options.side_px)
    estimator = Estimator("poselib-f", options.threshold_px, 0.9999, 100_000)
    found = []
    for seed in range(options.seeds):
        made = estimate_fundamental(estimator, x0, x1, seed)
        found.append(replace(made, F=s1 @ made.F @ s0))
    return found


def _distances(corrs: Floats, found: FundamentalEstimate) -> Floats:
    if not found.ok:
        return np.full(len(corrs), np.inf)
    d = symmetric_distances(corrs[:, :2], corrs[:, 2:], found.F)
    return np.where(np.isnan(d), np.inf, d)


def recall_curve(distance_px: Floats, *, rounded: bool = False) -> Floats:
    """Share of distances of at most 0, 1, …, 19 pixels, (20,); `rounded` to float32 as the tool has it.

    >>> recall_curve(np.array([0.0, 1.5, np.inf]))[:3].round(3).tolist()
    [0.333, 0.333, 0.667]
    """
    share = (np.asarray(distance_px)[None] <= THRESHOLDS_PX[:, None]).mean(axis=1)
    return np.asarray(share.astype(np.float32) if rounded else share, np.float64)


def _area(distance_px: Floats) -> float:
    return float(auc_shares(distance_px, AREA_PX).mean())


def facts_of(pair: ImagePair) -> dict[str, Any]:
    """What scoring must know about a pair of any wide-baseline task."""
    return {
        "pair": pair.name,
        "scene": pair.scene,
        "dataset": pair.dataset,
        "strata": {},
        "facts": {k: v for k, v in pair.facts.items() if isinstance(v, str) and k != "split"},
    }


def model_facts(
    pair: ImagePair, arrays: Arrays, found: Sequence[FundamentalEstimate | HomographyEstimate], *, given: bool
) -> dict[str, Any]:
    """Numbers of matches and inliers where there are any, and which models were found.

    A model that was `given` has no inliers.
    """
    has_points = "points0" in arrays or "flow" in arrays
    return {
        "matches": len(matches_of(arrays, pair.name)) if has_points else None,
        "inliers": [f.inliers for f in found] if has_points and not given else None,
        "ok": [f.ok for f in found],
    }


def without_model(records: Sequence[Records], what: str) -> list[str]:
    """A warning that names the first pairs for which some call found no model; none where all have one."""
    failed = [str(r.meta["pair"]) for r in records if not all(r.meta["ok"])]
    if not failed:
        return []
    named = ", ".join(failed[:5]) + (", …" if len(failed) > 5 else "")
    return [f"{len(failed)} of {len(records)} pairs have no {what}: {named}"]


class WxbsPoints(PointsTask, WxbsTask):
    """Clicked points of one image carried to the other, both ways."""

    name = "wxbs/points"
    options = WxbsOptions
    info = TaskInfo(
        "Does a method carry points between two very different images to where they belong?",
        ("maa", "all"),
        {**_METRICS, "unanswered": MetricInfo("share of points without an answer", better="lower")},
        columns=("maa", "area", "unanswered", "failures"),
        cite=(WXBS,),
        licence=_LICENCE,
        title="WxBS points",
    )

    def asks_back(self, options: Any) -> bool:
        """Points of image 1 are carried to image 0 as well."""
        return True

    def comparison(self, protocol: str) -> str:
        """The distances serve both protocols."""
        super().comparison(protocol)
        return "exact"

    def compare_both(self, there: Asked, back: Asked | None, options: Any, comparison: str) -> Records:
        """Distance of every point from where it belongs, in both directions."""
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
        return Records("pair", made, {**facts_of(there[0].pair), "sizes": sizes, "ok": ok, "matches": None})

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol, from records alone."""
        self.comparison(protocol)
        if not records:
            return []
        exact = protocol == "exact"
        recall = np.array([_both(r, lambda d: recall_curve(d, rounded=not exact)) for r in records])
        area = np.array([_both(r, _area) for r in records])
        chance = np.array([_chance(r) for r in records])
        curve = RecallCurve([str(t) for t in THRESHOLDS_PX], recall[None], area[None], chance)
        made = curve_scores(records, curve, exact=exact)
        missing = np.concatenate([~np.isfinite(r["distance_px"]) for r in records])
        made.append(Score("unanswered", "all", float(missing.mean()), len(missing)))
        return with_protocol([*made, *count_scores(records, exact=exact)], protocol)


def _both(record: Records, rule: Any) -> Any:
    """Mean of both directions, each over its own points."""
    side = np.asarray(record["side"])
    return np.mean([rule(np.asarray(record["distance_px"])[side == k]) for k in (0, 1)], axis=0)


def _chance(record: Records) -> Floats:
    """What a uniformly random answer reaches at every threshold: the share of the image in each disc."""
    side = np.asarray(record["side"])
    shares = []
    for k in (0, 1):
        truth = np.asarray(record["truth"])[side == k]
        size = record.meta["sizes"][k]
        shares.append([disc_share(truth, float(t), size).mean() for t in THRESHOLDS_PX])
    return np.asarray(np.mean(shares, axis=0), np.float64)


FUNDAMENTAL, POINTS = WxbsFundamental(), WxbsPoints()
