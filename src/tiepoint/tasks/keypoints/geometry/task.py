# SPDX-License-Identifier: BSD-3-Clause
"""Task `keypoints/geometry`: repeatability, matching score, MMA, homographies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, computed_field

from ....core.records import Features, Records
from ....datasets.image_sequences import ImageSequences
from ....geometry.two_view.linear_estimation import homography_versions
from ....methods.pairs.factory import family_of_geometry
from ...base import Column, MetricInfo, TaskInfo
from ...cases import Cases
from ...options import parse_ascending
from ...steps import StepTable
from ...unit_values import (
    TRAPEZOID,
    Means,
    MeansOfUnits,
    Reasons,
    UnitFacts,
    UnitWeights,
    group_parts,
    not_raceable,
    unit_weights,
)
from ..data import CITE, LICENCE, KeypointTask
from ..neighbours import matcher_hash
from ..options import SceneOptions
from .compare import compare_d2net, compare_exact, compare_homographies, is_installed
from .data import OpenGeometry, OpenGeometryPairs
from .protocols import (
    HEADLINE_PX,
    LEFT_OUT,
    PROTOCOLS,
    HomographyProtocol,
    parse_threshold_frame,
    protocol_under,
)
from .score import (
    D2NET,
    GIVEN,
    cases,
    exact_area,
    format_threshold,
    geometry_thresholds,
    match_count,
    score_d2net,
    score_exact,
    score_homographies,
)
from .steps import ARROW, d2net_steps, homography_step_chain, homography_step_tables

_RACED = frozenset({"tau_px", "kind", "matcher", "estimator"})
NEWER: Mapping[str, Any] = {
    "tau_px": [], "sequences": None, "frame": None, "permutation_seed": 0, "top_keypoints": None
}  # fmt: skip
"""Options added after the first version, with their defaults, at which they do not change run ids."""


def _thresholds(value: Any) -> tuple[float, ...]:
    if value == () or value == []:
        return ()
    try:
        return tuple(format_threshold(px) for px in parse_ascending(value))
    except ValueError as e:
        raise ValueError(f"tau_px: {e}") from None


class GeometryOptions(SceneOptions):
    """Options of `keypoints/geometry`."""

    seed: int = 0
    """Seed of the random order that breaks ties between equally near neighbours."""

    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Largest ratio of first to second distance that the matcher `ratio` accepts (strictly below)."""

    ransac_px: Annotated[float, Field(gt=0)] = 3.0
    """Inlier threshold of the homography estimators, in pixels of the target image."""

    max_iterations: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of iterations of an estimator."""

    matcher: Annotated[str, Field(pattern=r"^.+\.py:\w+$")] | None = None
    """Your matcher ``my.py:Class`` with ``match(features1, features2)``, scored in addition to the built-in
    ones as group ``matcher=own``."""

    tau_px: Annotated[tuple[float, ...], BeforeValidator(_thresholds)] = ()
    """Additional thresholds in pixels, such as 0.5,10."""

    sequences: Annotated[Literal["108", "116"], BeforeValidator(str)] | None = None
    """Number of HPatches sequences under every protocol: 108, without the eight sequences of large images
    that many papers exclude, or 116. By default each protocol uses its own number."""

    frame: Annotated[str, BeforeValidator(lambda text: str(parse_threshold_frame(str(text))))] | None = None
    """Frame that replaces the one of the papers' homography protocols: original; short:SIDE or long:SIDE,
    followed by :round or :trunc for integer sides; unit:SIDE for original images whose unit is min(w2,
    h2)/SIDE pixels; divided:SIDE to use that unit for errors only."""

    permutation_seed: int = 0
    """Seed of the match order under `dad`, which shuffles the matches."""

    top_keypoints: Annotated[int, Field(ge=1)] | None = None
    """Number of keypoints of highest response that `d2net` matches. The default is all."""

    @computed_field
    def matcher_source(self) -> str | None:
        """Hash of the source of the custom matcher."""
        return matcher_hash(self.matcher)

    def settings(self) -> dict[str, Any]:
        """Return the options that affect records. Options in `NEWER` are included only if they are set."""
        plain = super().settings()
        return {name: value for name, value in plain.items() if name not in NEWER or value != NEWER[name]}


def _compare(comparison: str, opened: OpenGeometry, scene: str, features: Features) -> Records:
    """Compute the records of a scene under a protocol, or under the steps from a protocol to `exact`."""
    protocol = _protocol(comparison, opened.options.settings())
    return compare_homographies(opened, scene, features, protocol, comparison)


def _protocol(comparison: str, options: Mapping[str, Any]) -> HomographyProtocol:
    if comparison.endswith(ARROW):
        return homography_step_chain(comparison.removesuffix(ARROW), options)
    return protocol_under(comparison, options)


def _tau(at: Mapping[str, str]) -> str:
    return f"{at.get('tau_px', '3')} px"


def _choose_columns(columns: Sequence[Column]) -> list[Column]:
    """Choose the AUC columns that papers print, under their homography protocols."""
    areas: list[Column] = [("homography_auc", f"tau_px={px}") for px in (1, 3, 5, 10)]
    found = [column for column in areas if column in columns]
    if not found or ("mma", "all") in columns:
        return []
    return [*found, *(c for c in (("inliers", "all"), ("failures", "all")) if c in columns)]


class KeypointGeometry(MeansOfUnits, KeypointTask):
    """Task `keypoints/geometry`: keypoints and matches of image pairs, compared with the true homography."""

    name = "keypoints/geometry"
    info = TaskInfo(
        "Are keypoints re-detected and matched correctly, and do they suffice for the homography?",
        ("mma", "all"),
        {
            "repeatability": MetricInfo(
                lambda at: (
                    f"keypoints re-detected within {_tau(at)}, divided by the smaller of both images' "
                    "numbers of keypoints in the shared view, mean over image pairs"
                )
            ),
            "localisation_error_px": MetricInfo(
                lambda at: (
                    f"mean distance between keypoints re-detected within {_tau(at)}, mean over image pairs"
                ),
                unit="px",
                better="lower",
            ),
            "matching_score": MetricInfo(
                lambda at: (
                    f"matches correct within {_tau(at)}, divided by the smaller of both images' numbers of "
                    "keypoints in the shared view, mean over image pairs"
                )
            ),
            "mma": MetricInfo(
                lambda at: (
                    f"mean matching accuracy: share of the matches whose error is at most {_tau(at)}, mean "
                    "over image pairs (`d2net` divides by the pairs of the complete dataset)"
                )
            ),
            "homography_accuracy": MetricInfo(
                lambda at: (
                    "share of image pairs whose estimated homography misplaces the corners by at most "
                    f"{_tau(at)} on average"
                )
            ),
            "homography_auc": MetricInfo(
                lambda at: (
                    f"area under the recall curve of corner errors up to {_tau(at)}; under `exact` the mean "
                    f"over image pairs of max(0, 1 - corner error / {_tau(at)})"
                )
            ),
            "mma_of_pairs": MetricInfo(
                lambda at: (
                    f"share of the matches whose error is at most {_tau(at)}, mean over the existing pairs"
                )
            ),
            "match_precision": MetricInfo(
                lambda at: (
                    f"share of the matches whose mean transfer error is below {_tau(at)}, median of pairs"
                )
            ),
            "failures": MetricInfo("estimator calls without a homography", unit="count", better="lower"),
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
            "mma_of_pairs",
            "homography_accuracy",
            "homography_auc",
        ),
        choose_columns=_choose_columns,
        summary_metrics=("repeatability", "mma", "homography_auc"),
        cite=CITE,
        licence=LICENCE,
        title="Keypoint geometry",
    )
    options = GeometryOptions
    means: ClassVar[Means] = {
        "mma": _RACED,
        "mma_of_pairs": frozenset({"tau_px", "kind"}),
        "homography_auc": _RACED | {"corners"},
        "homography_accuracy": _RACED | {"corners"},
    }
    reasons: ClassVar[Reasons] = {
        **dict.fromkeys(
            ("repeatability", "matching_score"),
            "a pair without keypoints in the shared view has no value, so the mean depends on the method",
        ),
        "localisation_error_px": "errors in px are not bounded; race mma",
        "match_precision": "a median is no mean of unit values",
        "putative_matches": "a count is not bounded",
    }
    protocols = ("exact", *PROTOCOLS, D2NET)
    comparisons: ClassVar[Mapping[str, Any]] = {
        "exact": compare_exact,
        D2NET: compare_d2net,
        f"{D2NET}{ARROW}": partial(compare_d2net, exact=True),
        **{name: partial(_compare, name) for p in PROTOCOLS for name in (p, f"{p}{ARROW}")},
    }
    scorings: ClassVar = {
        "exact": score_exact,
        D2NET: score_d2net,
        **{name: partial(score_homographies, name=name) for name in PROTOCOLS},
    }

    def family_for(self, method: Any) -> str:
        """Return the method family: `keypoints`, or `pairs` for methods that process two images."""
        return family_of_geometry(method)

    def for_family(self, data: OpenGeometry, family: str) -> OpenGeometry:
        """Return the data with image pairs as items, for methods that process two images."""
        return OpenGeometryPairs(self, data.sequences, data.options) if family == "pairs" else data

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenGeometry:
        """Open a folder of sequences. Raise an error for bad data and unknown options."""
        chosen = self.options.parse(self.name, options)
        sequences = ImageSequences(data, chosen.scenes)
        if chosen.sequences == "108" and LEFT_OUT & set(sequences.scenes):
            sequences = ImageSequences(data, [s for s in sequences.scenes if s not in LEFT_OUT])
        return OpenGeometry(self, sequences, chosen)

    def comparison(self, protocol: str) -> str:
        """Return the name of the records (the comparison) that a protocol scores.

        `roma` scores the homographies of `dkm`.
        """
        own = super().comparison(protocol)
        return (PROTOCOLS[own].comparison if own in PROTOCOLS else "") or own

    def method_facts(self, options: Any, meta: Mapping[str, Any], comparison: str) -> dict[str, Any]:
        """Return the versions of the estimator libraries. Empty for the comparisons `exact` and `d2net`."""
        if comparison in ("exact", D2NET, f"{D2NET}{ARROW}"):
            return {}
        called = [s.estimator for s in _protocol(comparison, options.settings()).settings if is_installed(s)]
        return {"versions": {name: v for e in called for name, v in homography_versions(e).items()}}

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning if the matches lack the confidence by which the protocol ranks them."""
        told = super().record_warnings(records)
        name = str(records[0].meta.get("protocol", "")) if records else ""
        if name in ("loftr", "glue-factory") and not all(all(r.meta["scored"]) for r in records):
            told.append(
                f"{name} ranks matches by confidence, but the method returned none, so all matches count "
                "the same"
            )
        return told

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the additional comparisons that the steps from each protocol to `exact` need."""
        if "exact" not in protocols:
            return ()
        return tuple(f"{p}{ARROW}" for p in protocols if p != "exact")

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the homography AUC and MMA after each step from a protocol to `exact`."""
        tables: list[StepTable] = []
        for comparison, walked in records.items():
            if not comparison.endswith(ARROW) or not walked:
                continue
            name = comparison.removesuffix(ARROW)
            if name == D2NET:
                tables += d2net_steps(records[D2NET], walked, records["exact"])
            else:
                tables += homography_step_tables(name, records[self.comparison(name)], walked)
        return tables

    def unit_facts(self, opened: OpenGeometry) -> Mapping[str, UnitFacts]:
        """Return the kind and the number of image pairs of every scene."""
        s = opened.sequences
        which = opened.options.sequences or ""
        return {n: _facts(n, s.kind(n), len(s.images(n)) - 1, which) for n in s.scenes}

    def facts_of(self, record: Records) -> UnitFacts:
        """Return the kind and the number of image pairs of a scene from its records."""
        meta = record.meta
        scene = str(meta["scene"])
        which = str(meta["options"].get("sequences") or "")
        return _facts(scene, str(meta.get("kind", "")), len(meta["images"]), which)

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return the weights of the scenes in a score."""
        if (protocol, metric) == (D2NET, "mma"):
            reason = "it divides by the pairs of the complete dataset; race mma_of_pairs"
            raise not_raceable(self.name, metric, group, reason)
        if protocol != "exact" and "kind" in group_parts(group):
            raise not_raceable(
                self.name,
                metric,
                group,
                "scores by kind can be raced only under exact; race the score over all scenes",
            )
        return super().unit_weights(units, protocol, metric, group)

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return weights in proportion to image pairs, without the scenes that the protocol excludes."""
        which = {str((units[key].groups or {})["sequences"]) for key in sizes}.pop()
        without = (which or "108") == "108" if protocol == D2NET else False
        trapezoid = False
        if protocol in PROTOCOLS:
            rule = protocol_under(protocol, {"sequences": which or None})
            without, trapezoid = rule.leaves_out, rule.scoring.area != "exact"
        counted = {k: n for k, n in sizes.items() if not (without and k in LEFT_OUT)}
        return unit_weights(units, counted, note=TRAPEZOID if trapezoid else "", unit="scene")

    def unit_values(
        self, records: Mapping[str, Records], protocol: str, metric: str, group: str
    ) -> Mapping[str, float]:
        """Return each scene's mean over its image pairs. Areas are exact, even if a protocol's are not."""
        if protocol in PROTOCOLS and metric == "homography_auc":
            px = float(group_parts(group).get("tau_px", HEADLINE_PX))
            return {key: exact_area(r, protocol, px) for key, r in records.items()}
        return super().unit_values(records, protocol, metric, group)

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Compute the curve of mean matching accuracy against threshold, overall and by scene."""
        groups = [("all", list(records)), *((f"scene={r.meta['scene']}", [r]) for r in records)]
        for group, chosen in groups:
            column = f"accuracy_{GIVEN}" if f"accuracy_{GIVEN}" in chosen[0].columns else "accuracy_mutual"
            rows = np.concatenate([r[column] for r in chosen])
            yield group, "mma", geometry_thresholds(chosen[0].meta.get("options", {})), rows.mean(axis=0)

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return all images of a scene except image 1, scored by their correct matches."""
        return cases(records, scene)

    def match_count(self, records: Sequence[Records], scene: str, key: str) -> int | None:
        """Return the number of given or mutual matches of the image `key`. None if it has no records."""
        return match_count(records, scene, key)


def _facts(scene: str, kind: str, pairs: int, sequences: str) -> UnitFacts:
    return UnitFacts(scene, kind, float(pairs), groups={"sequences": sequences})


TASK = KeypointGeometry()
