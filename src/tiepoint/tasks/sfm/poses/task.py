# SPDX-License-Identifier: BSD-3-Clause
"""Task `sfm/poses`: compare the camera poses of finished reconstructions with the true poses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.errors import InputError, UnknownNameError
from ....core.hashing import hash_array, hash_json
from ....core.records import Records
from ....core.scores import Score
from ....datasets.reconstructions.scenes import TrueScene, read_estimates, read_truth, result_methods
from ...base import BaseTask, Column, MetricInfo, TaskData, TaskInfo
from ...info import count
from ...steps import StepTable
from ..compare import scene_records
from ..protocols import DEGREES, PROTOCOLS
from ..score import score
from ..steps import step_tables
from .data import OpenPoses, PosesOptions

CITE = (
    '@inproceedings{schoenberger2016sfm, title={Structure-from-Motion Revisited}, author={Sch{\\"o}nberger, '
    "Johannes L. and Frahm, Jan-Michael}, booktitle={CVPR}, year={2016}}",
    "@article{jin2021image, title={Image Matching across Wide Baselines: From Paper to Practice}, author={"
    "Jin, Yuhe and Mishkin, Dmytro and Mishchuk, Anastasiia and Matas, Jiri and Fua, Pascal and Yi, Kwang "
    "Moo and Trulls, Eduard}, journal={IJCV}, year={2021}}",
)
_AREA = "share of the area under the recall curve of {} up to {} degrees, over ordered pairs of images"
_MODEL = "describes the model, does not score it"


def _degrees(words: str) -> Any:
    return lambda parts: f"{_AREA.format(words, parts.get('threshold_deg', '5'))}, {_mean(parts)}"


def _mean(parts: Mapping[str, str]) -> str:
    """Return what the mean of a group is over: scenes, or all pairs of all scenes."""
    return "pairs of all scenes pooled" if parts.get("weighting") == "pairs" else "mean over scenes"


def _choose_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a narrow table: AUC and other headline scores, then properties of the models."""
    wanted: list[Column] = [("auc", f"threshold_deg={t:g}") for t in DEGREES]
    wanted = wanted if set(wanted) & set(columns) else [("auc", "all")]
    wanted += [
        (m, "all") for m in ("maa_clusterness", "maa", "clusterness", "absolute_auc", "ape_translation")
    ]
    wanted += [(m, "all") for m in ("registered", "models", "points", "track_length")]
    return [c for c in wanted if c in columns]


