# SPDX-License-Identifier: BSD-3-Clause
"""Data of `stress/*`: pairs of an image and the same image after a known change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from ...core.errors import ErrorCollector
from ...core.formatting import count_text
from ...core.hashing import hash_file, hash_json
from ...core.records import Arrays, Features, ImageFacts, Item, Records, Unit
from ...datasets.image_pairs.ground_truth import points_on_plane
from ...datasets.image_pairs.pair import PairPayload
from ...datasets.single_images import by_scene
from ...datasets.stress_kinds import RULES, StressKind
from ...formats.image.reader import read_image, read_size
from ...geometry.image_changes import Image, Size, resized
from ...methods.source_files import library_versions
from ...stats.breakdown import LEAST_SCENES
from ..base import BaseTaskData
from ..cases import MatchedPair
from ..options import Names, TaskOptions, parse_list
from ..pairs.data import PLACES, matches_of
from .compare import compare_pair, transfer_error

Floats = NDArray[np.float64]
SMALLEST_PX = 32
"""Shorter side in pixels below which a warning states that an image is too small."""


class StressOptions(TaskOptions):
    """Options of every task `stress/*`."""

    scenes: Names = ()
    """Scenes to use. The default is all scenes."""

    levels: Annotated[tuple[float, ...], BeforeValidator(parse_list)] = ()
    """Levels of change in ascending difficulty, the first without change. The default depends on the task."""

    max_side: Annotated[int, Field(ge=0)] = 640
    """Longer side in pixels to which larger images are reduced; 0 keeps their size."""

    estimator: Literal["ransac", "magsac"] = "ransac"
    """Estimator of the homography for `corner`."""

    ransac_px: Annotated[float, Field(gt=0)] = 3.0
    """Inlier threshold of the estimator, in pixels of the changed image."""

    max_iterations: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of iterations of the estimator."""


class NoiseOptions(StressOptions):
    """Options of `stress/noise`."""

    seed: int = 0
    """Seed of the noise, which is the same at all levels."""


