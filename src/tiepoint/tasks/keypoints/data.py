# SPDX-License-Identifier: BSD-3-Clause
"""Data of the keypoint tasks: items are images, units are scenes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.formatting import first_few
from ...core.hashing import hash_json
from ...core.records import Arrays, Features, Item, Records, Unit
from ...core.scores import Score
from ...datasets.image_pairs.ground_truth import PairTruth
from ...datasets.image_sequences import ImageSequences
from ...geometry.correspondence import in_view
from ..base import BaseTask, BaseTaskData
from ..cases import Cases, Floats, MatchedPair
from ..info import BOJANIC, HPATCHES, WORKBENCH
from .options import SceneOptions

WORKBENCH_VERSIONS: Mapping[str, int] = {"workbench": 2}
"""Protocol versions. Version 2: border of 40 px, NaN rows compared unchanged, ratio test in float32."""
WORKBENCH_BORDER_PX = 40.0
"""Width of the border in pixels in which `workbench` excludes keypoints, as its documentation says."""
MAX_LISTED_SCENES = 3
"""Maximum number of scenes that a warning names."""
CITE = (HPATCHES, BOJANIC, WORKBENCH)
LICENCE = "sequences of HPatches: MIT; Oxford images: no licence file"


@dataclass(frozen=True)
class ComparedFeatures:
    """Keypoints of one image with their descriptors: `xy` (n, 2), `values` (n, d), `valid` (n,)."""

    key: str
    xy: Floats
    values: NDArray[Any]
    valid: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.xy)


def image_features(features: Features, key: str) -> ComparedFeatures:
    """Return the keypoints and descriptors of an image.

    Raises:
        InputError: Arrays are missing or inconsistent.
    """
    arrays = features.arrays(key)
    for name in ("keypoints", "values"):
        if name not in arrays:
            raise InputError(
                f"{key}: the features have no {name!r}; return keypoints and values from the method"
            )
    table = np.asarray(arrays["keypoints"], dtype=np.float64)
    xy = np.ascontiguousarray(table[:, :2]) if table.size else np.empty((0, 2))
    values = np.asarray(arrays["values"])
    if values.size == 0:
        values = values.reshape(len(xy), values.shape[1] if values.ndim == 2 else 0)
    valid = np.asarray(arrays["valid"], bool) if "valid" in arrays else np.ones(len(xy), bool)
    if len(values) != len(xy) or len(valid) != len(xy):
        raise InputError(
            f"{key}: {len(xy)} keypoints, {len(values)} descriptors and {len(valid)} validity flags; "
            "return equal numbers"
        )
    if len(xy) and not np.isfinite(xy).all():
        raise InputError(
            f"{key}: keypoint {int(np.argmin(np.isfinite(xy).all(axis=1)))} has a NaN or infinite "
            "position; remove it in the method"
        )
    return ComparedFeatures(key, xy, values, valid)


class ColumnBuilder:
    """Typed record columns that are built in chunks. A scalar is broadcast to its chunk.

    >>> made = ColumnBuilder(image=np.int16, right=np.float64)
    >>> made.add(3, np.array([True, False]))
    >>> made.columns()
    {'image': array([3, 3], dtype=int16), 'right': array([1., 0.])}
    """

    def __init__(self, **kinds: type) -> None:
        self._parts: dict[str, list[Any]] = {name: [np.empty(0)] for name in kinds}
        self._kinds = kinds

    def add(self, *values: Any) -> None:
        """Append a chunk: one scalar or array for each column."""
        rows = next(len(v) for v in values if np.ndim(v))
        for parts, value in zip(self._parts.values(), values, strict=True):
            parts.append(np.broadcast_to(value, rows))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the concatenated columns."""
        return {name: np.concatenate(p).astype(self._kinds[name]) for name, p in self._parts.items()}


Compare = Callable[["OpenKeypoints", str, Features], Records]
"""Function that computes the records of one scene."""