class SfmPoses(BaseTask):
    """Task `sfm/poses`: poses of reconstructions under `exact` and seven rules of other benchmarks.

    Records contain the true and the estimated poses, so every protocol is scored from the same records.
    """

    name = "sfm/poses"
    family = "sfm"
    protocols = PROTOCOLS
    options = PosesOptions
    info = TaskInfo(
        "How well does a reconstruction give the poses of its cameras?",
        ("auc", "all"),
        {
            "auc": MetricInfo(
                _degrees("pose errors (the larger of both angles)"), short="@5°", threshold_unit="°"
            ),
            "auc_rotation": MetricInfo(_degrees("rotation errors"), short="@5°"),
            "auc_translation": MetricInfo(_degrees("errors of the direction of translation"), short="@5°"),
            "accuracy": MetricInfo(
                lambda parts: (
                    f"share of pairs with a pose error up to {parts.get('threshold_deg', '5')} degrees, "
                    f"{_mean(parts)}"
                ),
                short="@5°",
            ),
            "registered": MetricInfo("share of the true images with a pose in any model; no score of poses"),
            "largest": MetricInfo("share of the true images in the largest model"),
            "models": count("models with an image, mean over scenes"),
            "rotation_error_deg": MetricInfo(
                "median over the pairs of a scene, mean over scenes, of the angle between rotations; a miss "
                "is 180",
                unit="deg",
                better="lower",
            ),
            "translation_error_deg": MetricInfo(
                "median over the pairs of a scene, mean over scenes, of the angle between directions of "
                "translation; a miss is 180",
                unit="deg",
                better="lower",
            ),
            "points": count(f"3D points, mean over scenes; {_MODEL}"),
            "track_length": count(f"observations of a point, mean; {_MODEL}"),
            "observations_per_image": count(f"observations of points in an image, mean; {_MODEL}"),
            "reprojection_error_px": MetricInfo(
                lambda parts: (
                    f"{'mean over points' if 'over' in parts else 'median over observations'} of the error "
                    f"of their point, as the model states it, mean over scenes; {_MODEL}"
                ),
                unit="px",
                better=None,
            ),
            "absolute_auc": MetricInfo(
                lambda parts: (
                    "share of the area under the recall curve of errors of camera centres after alignment, "
                    f"up to {parts.get('threshold') or parts.get('extent') or 'a threshold'} "
                    + ("of the scene's extent" if "extent" in parts else "in units of the truth")
                ),
                threshold_unit="units",
            ),
            "absolute_accuracy": MetricInfo(
                "share of camera centres within a distance of the true ones after alignment",
                threshold_unit="units",
            ),
            "maa": MetricInfo("mean average accuracy of the Image Matching Challenge"),
            "maa_rotation": MetricInfo("mean average accuracy of rotations"),
            "maa_translation": MetricInfo("mean average accuracy of translations, in metres"),
            "maa_clusterness": MetricInfo("harmonic mean of mean average accuracy and clusterness"),
            "clusterness": MetricInfo(
                "share of the images of the chosen clusters that belong to their scene"
            ),
            "ape_translation": MetricInfo(
                "error of camera centres after alignment, of the registered images alone",
                unit="units",
                better="lower",
            ),
            "ape_rotation_deg": MetricInfo(
                "angle between camera orientations after alignment, of the registered images alone",
                unit="deg",
                better="lower",
            ),
            "rpe_translation": MetricInfo(
                "error of the motion between consecutive registered images", unit="units", better="lower"
            ),
            "rpe_rotation_deg": MetricInfo(
                "angle error of the motion between consecutive registered images", unit="deg", better="lower"
            ),
            "failures": MetricInfo("pairs without an estimate", unit="count", better="lower"),
            "merged_pairs": MetricInfo(
                "pairs of two components, or with an outlier, in one model", unit="count", better="lower"
            ),
            "short_baselines": count("pairs judged by rotation alone: their cameras share a centre"),
            "invalid_poses": MetricInfo("poses that are not finite", unit="count", better="lower"),
            "without_truth": count("registered images without truth, ignored by `exact`"),
        },
        choose_columns=_choose_columns,
        table_note="auc is the area up to 0.5, 1, 5 and 10 degrees",
        cite=CITE,
        licence="poses: the licence of their dataset",
        title="Reconstructed poses",
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenPoses:
        """Open the true poses of a file or folder. Report all problems in one error."""
        return self.open_scenes(read_truth(Path(data)), options)

    def open_scenes(self, scenes: Sequence[TrueScene], options: Mapping[str, Any]) -> OpenPoses:
        """Open true scenes that have already been read, or that are given as arrays."""
        return OpenPoses(scenes, self.options.parse(self.name, options))

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, `exact`: all protocols score the same poses."""
        super().comparison(protocol)
        return "exact"

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return score(records, protocol)

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings about result files, image names, missing images and inverted poses."""
        return list(dict.fromkeys(str(w) for r in records for w in r.meta["warnings"]))

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the AUC after each step from the rules of other benchmarks to `exact`."""
        return step_tables(records) if records else []

    def family_for(self, method: Any) -> str:
        """Raise an error: methods do not run on this task."""
        raise InputError(
            "sfm/poses scores finished reconstructions; use `tiepoint score sfm/poses --results DIR --data "
            "TRUTH`"
        )

    def for_family(self, data: Any, family: str) -> TaskData:
        """Return the data unchanged, because methods do not run on this task."""
        return data

    # result files

    def result_folders(self, results: Path, opened: OpenPoses) -> dict[str, Path]:
        """Return the file or folder of each method by the method's name."""
        return result_methods(results, [s.name for s in opened.scenes])

    def result_hashes(self, folder: Path, records: Sequence[Records]) -> dict[str, str]:
        """Return a hash of the poses of each scene."""
        return {
            str(r.meta["scene"]): hash_json([{k: hash_array(v) for k, v in r.columns.items()}, dict(r.meta)])
            for r in records
        }

    def records_from_results(self, folder: Path, opened: OpenPoses, on_bad: str = "error") -> list[Records]:
        """Read the records of every scene from a file or folder of one method."""
        if on_bad != "error":
            raise UnknownNameError("value of on_bad", on_bad, ("error",))
        found = read_estimates(folder, [s.name for s in opened.scenes])
        chosen = opened.options
        return [
            scene_records(s, found[s.name], cluster=chosen.cluster, absolute=chosen.absolute)
            for s in opened.scenes
        ]


TASK = SfmPoses()
