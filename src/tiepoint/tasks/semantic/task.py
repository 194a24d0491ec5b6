# SPDX-License-Identifier: BSD-3-Clause
"""Task `semantic/pck`: transfer keypoints between two objects of the same class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from ...core.errors import InputError, UnknownNameError
from ...core.records import Arrays, Records
from ...core.scores import Score, group_name
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ..base import Column, MetricInfo, TaskInfo
from ..info import PROPOSAL_FLOW, SPAIR
from ..options import Flag, Names, Numbers
from ..pairs.data import OpenPairs, PairsOptions
from ..pairs.point_transfer import Asked, PointsTask, transferred_points
from ..steps import StepTable
from ..unit_values import Means, Reasons, UnitFacts, UnitWeights, group_parts, unit_weights
from .protocols import AMBIGUOUS, PROTOCOLS, ambiguous_points, read_groups
from .score import HEADLINE_ALPHA, convention_steps, score, shares

BACK = "back"
"""Name of the comparison that transfers target points to the source."""
FLAGS = ("viewpoint_variation", "scale_variation", "truncation", "occlusion", "mirror")
_PER = {
    "pair": ", mean over image pairs",
    "point": ", over all keypoints of all pairs",
    "class": ", mean over classes of the mean over their pairs",
}


class SemanticOptions(PairsOptions):
    """Options of `semantic/pck`."""

    alphas: Numbers = ()
    """Additional PCK thresholds alpha, as fractions of the reference length."""

    length: Literal["auto", "box", "image", "keypoints"] = "auto"
    """Reference length under `exact`: the object's box, the image's larger side or the extent of the
    keypoints. The default is the length that papers use for the dataset."""

    categories: Names = ()
    """Classes to use. The default is all classes."""

    back: Flag = False
    """Also run the method from target to source, which `cats` scores. Otherwise matches are reversed."""

    groups: Annotated[dict[str, tuple[tuple[int, ...], ...]], BeforeValidator(read_groups)] | None = None
    """JSON file that lists, by class, groups of keypoints that differ only by side (left or right). The
    groups of `aeroplane` are built in."""


def _choose_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a narrow table: PCK per pair at four alphas, per point and class at alpha 0.1."""
    named = [group_name(alpha=a, per="pair") for a in (0.01, 0.05, HEADLINE_ALPHA, 0.15)]
    named += [group_name(alpha=HEADLINE_ALPHA, per=per) for per in ("point", "class")]
    wanted = [("pck", group) for group in named]
    wanted = wanted if set(wanted) & set(columns) else [("pck", "all")]
    wanted += [("unanswered", "all"), ("failures", "all")]
    return [c for c in wanted if c in columns]


