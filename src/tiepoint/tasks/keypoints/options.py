# SPDX-License-Identifier: BSD-3-Clause
"""Options of the keypoint tasks: checked, with unknown names refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...core.errors import InputError
from ..options import Flag, Names, Sizes, TaskOptions

LATER: Mapping[str, Any] = {"border_px": None, "tie": "protocol", "distractors": "drawn"}
"""Options that the first version did not have, with their defaults: these leave identities as they were."""


class SceneOptions(TaskOptions):
    """What every keypoint task knows."""

    scenes: Names | None = None
    """Names of the sequences to use; all by default."""

    border_px: Annotated[float, Field(ge=0)] | None = None
    """Keypoints that the method detects nearer than this to an edge of their image are left out; 40 under
    `workbench`, 0 under the others. Keypoint sets and files of another program are used as they are."""

    def settings(self) -> dict[str, Any]:
        """The options that decide about records, as plain values; `LATER` ones only where they are set."""
        plain = self.model_dump(mode="json", exclude={"scenes"})
        return {name: value for name, value in plain.items() if name not in LATER or value != LATER[name]}


class TruthOptions(SceneOptions):
    """What tasks with a ground truth at a tolerance know."""

    tau_px: Annotated[float, Field(gt=0)] = 3.0
    """Tolerance of the ground truth in pixels of the target image, inclusive."""


class RankingOptions(TruthOptions):
    """Options of `keypoints/ranking`."""

    policy: Literal["all_within_tau", "nearest", "mutual"] = "all_within_tau"
    """Which target locations are right answers under `exact`."""

    gallery: Sizes = (250, 500, 1000, 2000)
    """Numbers of target locations for the gallery-controlled scores of `exact`."""

    seed: int = 0
    """Seed of the gallery subsets."""

    keypoint_source: Literal["independent_detection", "homography_projection", "database"] = (
        "independent_detection"
    )
    """Under `workbench`, `homography_projection` says that row i is the same point in all images. So it is in
    a set made with ``mode=projected``, which needs no option; `database` says that it is not."""

    tie: Literal["protocol", "optimistic"] = "protocol"
    """How `workbench` ranks equal distances: half a place each, rounded up, as the program does (`protocol`),
    or not at all, as its documentation writes (`optimistic`): rank = 1 + number of smaller distances."""


class DrawOptions(TruthOptions):
    """Options of the tasks that draw queries and distractors."""

    seed: int = 42
    """Seed of all draws."""

    iterations: Annotated[int, Field(ge=1)] = 5
    """Repetitions with new draws (`exact`, `bojanic`); the score is their mean."""

    queries: Annotated[int, Field(ge=1)] = 100
    """Reference keypoints drawn per scene and iteration (`exact`, `bojanic`)."""


class DistractorOptions(DrawOptions):
    """Options of `keypoints/verification` and `keypoints/retrieval`."""

    distractor_images: Annotated[int, Field(ge=1)] = 99
    """Images of other scenes each query is compared with (`exact`, `bojanic`)."""

    self_distractor: Flag = False
    """Under `bojanic`, let the query's own reference image be drawn as a distractor, as the original does."""

    num_distractor_scenes: Annotated[int, Field(ge=0)] = 10
    """Other scenes that give distractors under `workbench`."""

    num_distractors_per_scene: Annotated[int, Field(ge=0)] = 20
    """Keypoints of each such scene, drawn per query (`workbench`)."""


class KeypointRetrievalOptions(DistractorOptions):
    """Options of `keypoints/retrieval`."""

    exact_alone: ClassVar[Mapping[str, Any]] = {"distractors": "every"}

    distractors: Literal["drawn", "every"] = "drawn"
    """The nearest of 100 drawn keypoints of each drawn image, or every keypoint location of every image of
    all other scenes (`exact`): nothing is drawn then but the queries."""

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Refuse what has no effect, here also a number of images to draw where none is drawn."""
        super().check_protocols(task, given, protocols)
        chosen, name = cls.parse(task, given), "distractor_images"
        if chosen.distractors == "every" and chosen.distractor_images != cls.model_fields[name].default:
            raise InputError(f"option {name} of {task} has no effect with distractors=every; leave it out")
