# SPDX-License-Identifier: BSD-3-Clause
"""Task `pose/relative`: estimate the relative camera pose from matches of two images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from ...core.errors import InputError
from ...core.formatting import count_text
from ...core.records import Arrays, Records
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairTruth
from ...geometry.two_view.pose_estimation import estimator_versions
from ..base import Column, MetricInfo, TaskInfo
from ..info import count
from ..options import parse_list
from ..pairs.data import OpenPairs, PairsOptions, PairsTask, matches_of
from ..steps import StepTable
from ..unit_values import (
    TRAPEZOID,
    Means,
    Reasons,
    UnitFacts,
    UnitWeights,
    group_parts,
    not_raceable,
    unit_weights,
)
from .compare import Poses, compare, pose_row_errors
from .imported import (
    has_imported_facts,
    imported_facts,
    imported_scores,
    imported_values,
    imported_weights,
    is_imported,
    only_pairs,
    unit_keys,
)
from .protocols import PROTOCOLS, ImageFrame, PoseProtocol, exact_protocol, parse_image_frame
from .score import HEADLINE_DEG, headline_rows, pair_shares, pose_values, protocol_of, score
from .steps import ARROW, pose_step_chain, pose_step_tables, steps_comparison_name

CITE = (
    "@inproceedings{sarlin2020superglue, title={{SuperGlue}: Learning Feature Matching with Graph Neural "
    "Networks}, author={Sarlin, Paul-Edouard and DeTone, Daniel and Malisiewicz, Tomasz and Rabinovich, "
    "Andrew}, booktitle={CVPR}, year={2020}}",
    "@inproceedings{dai2017scannet, title={{ScanNet}: Richly-annotated {3D} Reconstructions of Indoor "
    "Scenes}, author={Dai, Angela and Chang, Angel X. and Savva, Manolis and Halber, Maciej and Funkhouser, "
    "Thomas and Nie{\\ss}ner, Matthias}, booktitle={CVPR}, year={2017}}",
    "@inproceedings{li2018megadepth, title={{MegaDepth}: Learning Single-View Depth Prediction from Internet "
    "Photos}, author={Li, Zhengqi and Snavely, Noah}, booktitle={CVPR}, year={2018}}",
)
_DEGREES = "share of the area under the recall curve of pose errors up to {} degrees"


def _budgets(value: Any) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(v) for v in parse_list(value)}))
    except (TypeError, ValueError):
        found = (0,)
    if any(number < 5 for number in found):
        raise ValueError(f"budget: found {value!r}; pass integers from 5, separated by commas")
    return found


def _near_line(parts: Mapping[str, str]) -> str:
    """Return a description of the match precision.

    Only thresholds of the mean distance are named in the group.
    """
    limit = "squared distance below 5e-4 squared focal lengths"
    if "threshold" in parts:
        limit = f"distance below {parts['threshold']} focal lengths"
    return f"share of matches with an epipolar {limit}, mean over pairs"


class RelativeOptions(PairsOptions):
    """Options of `pose/relative`."""

    estimator: Literal["poselib", "opencv"] = "poselib"
    """Pose estimator under `exact`: PoseLib, or OpenCV's USAC with MAGSAC scoring."""

    threshold_px: Annotated[float, Field(gt=0)] = 1.0
    """Inlier threshold of the headline under `exact`, in resized pixels; 0.5, 1 and 2 are also reported."""

    side_px: Annotated[float, Field(gt=0)] = 1000.0
    """Longer side in pixels to which both images are resized under `exact`."""

    seeds: Annotated[int, Field(ge=1)] = 5
    """Seeds of the estimator under `exact`."""

    frame: Annotated[str, BeforeValidator(lambda text: str(parse_image_frame(str(text))))] | None = None
    """Image size in which the papers' protocols apply their threshold, for every dataset: original,
    WIDTHxHEIGHT, long:SIDE or short:SIDE."""

    permutation_seed: int = 0
    """Seed of the match order under protocols that shuffle the matches."""

    budget: Annotated[tuple[int, ...], BeforeValidator(_budgets)] = ()
    """Numbers of highest-confidence matches to score in addition to all matches, such as 512,1024,2048."""

    cluster: Literal["scene", "image"] = "scene"
    """What intervals resample: scenes, or images if there are few scenes. The score states which."""

    only_under: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("estimator", "threshold_px", "side_px", "seeds", "cluster"), "exact"
    )

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Raise an error for options without effect, or for protocols whose estimator is not installed."""
        super().check_protocols(task, given, protocols)
        chosen = cls.parse(task, given)
        if chosen.frame is not None and set(protocols) <= {"exact"}:
            raise InputError(
                f"option frame of {task} has no effect under exact, which uses `side_px`; request "
                "another protocol too, or remove the option"
            )
        for name in (p for p in protocols if p in PROTOCOLS):
            made = exact_protocol(**_exact_options(chosen)) if name == "exact" else PROTOCOLS[name]
            for setting in made.settings:
                try:
                    estimator_versions(setting.estimator)
                except InputError as e:
                    raise InputError(f"protocol {name} of {task}: {e}") from e


def _at(words: str) -> Any:
    return lambda parts: words.format(parts.get("threshold_deg", HEADLINE_DEG))


def _choose_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the three AUC columns that papers print, then the other scores."""
    wanted: list[Column] = [("auc", f"threshold_deg={t}") for t in (5, 10, 20)]
    wanted = wanted if set(wanted) & set(columns) else [("auc", "all")]
    wanted += [(m, "all") for m in ("precision", "matches", "inliers", "failures")]
    return [c for c in wanted if c in columns]


