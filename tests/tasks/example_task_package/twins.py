"""Task `example/twins`: is the nearest patch of the second image the twin of a patch of the first?

The data is a folder of `SCENE.npy` files, uint8 (2, n, side, side): patch i of both images shows one point.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiepoint.core.errors import InputError
from tiepoint.core.hashing import hash_file
from tiepoint.core.records import Features, Item, Records, Unit
from tiepoint.core.scores import Score
from tiepoint.kernels import first_two
from tiepoint.tasks.base import BaseTask, BaseTaskData, MetricInfo, TaskInfo
from tiepoint.tasks.options import Names, TaskOptions
from tiepoint.tasks.scene_means import SceneSums, by_scene, macro_score


class TwinOptions(TaskOptions):
    scenes: Names = ()
    """Scenes to use; all by default."""

    ratio: float = 1.0
    """Largest ratio of the first to the second distance of an answer that counts."""


class TwinData(BaseTaskData):
    def __init__(self, data: Path, options: TwinOptions) -> None:
        self.options = options
        self.files = {p.stem: p for p in sorted(data.glob("*.npy"))}
        if options.scenes:
            self.files = {name: p for name, p in self.files.items() if name in options.scenes}
        if not self.files:
            raise InputError(f"{data} has no SCENE.npy file of the requested scenes; add some")
        self.items = [
            Item(f"{scene}/{side}", f"{hash_file(path)} {side}", np.load(path, mmap_mode="r").shape[1])
            for scene, path in self.files.items()
            for side in (0, 1)
        ]
        # The definition is part of a record's key: with another ratio the records are recomputed.
        self.units = [
            Unit(scene, (f"{scene}/0", f"{scene}/1"), f"twins of {scene}, ratio {options.ratio}")
            for scene in self.files
        ]

    def read_item(self, key: str) -> Any:
        scene, _, side = key.rpartition("/")
        return np.load(self.files[scene])[int(side)]

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        a, b = (np.asarray(features.arrays(key)["values"]) for key in unit.items)
        near = first_two(a, b, distance=features.distance)
        sure = near.d1 <= self.options.ratio * near.d2
        right = sure & (near.index == np.arange(len(a)))
        return Records("pair", {"right": right}, {"scene": unit.key})


class Twins(BaseTask):
    name = "example/twins"
    family = "patches"  # what its methods describe: patches, keypoints or dense
    options = TwinOptions
    info = TaskInfo(
        sentence="Is the nearest patch of the other image the same one?",
        headline=("found", "all"),
        metrics={
            "found": MetricInfo("share of patches whose nearest patch is their twin, mean over scenes"),
        },
        cite=("@misc{twins2026, title = {Twins}, year = {2026}}",),
        licence="CC0",
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> TwinData:
        return TwinData(data, self.options.parse(self.name, options))

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        scenes = tuple(str(r.meta["scene"]) for r in records)
        total = np.array([r["right"].sum() for r in records], float)
        count = np.array([len(r) for r in records], float)
        found = SceneSums(scenes, ("other",) * len(scenes), total, count)
        return [macro_score("found", found), *by_scene("found", found)]