class SemanticPck(PointsTask):
    """Task `semantic/pck`: PCK under `exact` and the conventions of six tools.

    The keypoints belong to two objects of a class. Records contain the
    estimated and true points. Frames, lengths, precision and alphas are applied when scoring.
    """

    name = "semantic/pck"
    needs = "keypoints"
    options = SemanticOptions
    protocols = tuple(PROTOCOLS)
    scoring_options = frozenset({"categories", "back"})
    means: ClassVar[Means] = {"pck": frozenset({"alpha", "per", "category"})}
    reasons: ClassVar[Reasons] = dict.fromkeys(
        ("ambiguous_pairs", "ambiguous_points"), "it describes the data"
    )
    info = TaskInfo(
        "Does a method carry keypoints from one object to another of its class?",
        ("pck", "all"),
        {
            "pck": MetricInfo(
                lambda at: (
                    f"share of keypoints carried to within {at.get('alpha', HEADLINE_ALPHA)} times the "
                    "reference length (box, image or keypoints) of their true position"
                    f"{_PER.get(at.get('per', ''), '')}"
                ),
                short="@0.1",
            ),
            "ambiguous_pairs": MetricInfo(
                "share of pairs with a keypoint that only its side tells apart", better=None
            ),
            "ambiguous_points": MetricInfo(
                "share of keypoints that only their side tells apart", better=None
            ),
            "unanswered": MetricInfo("share of keypoints without an answer", better="lower"),
            "failures": MetricInfo("pairs without any answer", unit="count", better="lower"),
        },
        columns=("pck", "unanswered", "failures"),
        choose_columns=_choose_columns,
        cite=(SPAIR, PROPOSAL_FLOW),
        licence="SPair-71k: images of PASCAL VOC, research; PF-WILLOW, PF-PASCAL: academic use only",
        title="Semantic keypoints",
    )

    def comparison(self, protocol: str) -> str:
        """Return the name of the records: `exact`, or `back` for the tool that transfers target points."""
        super().comparison(protocol)
        return BACK if PROTOCOLS[protocol].back else "exact"

    def select_pairs(self, data: PairSet, options: Any) -> PairSet:
        """Return the pairs of the requested classes."""
        known = sorted({str(p.facts.get("category", "")) for p in data.pairs})
        for name in options.categories:
            if name not in known:
                raise UnknownNameError("category", name, known)
        if not options.categories:
            return data
        return data.select(lambda p: p.facts.get("category") in options.categories)

    def asks_back(self, options: Any) -> bool:
        """Return whether the user requests both directions. This doubles the work."""
        return bool(options.back)

    def compare_both(self, there: Asked, back: Asked | None, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair: the estimated and true points."""
        truth, arrays = there
        if comparison != BACK:
            return compare(truth, arrays, options)
        if back is not None:
            return compare(back[0], back[1], options)
        turned = truth.swapped()
        if {"points0", "points1"} <= set(arrays):
            swapped = {"points0": arrays["points1"], "points1": arrays["points0"]}
            return compare(turned, swapped, options)
        return compare(turned, None, options)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return score(records, protocol)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about keypoints that the method did not transfer."""
        missing = sum(int((~np.isfinite(np.asarray(r["found"]))).any(axis=1).sum()) for r in records)
        total = sum(len(r) for r in records)
        if not missing or all(r.meta["absent"] for r in records):
            return []
        return [f"{missing} of {total} keypoints have no answer; they count as wrong"]

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the PCK at 0.1 after each step from a tool's convention to `exact`."""
        return convention_steps(records)

    def unit_facts(self, opened: OpenPairs) -> Mapping[str, UnitFacts]:
        """Return scene, class and number of keypoints of every pair."""
        found = {}
        for name, facts in super().unit_facts(opened).items():
            truth = opened.truth(name)
            category = str(truth.pair.facts.get("category", ""))
            points = float(len(truth.annotations["points1"]))
            found[name] = replace(facts, kind=category, pairs=points, groups={"category": category})
        return found

    def facts_of(self, record: Records) -> UnitFacts:
        """Return scene, class and number of keypoints of a pair from its records."""
        category = str(record.meta["category"])
        facts = super().facts_of(record)
        return replace(facts, kind=category, pairs=float(len(record)), groups={"category": category})

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of a mean per pair, point or class. Pairs without keypoints have no weight."""
        per = parts.get("per", "pair")
        chosen = sizes if per == "point" else dict.fromkeys(sizes, 1.0)
        return unit_weights(units, chosen, by_kind=per == "class", stratum="class")

    def group_of_one(self, group: str) -> str:
        """Return the group of one pair's score: `per=pair` at the alpha of `group`, `all` without alpha."""
        parts = group_parts(group)
        return group_name(alpha=parts["alpha"], per="pair") if "alpha" in parts else "all"

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the PCK at 0.1 of each pair, for galleries of pictures."""
        for r in records:
            if len(r):
                value = shares([r], PROTOCOLS["exact"], HEADLINE_ALPHA)[0]
                yield str(r.meta["pair"]), float(value)


def compare(truth: PairTruth, arrays: Arrays | None, options: Any) -> Records:
    """Compute the estimated and true points of a pair in target pixels; NaN for points without an estimate.

    `arrays` is None if the method was not run in this direction.
    """
    pair, annotations = truth.pair, truth.annotations
    queries = np.asarray(annotations["points0"], np.float64)
    points = np.asarray(annotations["points1"], np.float64)
    found = np.full_like(points, np.nan) if arrays is None else transferred_points(arrays, queries, pair.name)
    category = str(pair.facts.get("category", ""))
    groups = {**AMBIGUOUS, **(options.groups or {})}
    ids, visible = annotations.get("ids"), annotations.get("visible1")
    told = ids is not None and visible is not None and category in groups
    ambiguous = (
        ambiguous_points(ids, visible, groups[category]).astype(np.int8)
        if told and ids is not None and visible is not None
        else np.full(len(points), -1, np.int8)
    )
    columns: dict[str, NDArray[Any]] = {"found": found, "truth": points, "ambiguous": ambiguous}
    box = annotations.get("box1")
    meta = {
        "pair": pair.name,
        "scene": pair.scene,
        "dataset": pair.dataset,
        "category": category,
        "images": [str(pair.image0 or pair.name), str(pair.image1 or pair.name)],
        "size": list(pair.sizes()[1]),
        "box": None if box is None else [float(v) for v in box],
        "flags": {name: str(pair.facts[name]) for name in FLAGS if name in pair.facts},
        "absent": arrays is None,
        "alphas": list(options.alphas),
        "length": "" if options.length == "auto" else options.length,
    }
    made = Records("pair", columns, meta)
    if len(made) and options.length == "box" and box is None:
        raise InputError(f"{pair.name} has no object box; choose another `length`")
    return made


TASK = SemanticPck()
