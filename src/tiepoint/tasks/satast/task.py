# SPDX-License-Identifier: BSD-3-Clause
"""Task `satast/points`: transfer points from photographs by astronauts to satellite images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...core.errors import InputError
from ...core.hashing import hash_json
from ...core.records import Features, Item, Records, Unit
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairSet, PairTruth
from ...datasets.image_pairs.planes import turned_truth
from ..base import MetricInfo, TaskInfo
from ..cases import MatchedPair
from ..info import count
from ..options import Flag
from ..pairs.data import OpenPairs, PairsTask, SeededOptions
from ..pairs.data import transfer_errors as drawn_errors
from ..pairs.point_transfer import transferred_points
from ..scene_means import with_protocol
from ..steps import StepTable
from ..unit_values import Means, UnitFacts, UnitWeights, not_raceable, unit_weights
from .compare import Rule, compare, exact_errors, normalised_errors, transfer_errors
from .score import HEADLINE_PX, TURNS, area_of, score_exact, score_pooled
from .steps import ARROW, step_tables

HOMOGRAPHY, WARP = "romav2-homography", "romav2-warp"
AGAIN = "@jpeg"
"""Suffix of the item whose image 1 has been re-encoded as JPEG."""
CITE = """@misc{edstedt2025romav2,
  author = {Johan Edstedt and David Nordstr{\\"o}m and Yushan Zhang and Georg B{\\"o}kman and others},
  title  = {{RoMa v2}: Harder Better Faster Denser Feature Matching},
  year   = {2025},
  note   = {arXiv:2511.15706}
}"""


class SatastOptions(SeededOptions):
    """Options of `satast/points`."""

    by: Literal["auto", "points", "homography"] = "auto"
    """How `exact` transfers points: by points or a flow of the method, or by a homography from matches. The
    default uses points or a flow if the method gives them."""

    turned: Flag = True
    """Also match image 1 turned by 90, 180 and 270 degrees, which `romav2-warp` needs."""

    jpeg: Flag = True
    """Also match image 1 re-encoded as JPEG, which `romav2-homography` needs."""

    only_under: ClassVar[Mapping[str, str]] = {"by": "exact"}

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Raise an error for options without effect, and for options that remove images a protocol needs."""
        super().check_protocols(task, given, protocols)
        chosen = cls.parse(task, given)
        for protocol, option in ((WARP, "turned"), (HOMOGRAPHY, "jpeg")):
            if protocol in protocols and not getattr(chosen, option):
                raise InputError(
                    f"protocol {protocol} of {task} needs the option {option}; remove {option}=no"
                )


