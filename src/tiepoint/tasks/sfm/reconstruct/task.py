# SPDX-License-Identifier: BSD-3-Clause
"""Task `sfm/reconstruct`: reconstruct scenes from the matches of a method, and score the poses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.errors import InputError
from ....core.records import Records
from ....core.scores import Score
from ....datasets.reconstructions.image_scenes import read_image_scenes
from ....methods.pairs.factory import family_of_geometry, split_matcher
from ....methods.registry import MATCHED
from ....methods.spec import FilesSpec
from ...base import BaseTask, Column, MetricInfo, TaskData, TaskInfo
from ...info import count
from ...scene_views import SceneView, WorstImage
from ...steps import StepTable
from ..pipeline.files import write_models
from ..pipeline.mapping import colmap_build
from ..pipeline.views import scene_views, worst_images
from ..poses.task import TASK as POSES
from ..protocols import DEGREES, PROTOCOLS
from ..steps import step_tables
from .data import OpenReconstruct, ReconstructOptions
from .score import BY_SEED, by_seed, score

CITE = (
    *POSES.info.cite,
    "@inproceedings{pan2024glomap, title={Global Structure-from-Motion Revisited}, author={Pan, Linfei and "
    "Bar{\\'a}th, D{\\'a}niel and Pollefeys, Marc and Sch{\\\"o}nberger, Johannes L.}, booktitle={ECCV}, "
    "year={2024}}",
)


def _choose_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a narrow table: AUC at all thresholds, properties of the models, times."""
    wanted: list[Column] = [("auc", f"threshold_deg={t:g}") for t in DEGREES]
    wanted = wanted if set(wanted) & set(columns) else [("auc", "all")]
    wanted += [(m, "all") for m in (*BY_SEED[1:], "ape_translation")]
    wanted += [(m, "all") for m in ("registered_images", "points", "track_length", "reprojection_error_px")]
    wanted += [(m, "all") for m in ("matching_s", "verification_s", "mapping_s", "peak_mib")]
    return [c for c in wanted if c in columns]


def _time(words: str) -> MetricInfo:
    return MetricInfo(f"{words}, mean over scenes and seeds", unit="s", better="lower")


class SfmReconstruct(BaseTask):
    """Task `sfm/reconstruct`: poses from COLMAP's pipeline on a method's matches, scored as in `sfm/poses`.

    Records contain the true and the estimated poses of one seed, and what the pipeline reported.
    """

    name = "sfm/reconstruct"
    family = "sfm"
    protocols = PROTOCOLS
    options = ReconstructOptions
    info = TaskInfo(
        "How good are the poses that a reconstruction pipeline estimates from the matches of a method?",
        ("auc", "all"),
        {
            **POSES.info.metrics,
            **{
                f"{metric}_seed_{name}": MetricInfo(f"{words} of the score over seeds", better=better)
                for metric in BY_SEED
                for name, words, better in (
                    ("sd", "standard deviation", "lower"),
                    ("min", "smallest value", "higher"),
                    ("max", "largest value", "higher"),
                )
            },
            "registered_images": count("images with a pose in any model; a wrong pose counts"),
            "matches": count("matches between the images of a scene"),
            "inliers": count("matches that verification accepts, over the pairs of a scene"),
            "failed_seeds": MetricInfo(
                "share of seeds without a result: crash or time limit", better="lower"
            ),
            "features_s": MetricInfo(
                "time to compute the features of all scenes; of pair matchers, their matches",
                unit="s",
                better="lower",
            ),
            "matching_s": _time("time to match the images of a scene"),
            "verification_s": _time("time of COLMAP's geometric verification, one thread"),
            "mapping_s": _time("time of COLMAP's mapper, one thread"),
            "peak_mib": MetricInfo(
                "peak memory of the process that verifies and maps", unit="MiB", better="lower"
            ),
        },
        choose_columns=_choose_columns,
        table_note="auc is the area up to 0.5, 1, 5 and 10 degrees, mean over seeds",
        cite=CITE,
        licence="images and poses: the licence of their dataset",
        title="Reconstruction from images",
        not_raceable="a reconstruction needs all images of a scene, so a unit is a scene with all its pairs",
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenReconstruct:
        """Open a folder of images, or of scenes with images. Report all problems in one error."""
        chosen = self.options.parse(self.name, options)
        try:
            colmap_build()
        except InputError as e:
            raise InputError(f"{self.name}: {e}") from e
        return OpenReconstruct(read_image_scenes(Path(data)), chosen)

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, `exact`: all protocols score the same poses."""
        super().comparison(protocol)
        return "exact"

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return score(records, protocol)

    def time_scores(self, protocol: str, features_s: float, compare_s: float) -> list[Score]:
        """Return the time of feature extraction as a score. Records have the times of later stages."""
        return [Score("features_s", "all", features_s, 1, protocol)]

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings about names, missing truth and failed seeds."""
        return list(dict.fromkeys(str(w) for r in records for w in r.meta["warnings"]))

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the AUC of the first seed after each step from the rules of other benchmarks to `exact`."""
        known = [r for r in records if r.meta["has_truth"]]
        return step_tables(by_seed(known)[0]) if known else []

    def scene_views(self, records: Sequence[Records]) -> list[SceneView]:
        """Return the cameras and points of each scene, from its first seed with a model."""
        return scene_views(records)

    def worst_images(self, records: Sequence[Records]) -> list[WorstImage]:
        """Return the worst image of each scene, with those of its pairs that failed."""
        return worst_images(records)

    def write_models(self, records: Sequence[Records], folder: Path) -> list[Path]:
        """Write the COLMAP files ``SCENE/seedN/database.db`` and ``SCENE/seedN/sparse/0``."""
        return write_models(records, folder)

    def family_for(self, method: Any) -> str:
        """Return the family: `pairs` for methods that receive two images, else that of its keypoints."""
        plain = isinstance(method, str) and not isinstance(method, FilesSpec)
        found = family_of_geometry(split_matcher(method)[0] if plain else method)
        return MATCHED if found == "keypoints" else found

    def for_family(self, data: OpenReconstruct, family: str) -> TaskData:
        """Return the data with image pairs as items, for methods that receive two images."""
        return data.for_pairs() if family == "pairs" else data


TASK = SfmReconstruct()
