# SPDX-License-Identifier: BSD-3-Clause
"""Task `mmim/homography`: homographies between images of different sensors, seasons and times of day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...core.errors import InputError, UnknownNameError
from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...geometry.two_view.homography_errors import sorted_corner_error
from ...geometry.two_view.linear_estimation import (
    HomographyEstimate,
    HomographyEstimator,
    estimate_homography,
)
from ..base import MetricInfo, TaskInfo
from ..homography.compare import (
    compare_exact,
    given_homography,
    landmark_errors,
    model_columns,
    plane_meta,
)
from ..homography.score import metrics_of, score_exact
from ..homography.task import PlaneOptions, PlaneTask
from ..options import Names
from ..pairs.data import OpenPairs, matches_in_frame, matches_of
from ..scene_means import with_protocol
from ..steps import StepTable
from ..unit_values import Means, Reasons, UnitFacts, UnitWeights, not_raceable, unit_weights
from .score import EXACT_PX, HEADLINE_PX, mean_over_categories, score_minima
from .steps import ARROW, step_tables

MINIMA = "minima"
CITE = """@article{jiang2021multimodal,
  author  = {Xingyu Jiang and Jiayi Ma and Guobao Xiao and Zhenfeng Shao and Xiaojie Guo},
  title   = {A review of multimodal image matching: Methods and applications},
  journal = {Information Fusion},
  volume  = {73},
  pages   = {22--71},
  year    = {2021}
}"""
_DEFAULT_RANSAC = HomographyEstimator("opencv")
"""Settings of OpenCV's `findHomography` with RANSAC and its default values."""


class MmimOptions(PlaneOptions):
    """Options of `mmim/homography`."""

    categories: Names = ()
    """Categories to use, such as Medical/Retina, or modalities, such as Medical. The default is all."""


class MmimHomography(PlaneTask):
    """Task `mmim/homography` under `exact` and the protocol of MINIMA, averaged over categories."""

    name = "mmim/homography"
    needs = "homography"
    options = MmimOptions
    protocols = ("exact", MINIMA)
    thresholds: ClassVar[tuple[int, ...]] = EXACT_PX
    headline_px: ClassVar[int] = HEADLINE_PX
    scoring_options = frozenset({"categories"})
    means: ClassVar[Means] = {
        name: parts | {"category", "modality"} for name, parts in PlaneTask.means.items()
    }
    reasons: ClassVar[Reasons] = {
        **PlaneTask.reasons,
        "finite_mean_px": "it is a mean over the pairs with a finite error",
    }
    info = TaskInfo(
        "How well do matches give the homography between images of different sensors and seasons?",
        ("auc", "all"),
        {
            **metrics_of(HEADLINE_PX, "mean over pairs of a category, then over categories"),
            "finite_mean_px": MetricInfo(
                "mean corner error over pairs where it is finite, so that failing improves it",
                unit="px",
                better="lower",
                title="mean finite corner error",
            ),
        },
        columns=("auc", "landmark_auc", "corner_px", "landmark_px", "mma", "matches", "failures"),
        table_note=f"auc is the mean over categories of the area up to {HEADLINE_PX} px",
        cite=(CITE,),
        licence="MMIM: no licence stated; its README asks for a citation",
        title="MMIM homography",
        pictures_in_reports=False,
    )

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """Return the pairs of the requested categories, with image 1 mirrored and turned."""
        known = {str(p.facts.get(key, "")) for p in data.pairs for key in ("category", "modality")} - {""}
        if not known:
            raise InputError(
                f"{data.what} has no categories; pass the folder of MMIM, or use homography/pairs"
            )
        for name in options.categories:
            if name not in known:
                raise UnknownNameError("category", name, sorted(known))
        if options.categories:
            wanted = set(options.categories)
            data = data.select(lambda p: bool({p.facts["category"], p.facts["modality"]} & wanted))
        return super().select_pairs(data, options)

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair: the errors of every estimated homography."""
        if comparison == "exact":
            return compare_exact(truth, arrays, options)
        found = _minima_homography(truth, arrays, options, framed=comparison == ARROW)
        H = truth.annotations["H"]
        columns = model_columns([found.H], [found.ok])
        error = sorted_corner_error(found.H, H, truth.pair.sizes()[0]) if found.ok else np.inf
        columns["error_px"] = np.array([error])
        columns["landmark_px"] = landmark_errors([found.H], [found.ok], truth.annotations.get("landmarks"))
        meta = plane_meta(truth, arrays, [found], behind=True)
        if meta["within"] is not None and not found.ok:
            meta["within"] = [0] * len(meta["within"])
        return Records("pair", columns, meta)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        if protocol == "exact":
            keys = ("modality", "category")
            made = score_exact(records, EXACT_PX, HEADLINE_PX, mean_over_categories, keys)
        else:
            failed = sum(not all(r.meta["ok"]) for r in records)
            made = score_minima(records)
            if made:
                made.append(Score("failures", "all", float(failed), len(records)))
        return with_protocol(made, protocol)

    def unit_facts(self, opened: OpenPairs) -> Mapping[str, UnitFacts]:
        """Return scene, category and modality of every pair."""
        return {
            name: _with_category(facts, opened.pairs[name].facts)
            for name, facts in super().unit_facts(opened).items()
        }

    def facts_of(self, record: Records) -> UnitFacts:
        """Return scene, category and modality of a pair from its records."""
        return _with_category(super().facts_of(record), record.meta["facts"])

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return the weights of the pairs under `exact`. Every category has the same total weight."""
        self.raceable_parts(metric, group)
        if protocol != "exact":
            reason = f"{protocol} joins the sorted errors of a category by lines; race it under exact"
            raise not_raceable(self.name, metric, group, reason)
        return super().unit_weights(units, protocol, metric, group)

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of the pairs. Every category has the same total weight."""
        return unit_weights(units, sizes, by_kind=True, stratum="category")

    def group_of_one(self, group: str) -> str:
        """Return the group name without category or modality, because one pair has only one of each."""
        kept = [p for p in group.split(",") if not p.startswith(("category=", "modality="))]
        return ",".join(kept) or "all"

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the comparison between `minima` and `exact` if both protocols were run."""
        return (ARROW,) if {"exact", MINIMA} <= set(protocols) else ()

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the area under the recall curve after each step from `minima` to `exact`."""
        return step_tables(records[MINIMA], records[ARROW], records["exact"])


def _with_category(facts: UnitFacts, of: Mapping[str, Any]) -> UnitFacts:
    groups = {key: str(of.get(key, "")) for key in ("category", "modality")}
    return replace(facts, kind=groups["category"], groups={**(facts.groups or {}), **groups})


def _minima_homography(truth: PairTruth, arrays: Arrays, options: Any, *, framed: bool) -> HomographyEstimate:
    """Estimate a homography by OpenCV's RANSAC, unless the method provides one.

    If `framed`, image size and threshold are those of `exact`.
    """
    if "H" in arrays:
        return given_homography(arrays)
    matches = matches_of(arrays, truth.pair.name)
    if not framed:
        return estimate_homography(_DEFAULT_RANSAC, matches.points0, matches.points1)
    x0, x1, s0, s1 = matches_in_frame(truth.pair, matches, options.side_px)
    made = estimate_homography(replace(_DEFAULT_RANSAC, threshold_px=options.threshold_px), x0, x1)
    return replace(made, H=np.linalg.inv(s1) @ made.H @ s0)


TASK = MmimHomography()
