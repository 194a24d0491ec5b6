# SPDX-License-Identifier: BSD-3-Clause
"""Options that several keypoint tasks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ..options import Flag, Names, TaskOptions

LATER: Mapping[str, Any] = {"border_px": None, "tie": "protocol", "distractors": "drawn"}
"""Options added after the first version, with their defaults, at which they do not change run ids."""


class SceneOptions(TaskOptions):
    """Options of every keypoint task."""

    scenes: Names | None = None
    """Names of the sequences to use. The default is all sequences."""

    border_px: Annotated[float, Field(ge=0)] | None = None
    """Width in pixels of the image border in which detected keypoints are excluded. The default is 40 under
    `workbench` and 0 otherwise. Keypoint sets and files of other programs are not filtered."""

    def settings(self) -> dict[str, Any]:
        """Return the options that affect records, as plain values.

        Options in `LATER` are omitted if not set.
        """
        plain = self.model_dump(mode="json", exclude={"scenes"})
        return {name: value for name, value in plain.items() if name not in LATER or value != LATER[name]}


class TruthOptions(SceneOptions):
    """Options of tasks whose ground truth has a tolerance."""

    tau_px: Annotated[float, Field(gt=0)] = 3.0
    """Tolerance of the ground truth in pixels of the target image, inclusive."""


class DrawOptions(TruthOptions):
    """Options of the tasks that sample queries and distractors."""

    seed: int = 42
    """Seed of all random samples."""

    iterations: Annotated[int, Field(ge=1)] = 5
    """Number of iterations with new random samples (`exact`, `bojanic`). The score is their mean."""

    queries: Annotated[int, Field(ge=1)] = 100
    """Number of reference keypoints sampled per scene and iteration (`exact`, `bojanic`)."""


class DistractorOptions(DrawOptions):
    """Options of `keypoints/verification` and `keypoints/retrieval`."""

    distractor_images: Annotated[int, Field(ge=1)] = 99
    """Number of images of other scenes with which each query is compared (`exact`, `bojanic`)."""

    self_distractor: Flag = False
    """Under `bojanic`, allow the query's own reference image as a distractor, as the original does."""

    num_distractor_scenes: Annotated[int, Field(ge=0)] = 10
    """Number of other scenes that provide distractors under `workbench`."""

    num_distractors_per_scene: Annotated[int, Field(ge=0)] = 20
    """Number of keypoints sampled per query from each of these scenes (`workbench`)."""
