# SPDX-License-Identifier: BSD-3-Clause
"""Options that several keypoint tasks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ..options import Flag, Names, TaskOptions

LATER: Mapping[str, Any] = {"border_px": None, "tie": "protocol", "distractors": "drawn"}
"""Options that the first version did not have, with their defaults: these leave identities as they were."""


class SceneOptions(TaskOptions):
    """Options of every keypoint task."""

    scenes: Names | None = None
    """Names of the sequences to use; all by default."""

    border_px: Annotated[float, Field(ge=0)] | None = None
    """Keypoints that the method detects nearer than this to an edge of their image are excluded; 40 under
    `workbench`, 0 under the others. Keypoint sets and files of another program are used as they are."""

    def settings(self) -> dict[str, Any]:
        """Return the options that affect records, as plain values; `LATER` ones only if they are set."""
        plain = self.model_dump(mode="json", exclude={"scenes"})
        return {name: value for name, value in plain.items() if name not in LATER or value != LATER[name]}


class TruthOptions(SceneOptions):
    """Options of tasks with a ground-truth tolerance."""

    tau_px: Annotated[float, Field(gt=0)] = 3.0
    """Tolerance of the ground truth in pixels of the target image, inclusive."""


class DrawOptions(TruthOptions):
    """Options of the tasks that draw queries and distractors."""

    seed: int = 42
    """Seed of all draws."""

    iterations: Annotated[int, Field(ge=1)] = 5
    """Repetitions with new draws (`exact`, `bojanic`); the score is their mean."""

    queries: Annotated[int, Field(ge=1)] = 100
    """Reference keypoints sampled per scene and iteration (`exact`, `bojanic`)."""


class DistractorOptions(DrawOptions):
    """Options of `keypoints/verification` and `keypoints/retrieval`."""

    distractor_images: Annotated[int, Field(ge=1)] = 99
    """Images of other scenes each query is compared with (`exact`, `bojanic`)."""

    self_distractor: Flag = False
    """Under `bojanic`, allow the query's own reference image as a distractor, as the original does."""

    num_distractor_scenes: Annotated[int, Field(ge=0)] = 10
    """Other scenes that give distractors under `workbench`."""

    num_distractors_per_scene: Annotated[int, Field(ge=0)] = 20
    """Keypoints of each such scene, sampled per query (`workbench`)."""