class OpenKeypoints(BaseTaskData):
    """Data of a keypoint task: a folder of image sequences. Each scene is one unit."""

    def __init__(self, task: KeypointTask, sequences: ImageSequences, options: Any) -> None:
        self.task = task
        self.sequences = sequences
        self.options = options

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per image of every scene."""
        s = self.sequences
        return tuple(Item(f"{scene}/{k}", s.content(scene, k)) for scene in s.scenes for k in s.images(scene))

    def pair_truths(self) -> Sequence[PairTruth]:
        """Return the pairs of the reference image and every other image of its scene."""
        return self.sequences.pairs()

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per scene. Its items include the images of other scenes used as distractors."""
        options = self.options.settings()
        names = list(self.sequences.scenes) if self.task.reads_others else []
        units = []
        for scene in self.sequences.scenes:
            own = tuple(f"{scene}/{k}" for k in self.sequences.images(scene))
            more = self.task.others(self, scene)
            items = tuple(dict.fromkeys((*own, *more)))
            definition = hash_json([self.task.name, self.sequences.definition(scene), options, names, items])
            units.append(Unit(scene, items, definition))
        return tuple(units)

    @cached_property
    def data_hash(self) -> str:
        """Content hash of the sequences."""
        return self.sequences.data_hash

    def read_item(self, key: str) -> Any:
        """Return the RGB image of an item."""
        scene, _, name = key.rpartition("/")
        return self.sequences.image(scene, name)

    def protocol_warnings(self, protocols: Sequence[str]) -> Sequence[str]:
        """Return warnings about the data under these protocols and the options of the task."""
        return self.task.protocol_warnings(self, protocols)

    def method_facts(self, meta: Mapping[str, Any], comparison: str) -> dict[str, Any]:
        """Return what affects the records: the method's border, and whether row i is one point in all images.

        The border is the width in pixels of the image margin without keypoints.
        """
        border_px = self.options.border_px
        if border_px is None:
            border_px = WORKBENCH_BORDER_PX if comparison == "workbench" else 0.0
        facts: dict[str, Any] = {}
        if border_px and not meta.get("given_keypoints"):
            facts["border_px"] = float(border_px)
        return facts | self.task.method_facts(self.options, meta, comparison)

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one scene, without keypoints in the border."""
        border_px = self.method_facts(features.meta, comparison).get("border_px")
        if border_px is None:
            return self.task.comparisons[comparison](self, unit.key, features)
        lost: dict[str, tuple[int, int]] = {}
        inner = self.within(features, border_px, lost)
        records = self.task.comparisons[comparison](self, unit.key, inner)
        own = [lost[f"{unit.key}/{k}"] for k in self.sequences.images(unit.key) if f"{unit.key}/{k}" in lost]
        border = {"px": border_px, "found": sum(n for n, _ in own), "left_out": sum(n for _, n in own)}
        return replace(records, meta={**records.meta, "border": border})

    def within(self, features: Features, border_px: float, lost: dict[str, tuple[int, int]]) -> Features:
        """Exclude keypoints near an image edge.

        Store in `lost`, by item, the number of keypoints found and the number excluded.
        """

        def arrays(key: str) -> Arrays:
            found = features.arrays(key)
            scene, _, image = key.rpartition("/")
            table = np.asarray(found["keypoints"], np.float64)
            xy = table[:, :2] if table.size else np.empty((0, 2))
            inside = in_view(xy, self.sequences.size(scene, image), border_px=border_px)
            lost[key] = (len(inside), int(len(inside) - inside.sum()))
            return found if inside.all() else {name: rows[inside] for name, rows in found.items()}

        return replace(features, arrays=arrays)

    def drawable_pairs(self) -> tuple[str, ...]:
        """Return no names, because matches are drawn only for one case at a time (`case_pair`)."""
        return ()

    def case_pair(self, scene: str, key: str) -> str | None:
        """Return the name of the image pair of a case, such as ``v_graffiti/1-2``. None for an unknown image.

        The pair consists of the reference image and image `key`.
        """
        first, *others = self.sequences.images(scene)
        return f"{scene}/{first}-{key}" if key in others else None

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the matches between the reference and the other image of a pair, named as by `case_pair`."""
        from .neighbours import replay_matches

        scene, _, numbers = name.rpartition("/")
        image = numbers.removeprefix(f"{self.sequences.images(scene)[0]}-")
        return replay_matches(self, scene, image, self.without_border(features))

    def without_border(self, features: Features) -> Features:
        """Return the features without the keypoints in the border that `exact` excludes."""
        border_px = self.method_facts(features.meta, "exact").get("border_px")
        return features if border_px is None else self.within(features, border_px, {})

    def features_of(self, features: Features, scene: str, image: str) -> ComparedFeatures:
        """Return the keypoints and descriptors of an image.

        Raises:
            InputError: A keypoint is outside the image.
        """
        found = image_features(features, f"{scene}/{image}")
        inside = in_view(found.xy, self.sequences.size(scene, image))
        if not inside.all():
            i = int(np.argmin(inside))
            raise InputError(
                f"{found.key}: keypoint {i} at ({found.xy[i, 0]:g}, {found.xy[i, 1]:g}) is outside the "
                f"image of {self.sequences.size(scene, image)} pixels; remove it before the evaluation"
            )
        return found


