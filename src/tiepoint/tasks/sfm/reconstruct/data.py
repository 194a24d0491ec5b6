# SPDX-License-Identifier: BSD-3-Clause
"""Data of `sfm/reconstruct`: items are images or image pairs, units are scenes with a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from ....core.errors import ErrorCollector, UnknownNameError
from ....core.hashing import hash_json
from ....core.records import Features, ImageFacts, Item, Records, Unit
from ....datasets.image_pairs.pair import JOINT, ImagePair
from ....datasets.reconstructions.image_scenes import (
    ASSUMED,
    EXIF,
    GIVEN,
    ImageScene,
    SceneCamera,
    scene_cameras,
    unread_photos,
)
from ....formats.image.reader import read_image
from ....methods.pairs.factory import image_key
from ...base import BaseTaskData
from ...options import Word, parse_list
from ..pipeline.mapping import MapperSettings, colmap_build, reconstruct
from ..pipeline.matches import SceneMatches
from ..pipeline.matching import check_pycolmap_options, match_images, merge_matches
from ..pipeline.pairs import listed_pairs, pairs_by_colmap_sift, similar_count
from ..poses.data import TRUTH_OF_SFM, PosesOptions
from .compare import compare_reconstruction


def _settings(value: Any) -> tuple[str, ...]:
    parts = tuple(str(part) for part in parse_list(value))
    wrong = next((part for part in parts if "=" not in part), None)
    if wrong is not None:
        raise ValueError(f"mapper_options: found {wrong!r}; write NAME=VALUE, separated by commas")
    return tuple(sorted(parts))


class ReconstructOptions(PosesOptions):
    """Options of `sfm/reconstruct`."""

    mapper: Literal["incremental", "global"] = "incremental"
    """COLMAP's incremental mapper, or the global one (GLOMAP)."""

    seeds: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of seeds of verification and mapping; a score is the mean over them."""

    intrinsics: Literal["auto", "given", "estimated"] = "auto"
    """Use the intrinsics that the data states (given), or estimate them from EXIF (estimated); auto estimates
    only missing ones.
    """

    pairs: Word | None = None
    """Pairs of images to match: all, similar:K or a file with two names per line. The default is all, up to
    60 images.
    """

    merge_px: Annotated[float, Field(ge=0)] = 2.0
    """Distance in pixels within which points of a pair matcher become one keypoint; 0 joins equal points."""

    mapper_options: Annotated[tuple[str, ...], BeforeValidator(_settings)] = ()
    """Numeric options of the mapper as NAME=VALUE, separated by commas, such as min_num_matches=30."""

    time_limit_s: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds after which a seed of a scene counts as failed."""


@dataclass(frozen=True)
class _Work:
    """What one unit computes: the reconstruction of a scene with a seed."""

    scene: ImageScene
    seed: int