class OpenStress(BaseTaskData):
    """Images and their changed versions. Items are pairs (image, changed version), units are scenes."""

    thread_safe_compare = False  # OpenCV's estimators share one random state

    def __init__(
        self,
        task: str,
        kind: StressKind,
        levels: Sequence[float],
        images: Mapping[str, Path],
        options: Any,
    ) -> None:
        self.task, self.kind, self.options = task, kind, options
        self.levels = tuple(levels)
        self.images = by_scene(images, options.scenes)
        self.seed = int(getattr(options, "seed", 0))
        checks = ErrorCollector()
        originals = {scene: checks.call(read_size, path) for scene, path in self.images.items()}
        checks.raise_all()
        self.sizes = {scene: reduced_size(size, options.max_side) for scene, size in originals.items()}
        self.pairs = {pair_name(scene, kind, x): (scene, x) for scene in self.images for x in self.levels}
        self.warnings = tuple(self._warnings(originals))
        self._image = lru_cache(maxsize=4)(self._read)

    def _warnings(self, originals: Mapping[str, Size]) -> list[str]:
        found = []
        count, reduced = len(originals), sum(size != originals[s] for s, size in self.sizes.items())
        if reduced:
            found.append(
                f"reduced {reduced} of {count_text(count, 'image')} to {self.options.max_side} px on the "
                "longer side; `max_side` changes this"
            )
        small = [s for s, size in self.sizes.items() if min(size) < SMALLEST_PX]
        if small:
            found.append(
                f"{count_text(len(small), 'image')} with a side below {SMALLEST_PX} px ({small[0]}): the "
                "scores say little; use larger images"
            )
        if count < LEAST_SCENES:
            found.append(
                f"breakdown points have no interval with {count_text(count, 'image')}; add images, at least "
                f"{LEAST_SCENES}"
            )
        return found

    def _read(self, scene: str) -> Image:
        """Return the image of a scene at the requested size: (h, w) if it is grey, else (h, w, 3)."""
        image = read_image(self.images[scene])
        if (image[:, :, :1] == image).all():
            image = np.ascontiguousarray(image[:, :, 0])
        size = self.sizes[scene]
        return image if (image.shape[1], image.shape[0]) == size else resized(image, size)

    def _content(self, scene: str) -> list[Any]:
        """Return everything that determines the pixels of a scene's image, for its content hash."""
        return [RULES, hash_file(self.images[scene]), list(self.sizes[scene])]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per image and level. An unchanged image has one content hash in all tasks `stress/*`."""
        found = []
        for name, (scene, level) in self.pairs.items():
            changed: list[Any] = []
            if level != self.levels[0]:
                changed = [self.kind.name, level, *([scene, self.seed] if self.kind.name == "noise" else [])]
            content = hash_json(["stress", self._content(scene), changed])
            size = self.sizes[scene]
            images = ImageFacts(scene, size), ImageFacts(name, self.kind.size(size, level))
            truth = hash_json(self.homography(scene, level).tolist())
            found.append(Item(name, content, images=images, truth_hash=truth))
        return tuple(found)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per scene."""
        o = self.options
        same = [
            self.task,
            self.levels,
            o.estimator,
            o.ransac_px,
            o.max_iterations,
            library_versions(("cv2",)),
        ]
        content = {item.key: item.content for item in self.items}
        units = []
        for scene in self.images:
            names = tuple(pair_name(scene, self.kind, level) for level in self.levels)
            units.append(Unit(scene, names, hash_json([*same, [[name, content[name]] for name in names]])))
        return tuple(units)

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images before they are changed. All stress tasks share it."""
        return hash_json([[scene, self._content(scene)] for scene in self.images])

    def homography(self, scene: str, level: float) -> Floats:
        """Return the homography from the image to the changed image."""
        return self.kind.homography(self.sizes[scene], level)

    def read_item(self, key: str) -> PairPayload:
        """Return the image and the changed image as RGB."""
        scene, level = self.pairs[key]
        image = self._image(scene)
        changed = self.kind.changed(image, level, scene, self.seed)
        return PairPayload(_rgb(image.copy()), _rgb(changed))

    def oracle_features(self, item: Item, noise_px: float) -> Arrays:
        """Return true correspondences with Gaussian noise of `noise_px` pixels."""
        scene, level = self.pairs[item.key]
        size = self.sizes[scene]
        table = points_on_plane(self.homography(scene, level), (size, self.kind.size(size, level)))
        draw = np.random.Generator(np.random.PCG64(int(hash_json(["stress", item.key])[:32], 16)))
        noise = draw.standard_normal((len(table), 2)) * noise_px
        return {"points0": table[:, :2], "points1": table[:, 2:] + noise}

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one scene: one row per level."""
        scene, size = unit.key, self.sizes[unit.key]
        rows = [
            compare_pair(features.arrays(name), name, self.homography(scene, level), size, self.options)
            for name, level in zip(unit.items, self.levels, strict=True)
        ]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        meta = {"scene": scene, "kind": "other", "levels": list(self.levels), "pairs": list(unit.items)}
        return Records("pair", {"level": np.array(self.levels), **columns}, meta)

    # pictures

    def drawable_pairs(self) -> tuple[str, ...]:
        """Return the names of all pairs."""
        return tuple(self.pairs)

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the matches of a pair with their distances to the true positions."""
        scene, level = self.pairs[name]
        found = matches_of(features.arrays(name), name)
        H, size = self.homography(scene, level), self.sizes[scene]
        images = self.read_item(name)
        error = transfer_error(found.points0, found.points1, H, size)
        sizes = size, self.kind.size(size, level)
        return MatchedPair(
            name,
            (images.image0, images.image1),
            sizes,
            found.points0,
            found.points1,
            error,
            PLACES,
            H=H,
            confidence=found.confidence,
        )

    def case_pair(self, scene: str, key: str) -> str | None:
        """Return the key of a case unchanged, because every case is a pair."""
        return key if key in self.pairs else None


def _rgb(image: Image) -> Image:
    return image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)


def pair_name(scene: str, kind: StressKind, level: float) -> str:
    """Return the name of the pair of an image and a changed version, such as ``SCENE/tilt-30``."""
    return f"{scene}/{kind.name}-{level:g}"


def reduced_size(size: Size, max_side: int) -> Size:
    """Return (width, height) after a reduction of the longer side to `max_side`; 0 keeps the size.

    >>> reduced_size((1600, 1185), 640), reduced_size((320, 240), 640), reduced_size((9000, 10), 640)
    ((640, 474), (320, 240), (640, 1))
    """
    longer = max(size)
    if not max_side or longer <= max_side:
        return size
    width, height = (max(1, round(side * max_side / longer)) for side in size)
    return width, height