class KeypointTask(BaseTask):
    """Base class of tasks of the family `keypoints`. `comparisons` and `scorings` are keyed by protocol."""

    family = "keypoints"
    options: type[SceneOptions]
    comparisons: ClassVar[Mapping[str, Compare]]
    scorings: ClassVar[Mapping[str, Callable[[Sequence[Records]], list[Score]]]]
    opened: ClassVar[type[OpenKeypoints]] = OpenKeypoints
    reads_others: ClassVar[bool] = False
    """Whether the records of a scene depend on images of other scenes (see `others`)."""

    def others(self, opened: OpenKeypoints, scene: str) -> tuple[str, ...]:
        """Return the images of other scenes on which the records of a scene depend."""
        return ()

    def protocol_warnings(self, opened: OpenKeypoints, protocols: Sequence[str]) -> Sequence[str]:
        """Return warnings about the data under these options and protocols."""
        return ()

    def method_facts(self, options: Any, meta: Mapping[str, Any], comparison: str) -> dict[str, Any]:
        """Return the properties of a method, besides its features, that affect the records."""
        return {}

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return a warning about scenes whose keypoints are all in the excluded border."""
        bare = [r for r in records if (b := r.meta.get("border")) and b["found"] == b["left_out"] > 0]
        if not bare:
            return []
        px = bare[0].meta["border"]["px"]
        names = first_few([str(r.meta["scene"]) for r in bare], MAX_LISTED_SCENES)
        return [
            f"all keypoints of {names} lie within {px:g} px of the border and are left out; the option "
            "border_px=0 keeps them"
        ]

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenKeypoints:
        """Open a folder of sequences. Raise an error for bad data and unknown options."""
        chosen = self.options.parse(self.name, options)
        return self.opened(self, ImageSequences(data, chosen.scenes), chosen)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""
        self.comparison(protocol)
        return self.scorings[protocol](records)


def step_means(steps: dict[str, list[NDArray[np.float64]]]) -> list[tuple[str, float]]:
    """Return the name of each step and the mean of its values. NaN for a step without values."""
    joined = {name: np.concatenate(parts) for name, parts in steps.items()}
    return [(name, float(v.mean()) if v.size else float("nan")) for name, v in joined.items()]


def scene_records(records: Sequence[Records], scene: str) -> Records | None:
    """Return the records of a scene. None if the scene has no records."""
    return next((r for r in records if r.meta["scene"] == scene), None)


def image_cases(names: Sequence[Any], values: Floats) -> Cases:
    """Return the images of a scene as cases, scored by `values`."""
    return Cases(np.array([str(n) for n in names], np.str_), values, None, lambda key: f"image {key}")