class OpenReconstruct(BaseTaskData):
    """Scenes of a folder. Items are images, units are reconstructions with one seed."""

    def __init__(self, scenes: Sequence[ImageScene], options: ReconstructOptions) -> None:
        self.options = options
        names = [scene.name for scene in scenes]
        for wanted in options.scenes:
            if wanted not in names:
                raise UnknownNameError("scene", wanted, names)
        kept = [s for s in scenes if not options.scenes or s.name in options.scenes]
        if options.position_accuracy is not None:
            kept = [_with_accuracy(s, options.position_accuracy) for s in kept]
        self.scenes = {s.name: s for s in kept}
        self.mapper_options = check_pycolmap_options(
            options.mapper, dict(part.split("=", 1) for part in options.mapper_options)
        )
        errors = ErrorCollector()
        self.cameras: dict[str, dict[str, SceneCamera]] = {}
        self.pairs: dict[str, NDArray[np.int64] | None] = {}
        for scene in kept:
            with errors.collect():
                self.cameras[scene.name] = scene_cameras(scene, options.intrinsics)
                self.pairs[scene.name] = listed_pairs(scene, options.pairs)
        errors.raise_all()
        self.warnings = tuple(w for s in kept for w in _warnings(s, self.cameras[s.name]))
        self.build = colmap_build()

    @cached_property
    def item_keys(self) -> Mapping[str, tuple[str, ...]]:
        """Item keys of each scene's images, without the file extension if the rest of the name is unique."""
        found = {}
        for scene in self.scenes.values():
            short = [image_key(name) for name in scene.images]
            names = short if len(set(short)) == len(short) else list(scene.images)
            found[scene.name] = tuple(f"{scene.name}/{name}" for name in names)
        return found

    @cached_property
    def _images(self) -> Mapping[str, tuple[ImageScene, str]]:
        return {
            key: (scene, name)
            for scene in self.scenes.values()
            for key, name in zip(self.item_keys[scene.name], scene.images, strict=True)
        }

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per image."""
        return tuple(
            Item(key, scene.contents[name], images=(ImageFacts(name, scene.sizes[name]),))
            for key, (scene, name) in self._images.items()
        )

    @cached_property
    def _work(self) -> Mapping[str, _Work]:
        return {
            f"{scene.name}/seed{seed}": _Work(scene, seed)
            for scene in self.scenes.values()
            for seed in range(self.options.seeds)
        }

    def scene_items(self, scene: ImageScene) -> tuple[str, ...]:
        """Return the items from which a scene is reconstructed: its images."""
        return self.item_keys[scene.name]

    def matching_settings(self, scene: ImageScene) -> list[Any]:
        """Return the settings of matching that are part of a unit's cache key."""
        pairs = self.pairs[scene.name]
        return [self.options.pairs if pairs is None else pairs.tolist()]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per scene and seed."""
        o = self.options
        same = [o.absolute, o.cluster, o.mapper, self.mapper_options, o.time_limit_s, self.build]
        found = []
        for key, work in self._work.items():
            cameras = [[n, c.model, c.size, c.params] for n, c in self.cameras[work.scene.name].items()]
            parts = [work.scene.definition(), cameras, self.matching_settings(work.scene), work.seed]
            found.append(
                Unit(key, self.scene_items(work.scene), hash_json(["sfm/reconstruct", *same, *parts]))
            )
        return tuple(found)

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images and all true poses."""
        return hash_json([scene.definition() for scene in self.scenes.values()])

    def read_item(self, key: str) -> Any:
        """Read an image."""
        scene, name = self._images[key]
        return read_image(scene.images[name])

    def method_facts(self, meta: Mapping[str, Any], comparison: str) -> Mapping[str, Any]:
        """Return the settings of the matcher that is applied to the method's features."""
        return {"matcher": meta["matcher_config"]} if "matcher_config" in meta else {}

    def matches(self, scene: ImageScene, features: Features) -> SceneMatches:
        """Return the matches between the images of a scene."""
        return match_images(
            self.cameras[scene.name],
            self.item_keys[scene.name],
            features,
            self.pairs[scene.name],
            similar_count(self.options.pairs),
            self.options.time_limit_s,
        )

    @property
    def merge_px(self) -> float | None:
        """Distance in pixels within which points are merged.

        None if the method has keypoints of single images.
        """
        return None

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Reconstruct a scene with one seed and return its result records."""
        work, o = self._work[unit.key], self.options
        cameras = self.cameras[work.scene.name]
        matches = self.matches(work.scene, features)
        settings = MapperSettings(o.mapper, work.seed, self.mapper_options, o.time_limit_s)
        made = reconstruct(cameras, matches, settings)
        return compare_reconstruction(
            work.scene,
            cameras,
            matches,
            settings,
            made,
            cluster=o.cluster,
            absolute=o.absolute,
            merge_px=self.merge_px,
            orientations=work.scene.orientations,
        )

    def for_pairs(self) -> OpenReconstructPairs:
        """Return the same data with image pairs as items."""
        return OpenReconstructPairs(tuple(self.scenes.values()), self.options)


class OpenReconstructPairs(OpenReconstruct):
    """Scenes with image pairs as items, for methods that receive two images."""

    @cached_property
    def _pairs(self) -> Mapping[str, Mapping[str, ImagePair]]:
        """Image pairs of each scene, by item key."""
        found = {}
        for scene in self.scenes.values():
            rows, names = self.scene_pairs(scene), list(scene.images)
            short = [key.removeprefix(f"{scene.name}/") for key in self.item_keys[scene.name]]
            found[scene.name] = {
                (key := f"{scene.name}/{short[i]}{JOINT}{short[j]}"): ImagePair(
                    key, scene.name, "", scene.images[names[i]], scene.images[names[j]]
                )
                for i, j in rows.tolist()
            }
        return found

    def scene_pairs(self, scene: ImageScene) -> NDArray[np.int64]:
        """Return the image pairs to match. Similar images are found by the descriptors of `colmap-sift`."""
        found = self.pairs[scene.name]
        if found is None:
            found = self.pairs[scene.name] = pairs_by_colmap_sift(
                scene, similar_count(self.options.pairs) or 1
            )
        return found

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per pair of images."""
        made = []
        for pairs in self._pairs.values():
            for key, pair in pairs.items():
                paths = (pair.image0, pair.image1)
                facts = [ImageFacts(p.as_posix(), s) for p, s in zip(paths, pair.sizes(), strict=True) if p]
                made.append(Item(key, pair.content(), images=tuple(facts)))
        return tuple(made)

    def scene_items(self, scene: ImageScene) -> tuple[str, ...]:
        """Return the items from which a scene is reconstructed: its image pairs."""
        return tuple(self._pairs[scene.name])

    def matching_settings(self, scene: ImageScene) -> list[Any]:
        """Return the image pairs and the merging distance, which are part of a unit's cache key."""
        return [self.scene_pairs(scene).tolist(), self.options.merge_px]

    def read_item(self, key: str) -> Any:
        """Read both images of a pair."""
        pair = next(pairs[key] for pairs in self._pairs.values() if key in pairs)
        return pair.payload()

    def matches(self, scene: ImageScene, features: Features) -> SceneMatches:
        """Return the method's matches, with nearby points merged to common keypoints."""
        pairs, keys = self.scene_pairs(scene), self.scene_items(scene)
        return merge_matches(len(scene.images), pairs, keys, features, self.options.merge_px)

    @property
    def merge_px(self) -> float | None:
        """Distance in pixels within which points are merged."""
        return self.options.merge_px


def _with_accuracy(scene: ImageScene, accuracy: float) -> ImageScene:
    truth = None if scene.truth is None else replace(scene.truth, position_accuracy=accuracy)
    return replace(scene, truth=truth)


def _warnings(scene: ImageScene, cameras: Mapping[str, SceneCamera]) -> list[str]:
    words = [] if scene.truth is None else list(scene.truth.poses.warnings)
    if scene.unread:
        words.append(f"{scene.name}: {unread_photos(scene.unread)}")
    count = Counter(camera.source for camera in cameras.values())
    if count[EXIF] or count[ASSUMED]:
        parts = [f"{count[GIVEN]} given"] if count[GIVEN] else []
        parts += [f"{count[EXIF]} from EXIF"] if count[EXIF] else []
        parts += [f"{count[ASSUMED]} assumed as 1.2 times the longer side"] if count[ASSUMED] else []
        words.append(
            f"{scene.name}: focal lengths are estimated ({', '.join(parts)}) and refined with SIMPLE_RADIAL"
        )
    if scene.truth is None:
        words.append(f"{scene.name} has no true poses; counts and pictures are computed, no score")
    elif scene.truth.truth == "sfm":
        words.append(TRUTH_OF_SFM)
    return words