class OpenSatast(OpenPairs):
    """Data of SatAst. Every pair is one unit, with an item for each orientation of image 1."""

    def __init__(self, task: PairsTask, data: PairSet, options: Any) -> None:
        super().__init__(task, data, options)
        self.turns = TURNS if options.turned else TURNS[:1]
        self.truths: dict[str, PairTruth] = {}
        self.parts: dict[str, dict[int, str]] = {}
        for truth in self.data.truths:
            name = truth.pair.name
            self.parts[name] = {t: name if t == 0 else f"{name}@{t}" for t in self.turns}
            for turn, key in self.parts[name].items():
                turned = turned_truth(truth, turn // 90)
                self.truths[key] = replace(turned, pair=replace(turned.pair, name=key))
            if options.jpeg:
                again = replace(truth.pair, name=f"{name}{AGAIN}", jpeg=True)
                self.truths[again.name] = replace(truth, pair=again)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per pair and orientation, and one per pair with image 1 re-encoded as JPEG."""
        return tuple(map(self.item, self.truths.values()))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per pair, which refers to the features of all its items."""
        return tuple(
            Unit(u.key, keys, hash_json([u.definition, list(keys)]))
            for u in super().units
            for keys in [self._keys(u.key)]
        )

    def _keys(self, name: str) -> tuple[str, ...]:
        again = f"{name}{AGAIN}"
        return (*self.parts[name].values(), *([again] if again in self.truths else []))

    def truth(self, item: str) -> PairTruth:
        """Return the ground truth of an item, in its orientation."""
        return self.truths[item]

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the transferred points of a pair if the method transfers points, else its matches."""
        arrays, truth = features.arrays(name), self.truth(name)
        if "answers" not in arrays and "flow" not in arrays:
            return super().draw_matches(name, features)
        points = np.asarray(truth.annotations["points0"], np.float64)
        answers = transferred_points(arrays, points, name)
        return drawn_errors(truth.pair, points, answers, np.asarray(truth.annotations["points1"], np.float64))

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of a pair: the errors of its points."""
        parts, name = self.parts[unit.key], unit.key
        homography = comparison.startswith(HOMOGRAPHY)
        if homography:
            parts = {0: f"{name}{AGAIN}" if comparison == HOMOGRAPHY else name}
        if not set(parts.values()) <= self.truths.keys():
            raise InputError(f"{comparison} needs image 1 re-encoded as JPEG; remove jpeg=no")
        found = {turn: (self.truth(key), features.arrays(key)) for turn, key in parts.items()}
        if comparison == "exact":
            rule: Rule = partial(exact_errors, options=self.options)
        else:
            rule = normalised_errors if homography else transfer_errors
        return compare(self.pairs[name], found, rule)


class SatastPoints(PairsTask):
    """Task `satast/points`: transfer clicked points, under `exact` and two protocols of RoMa v2.

    Points are transferred by the method itself, by its flow, or by a homography from its matches.
    """

    name = "satast/points"
    needs = "keypoints"
    options = SatastOptions
    opened = OpenSatast
    libraries = ("cv2", "poselib")
    protocols = ("exact", HOMOGRAPHY, WARP)
    scoring_options = frozenset({"turned", "jpeg"})
    means: ClassVar[Means] = {"auc": frozenset({"tau_px", "turn"})}
    info = TaskInfo(
        "Does a method carry points from photographs by astronauts to satellite images?",
        ("auc", "all"),
        {
            "auc": MetricInfo(
                lambda parts: (
                    "share of the area under the recall curve of point errors up to "
                    f"{parts.get('tau_px', HEADLINE_PX)} px of image 1"
                ),
                short=f"@{HEADLINE_PX} px",
            ),
            "unanswered": MetricInfo("share of points without an answer", better="lower"),
            "matches": count("matches of the upright images, mean over pairs"),
            "failures": MetricInfo(
                "pairs without any answer in some orientation", unit="count", better="lower"
            ),
        },
        columns=("auc", "unanswered", "matches", "failures"),
        table_note=f"auc is the area up to {HEADLINE_PX} px",
        cite=(CITE,),
        licence="SatAst: you bring the images, as EarthMatch prepares them",
        title="SatAst points",
    )

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return with_protocol(score_exact(records) if protocol == "exact" else score_pooled(records), protocol)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about points that the method did not transfer."""
        missing = sum(int((~np.isfinite(np.asarray(r["error_px"]))).sum()) for r in records)
        total = sum(len(r) for r in records)
        return [f"{missing} of {total} points have no answer; they count as wrong"] if missing else []

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the area under the recall curve of each pair, for galleries of pictures."""
        for r in records:
            yield str(r.meta["pair"]), area_of(r, HEADLINE_PX)

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return equal weights of the pairs. Raise an error for the protocols of RoMa v2.

        These protocols pool the points of all pairs, so their scores are not means over pairs.
        """
        if protocol != "exact":
            raise not_raceable(
                self.name, "auc", "all", f"{protocol} pools the points of all pairs; race under exact"
            )
        return unit_weights(units, sizes)

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the comparisons between `exact` and each other protocol that was run."""
        others = [p for p in protocols if p != "exact"]
        return tuple(f"{p}{ARROW}" for p in others) if "exact" in protocols else ()

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the area under the recall curve after each step from a protocol of RoMa v2 to `exact`."""
        return [
            table
            for name in (HOMOGRAPHY, WARP)
            if f"{name}{ARROW}" in records
            for table in step_tables(name, records)
        ]


TASK = SatastPoints()