class RelativePose(PairsTask):
    """Task `pose/relative`: rotation and translation direction, under `exact` and the protocols of papers.

    Records contain every estimated pose. Angles, failures and AUC are computed when scoring.
    """

    name = "pose/relative"
    needs = "pose"
    options = RelativeOptions
    libraries = ("cv2", "poselib")
    means: ClassVar[Means] = {
        "auc": frozenset({"threshold_deg", "set"}),
        "accuracy": frozenset({"threshold_deg", "set"}),
        "map": frozenset({"threshold_deg"}),
        "maa": frozenset(),
        "mean_auc": frozenset(),
    }
    reasons: ClassVar[Reasons] = {
        **dict.fromkeys(
            ("rotation_error_deg", "translation_error_deg"), "a median is no mean of unit values"
        ),
        **dict.fromkeys(
            ("precision", "epipolar_precision_px", "matching_score"),
            "a pair without matches has no value under some protocols; race auc or accuracy",
        ),
    }
    protocols = tuple(PROTOCOLS)
    info = TaskInfo(
        "How well do the matches of two images give the motion between their cameras?",
        ("auc", "all"),
        {
            "auc": MetricInfo(_at(f"{_DEGREES}; the error is the larger of both angles"), short="@10°"),
            "auc_seed_sd": MetricInfo(
                "standard deviation of the area over seeds of the estimator", better="lower"
            ),
            "auc_seed_min": MetricInfo("smallest area over seeds of the estimator"),
            "auc_seed_max": MetricInfo("largest area over seeds of the estimator"),
            "accuracy": MetricInfo(_at("share of pairs with a pose error below {} degrees")),
            "map": MetricInfo(_at("mean of the accuracies up to {} degrees in steps of 5 degrees")),
            "maa": MetricInfo("mean accuracy at 1, 2, …, 10 degrees"),
            "mean_auc": MetricInfo("mean of the areas up to 5, 10 and 20 degrees"),
            "rotation_error_deg": MetricInfo(
                "median over pairs, failures included, of the angle between rotations",
                unit="deg",
                better="lower",
            ),
            "translation_error_deg": MetricInfo(
                "median over pairs, failures included, of the angle between translation directions",
                unit="deg",
                better="lower",
            ),
            "precision": MetricInfo(_near_line, threshold_unit="focal lengths"),
            "epipolar_precision_px": MetricInfo(
                lambda parts: (
                    f"share of matches within {parts.get('tau_px', 'some')} px of their true epipolar lines, "
                    "mean over pairs"
                )
            ),
            "matching_score": MetricInfo(
                "correct matches divided by the keypoints of the first image, mean over pairs"
            ),
            "inliers": count("matches that agree with the estimated pose, mean over pairs"),
            "matches": count("matches, mean over pairs"),
            "failures": MetricInfo("pairs for which some call gave no pose", unit="count", better="lower"),
            "failures_with_right_matches": MetricInfo(
                "imported pairs without a pose that have at least 100 correct matches and 90 % correct ones",
                unit="count",
                better="lower",
            ),
        },
        other_headlines=(("auc", "threshold_deg=5"),),
        columns=("auc", "accuracy", "precision", "matches", "inliers", "failures"),
        choose_columns=_choose_columns,
        table_note="auc is the area up to 5, 10 and 20 degrees",
        cite=CITE,
        licence="ScanNet: terms of use on request; MegaDepth: images under their own licences",
        title="Relative pose",
        protocol_versions={"roma": 2, "xfeat": 2},
    )

    def comparison(self, protocol: str) -> str:
        """Return the name of the records that a protocol scores. `zeb` scores the poses of `loftr`."""
        own = super().comparison(protocol)
        return PROTOCOLS[own].comparison or own

    def data_warnings(self, opened: OpenPairs) -> Sequence[str]:
        """Return a warning about pairs that occur in both directions."""
        found = []
        names = {(str(p.image0), str(p.image1)) for p in opened.pairs.values()}
        twice = sum((b, a) in names for a, b in names) // 2
        if twice:
            pairs = count_text(twice, "image pair")
            found.append(f"the dataset has {pairs} in both directions; `exact` counts each pair once")
        return found

    def settings(self, comparison: str, options: RelativeOptions, dataset: str) -> PoseProtocol:
        """Return the protocol of a comparison with a run's options, for pairs of a dataset."""
        exact = exact_protocol(**_exact_options(options))
        if comparison == "exact":
            return exact
        if comparison.endswith(ARROW):
            return pose_step_chain(comparison.removesuffix(ARROW), dataset, exact)
        protocol = PROTOCOLS[comparison]
        if options.frame is None:
            return protocol
        frames: Mapping[str, ImageFrame] = {"": parse_image_frame(options.frame)}
        return replace(protocol, settings=tuple(replace(s, frames=frames) for s in protocol.settings))

    def compare_pair(self, truth: PairTruth, arrays: Arrays, options: Any, comparison: str) -> Records:
        """Compute the result records of a pair: the poses estimated under every setting of a protocol."""
        pair = truth.pair
        matches = matches_of(arrays, pair.name)
        budgets = (0,) if comparison.endswith(ARROW) else (0, *options.budget)
        chosen = [matches if b == 0 else matches.best(b, pair.name) for b in budgets]
        protocol = self.settings(comparison, options, pair.dataset)
        meta = {
            "protocol": comparison,
            "exact": _exact_options(options),
            "budgets": list(budgets),
            "cluster": options.cluster,
        }
        return compare(truth, dict(zip(budgets, chosen, strict=True)), protocol, options, meta)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return imported_scores(records, protocol) if is_imported(records) else score(records, protocol)

    def record_facts(self, records: Mapping[str, Records]) -> Mapping[str, UnitFacts]:
        """Return the properties of all pairs from their records.

        Imported pose errors have one record for all pairs.
        """
        if is_imported(records.values()):
            return {key: facts for r in records.values() for key, facts in imported_facts(r).items()}
        return super().record_facts(records)

    def common_units(self, records: Sequence[Records]) -> Sequence[Records] | None:
        """Return imported pose errors restricted to the pairs that all of them contain.

        None if no record is imported.
        """
        if not records or not all(is_imported([r]) for r in records):
            return None
        keys = set.intersection(*(set(unit_keys(r)) for r in records))
        return [only_pairs(r, keys) for r in records]

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return equal weights of the pairs. Under `exact`, a pair in both directions has 1/2 for each."""
        parts = self.raceable_parts(metric, group)
        if has_imported_facts(units):
            return imported_weights(units, metric, parts)
        if "set" in parts:
            raise not_raceable(
                self.name, metric, group, "only imported results have sets; choose another group"
            )
        self.check_raceable(units, protocol, metric, group)
        images = {key: facts.images or (key, "") for key, facts in units.items()}
        sizes = dict.fromkeys(units, 1.0)
        scoring = PROTOCOLS[protocol].scoring
        if protocol == "exact":
            both = set(images.values())
            sizes = {k: 0.5 if (b, a) in both and a != b else 1.0 for k, (a, b) in images.items()}
        elif scoring.last_duplicate:
            last = {pair: key for key, pair in images.items()}
            sizes = {key: 1.0 for key in units if last[images[key]] == key}
        elif scoring.again and len({units[k].kind in scoring.again for k in units}) > 1:
            reason = f"{protocol} counts the last repeat twice for some of these datasets; race one dataset"
            raise not_raceable(self.name, metric, group, reason)
        trapezoid = metric in ("auc", "mean_auc") and scoring.area != "exact"
        return unit_weights(units, sizes, note=TRAPEZOID if trapezoid else "")

    def check_raceable(
        self,
        units: Mapping[str, UnitFacts],
        protocol: str,
        metric: str,
        group: str,
    ) -> None:
        """Raise an error for scores that are not means over pairs, or with a threshold chosen by results."""
        rule, reason = PROTOCOLS[protocol], None
        if {facts.kind for facts in units.values()} & set(rule.scoring.best_px):
            reason = f"{protocol} chooses the threshold with the best area on all pairs"
        elif metric == "maa" and protocol != "exact":
            reason = (
                f"under {protocol} it is a mean over scenes of the mean over repeats; race it under exact"
            )
        if reason is not None:
            raise not_raceable(self.name, metric, group, reason)

    def unit_values(
        self, records: Mapping[str, Records], protocol: str, metric: str, group: str
    ) -> Mapping[str, float]:
        """Return the value of each pair in a score, averaged over seeds or repeats.

        Areas are computed as under `exact`, also for protocols with trapezoid areas.
        """
        if is_imported(records.values()):
            parts = group_parts(group)
            return {k: v for r in records.values() for k, v in imported_values(r, metric, parts).items()}
        return pose_values(records, protocol, metric, group_parts(group)) if records else {}

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings about datasets unknown to the protocol, and cameras that share their centre."""
        told = []
        still = sum(bool(r.meta["still"]) for r in records)
        if still:
            pairs = count_text(still, "pair")
            told.append(f"the dataset has {pairs} without translation; `exact` scores only their rotation")
        unknown = sorted({str(r.meta["dataset"]) or "not named" for r in records if r.meta["unknown"]})
        if unknown:
            name = records[0].meta["protocol"]
            told.append(
                f"{name} has no rule for the dataset {', '.join(unknown)} and uses original pixels; "
                "`frame` sets another size"
            )
        if records and records[0].meta["protocol"] == "roma":
            told.append(
                "roma samples its matches again for every repeat, but the method returned fixed matches, "
                "which are only shuffled"
            )
        return told

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the records that explain how each protocol differs from `exact`.

        Several protocols may share the same records.
        """
        if "exact" not in protocols:
            return ()
        return tuple(dict.fromkeys(steps_comparison_name(p) for p in protocols if p != "exact"))

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the AUC after each step from a protocol to `exact`."""
        last = records["exact"]
        exact = protocol_of(last, "exact")
        tables: list[StepTable] = []
        for name in self.protocols[1:]:
            own, walked = records.get(self.comparison(name)), records.get(steps_comparison_name(name))
            if own and walked:
                tables += pose_step_tables(name, own, walked, last, exact)
        return tables

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return what each pair contributes to the AUC up to 10 degrees, for galleries of pictures."""
        if not records or records[0].meta["protocol"] != "exact":
            return
        poses, protocol = Poses(records), protocol_of(records, "exact")
        errors = pose_row_errors(poses, protocol)[2]
        table = pair_shares(poses, errors, headline_rows(poses, protocol), HEADLINE_DEG)
        for record, value in zip(records, table.mean(axis=0), strict=True):
            yield str(record.meta["pair"]), float(value)

    def pair_caption(self, records: Sequence[Records], pair: str) -> str:
        """Return a caption with the medians over seeds of both angle errors of a pair, under `exact`."""
        from .compare import Poses, pose_row_errors

        own = [r for r in records if r.meta["pair"] == pair and r.meta["protocol"] == "exact"]
        if not own:
            return ""
        poses, protocol = Poses(own), protocol_of(own, "exact")
        rows = headline_rows(poses, protocol)
        failed = int(poses.failed[rows].sum())
        if failed == rows.sum():
            return "no pose"
        e_t, e_R, e = (float(np.median(angles[rows])) for angles in pose_row_errors(poses, protocol))
        parts = f"rotation {e_R:.2f}°" + ("" if own[0].meta["still"] else f", translation {e_t:.2f}°")
        some = f", no pose under {failed} of {rows.sum()} seeds" if failed else ""
        return f"pose error {e:.2f}° ({parts}){some}"


def _exact_options(options: RelativeOptions) -> dict[str, Any]:
    return {
        "estimator": options.estimator,
        "side_px": options.side_px,
        "threshold_px": options.threshold_px,
        "seeds": options.seeds,
    }


TASK = RelativePose()
