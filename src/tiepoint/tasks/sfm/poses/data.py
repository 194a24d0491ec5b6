# SPDX-License-Identifier: BSD-3-Clause
"""Data of `sfm/poses`: the true poses of scenes, and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ....core.errors import InputError, UnknownNameError
from ....core.formatting import format_seconds
from ....core.hashing import hash_json
from ....core.records import Features, Item, Records, Unit
from ....datasets.reconstructions.scenes import TrueScene
from ....geometry.similarity import load_pycolmap
from ....metrics.reconstruction.imc_centres import (
    THRESHOLDS_2024,
    THRESHOLDS_2025,
    expected_seconds,
)
from ...base import BaseTaskData
from ...options import Names, TaskOptions
from ..protocols import CENTRES

MANY_IMAGES = 200
"""Number of images of a scene above which a warning states the time of protocols that try all triples."""


TRUTH_OF_SFM = (
    "the truth was reconstructed from images: at small thresholds it favours methods like the "
    "one that made it"
)


class PosesOptions(TaskOptions):
    """Options of `sfm/poses`."""

    scenes: Names = ()
    """Scenes to use. The default is all scenes."""

    position_accuracy: Annotated[float, Field(ge=0)] | None = None
    """Accuracy of the true camera centres in units of the truth, instead of the one that the data states."""

    absolute: Literal["none", "umeyama"] = "none"
    """Also score camera centres under `exact` after a least-squares similarity (umeyama)."""

    cluster: Literal["scene", "image"] = "scene"
    """Unit of resampling for intervals: scenes, or images if there are few scenes. The score states the unit.
    """

    only_under: ClassVar[Mapping[str, str]] = dict.fromkeys(("absolute", "cluster"), "exact")

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Raise an error for options without effect, and for `colmap-absolute` without pycolmap."""
        super().check_protocols(task, given, protocols)
        if "colmap-absolute" in protocols:
            try:
                load_pycolmap()
            except InputError as e:
                raise InputError(f"protocol colmap-absolute of {task}: {e}") from e


class OpenPoses(BaseTaskData):
    """True scenes of a folder or file. Each scene is a unit. Methods do not run on this data."""

    def __init__(self, scenes: Sequence[TrueScene], options: PosesOptions) -> None:
        self.options = options
        found = tuple(scenes)
        names = [scene.name for scene in found]
        for scene in options.scenes:
            if scene not in names:
                raise UnknownNameError("scene", scene, names)
        if options.scenes:
            found = tuple(scene for scene in found if scene.name in options.scenes)
        if options.position_accuracy is not None:
            found = tuple(replace(s, position_accuracy=options.position_accuracy) for s in found)
        self.scenes: tuple[TrueScene, ...] = found
        self.warnings = tuple(w for scene in found for w in scene.poses.warnings)
        sources = sorted({s.truth for s in found if s.truth})
        if "sfm" in sources:
            self.warnings += (TRUTH_OF_SFM,)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Empty, because methods do not run on this task."""
        return ()

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per scene."""
        same = [self.options.absolute, self.options.cluster]
        return tuple(Unit(s.name, (), hash_json(["sfm/poses", *same, s.definition()])) for s in self.scenes)

    @cached_property
    def data_hash(self) -> str:
        """Hash of all true poses."""
        return hash_json([scene.definition() for scene in self.scenes])

    def protocol_warnings(self, protocols: Sequence[str]) -> list[str]:
        """Return warnings with the expected time of protocols that try all triples of over 200 images."""
        words = []
        for protocol in (p for p in protocols if p in CENTRES):
            count = len(THRESHOLDS_2024 if protocol == "imc2024" else THRESHOLDS_2025)
            large = [s for s in self.scenes if len(s.poses) > MANY_IMAGES]
            if large:
                time = sum(expected_seconds(len(s.poses), count) for s in large)
                most = max(len(s.poses) for s in large)
                words.append(
                    f"{protocol} tries all triples of up to {most} images and takes up to "
                    f"{format_seconds(time)}"
                )
        return words

    def read_item(self, key: str) -> Any:
        """Raise an error, because methods do not run on this task."""
        raise InputError(
            "sfm/poses has no inputs for methods; score finished reconstructions with `tiepoint score`"
        )

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Raise an error, because records are read from result files."""
        raise InputError(
            "sfm/poses has no inputs for methods; score finished reconstructions with `tiepoint score`"
        )
