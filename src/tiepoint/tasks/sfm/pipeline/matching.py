# SPDX-License-Identifier: BSD-3-Clause
"""Match the images of a scene from the cached features of a method. Matches are cached as well."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.array_cache import cached_arrays
from ....core.errors import InputError, UnitError
from ....core.hashing import hash_array
from ....core.processes import scratch_folder
from ....core.records import Arrays, Features
from ....datasets.reconstructions.image_scenes import SceneCamera
from ....geometry.similarity import load_pycolmap
from ....methods.pairs.factory import COLMAP
from ....methods.pairs.matchers import ImageKeypoints, Matcher
from ...pairs.data import matches_of
from .database import read_matches, write_database
from .launch import run_child
from .matches import SceneMatches, unique_rows
from .merging import merged_matches
from .pairs import mean_descriptor, similar_pairs

REVISION = 1
"""Version of the matches in the cache."""


def match_images(
    cameras: Mapping[str, SceneCamera],
    keys: Sequence[str],
    features: Features,
    pairs: NDArray[np.int64] | None,
    similar: int | None,
    limit_s: float,
) -> SceneMatches:
    """Match the images of a scene by their own features.

    `keys` are the items of the images. `pairs` are the image pairs to match; if None, each image is matched
    with its `similar` most similar images.
    """
    found = [features.arrays(key) for key in keys]
    if pairs is None:
        means = [mean_descriptor(np.asarray(a["values"]), features.distance) for a in found]
        pairs = similar_pairs(means, similar or 1)
    given = dict(features.meta.get("matcher", {}))
    keypoints = tuple(np.array(a["keypoints"], np.float64)[:, :2].reshape(-1, 2) for a in found)
    parts = [
        [hash_array(np.asarray(a[n])) for n in ("keypoints", "values", "valid") if n in a] for a in found
    ]
    key = [REVISION, list(cameras), parts, hash_array(pairs), features.distance]
    key += [features.meta.get("matcher_config")]

    def make() -> Arrays:
        if given.get("matcher") == COLMAP:
            made = _by_colmap(cameras, keypoints, found, pairs, limit_s)
        else:
            made = _by_matcher(list(cameras), keypoints, found, pairs, Matcher.of(given), features.distance)
        return made.to_arrays()

    known = cached_arrays("sfm-matches", key, make)
    return SceneMatches.from_arrays(keypoints, known)


def _by_matcher(
    names: Sequence[str],
    keypoints: tuple[NDArray[np.float64], ...],
    found: Sequence[Arrays],
    pairs: NDArray[np.int64],
    matcher: Matcher,
    distance: str,
) -> SceneMatches:
    sides = [ImageKeypoints.of(name, arrays) for name, arrays in zip(names, found, strict=True)]
    wall, cpu = time.perf_counter(), time.process_time()
    rows = []
    for i, j in pairs.tolist():
        made, _ = matcher.match(sides[i], sides[j], distance=distance)
        rows.append(unique_rows(np.column_stack([made.first, made.second])))
    seconds = (time.perf_counter() - wall, time.process_time() - cpu)
    return SceneMatches(keypoints, pairs, tuple(rows), seconds)


def _by_colmap(
    cameras: Mapping[str, SceneCamera],
    keypoints: tuple[NDArray[np.float64], ...],
    found: Sequence[Arrays],
    pairs: NDArray[np.int64],
    limit_s: float,
) -> SceneMatches:
    """Match descriptors by COLMAP's matcher in a child process. Return the matches of the given pairs."""
    names = list(cameras)
    with scratch_folder() as name:
        folder = Path(name)
        path = folder / "database.db"
        values = [np.asarray(a["values"]).astype(np.uint8) for a in found]
        none = SceneMatches(keypoints, np.empty((0, 2), np.int64), ())
        write_database(path, cameras, none, values)
        lines = [f"{names[i]} {names[j]}\n" for i, j in pairs.tolist()]
        (folder / "pairs.txt").write_text("".join(lines), encoding="utf-8", newline="\n")
        result = run_child("match", {"database": str(path)}, folder, limit_s)
        if result.failure:
            raise UnitError(f"matching by COLMAP: {result.failure}")
        rows = tuple(map(unique_rows, read_matches(path, pairs)))
        wall, cpu = result.found["seconds"]["matching"]
    return SceneMatches(keypoints, pairs, rows, (wall, cpu))


def merge_matches(
    images: int, pairs: NDArray[np.int64], keys: Sequence[str], features: Features, merge_px: float
) -> SceneMatches:
    """Return the matches of a pair matcher, with points nearer than `merge_px` merged to common keypoints.

    `keys` are the items of the image pairs.
    """
    matched = {}
    for (i, j), key in zip(pairs.tolist(), keys, strict=True):
        found = matches_of(features.arrays(key), key)
        matched[i, j] = (found.points0, found.points1)
    parts = [hash_array(np.ascontiguousarray(a)) for two in matched.values() for a in two]

    def make() -> Arrays:
        made = merged_matches(images, pairs, matched, merge_px)
        counts = np.array([len(k) for k in made.keypoints], np.int64)
        places = np.concatenate([np.empty((0, 2)), *made.keypoints])
        return {**made.to_arrays(), "keypoint_counts": counts, "keypoints": places}

    arrays = cached_arrays("sfm-merged", [REVISION, images, parts, hash_array(pairs), merge_px], make)
    places = np.split(np.asarray(arrays["keypoints"]), np.cumsum(arrays["keypoint_counts"])[:-1])
    return SceneMatches.from_arrays(tuple(places), arrays)


def check_pycolmap_options(mapper: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Convert mapper options given as text to the types of their defaults.

    Raises:
        InputError: The mapper has no option of this name, or a value has another type.
    """
    pycolmap = load_pycolmap()
    kind = pycolmap.IncrementalPipelineOptions if mapper == "incremental" else pycolmap.GlobalPipelineOptions
    found: dict[str, Any] = {}
    for name, text in given.items():
        place: Any = kind()
        for part in name.split("."):
            place = getattr(place, part, None) if not part.startswith("_") else None
        if not isinstance(place, bool | int | float):
            raise InputError(
                f"option mapper_options: the {mapper} mapper has no numeric option {name!r}; see "
                f"pycolmap.{kind.__name__}"
            )
        try:
            if isinstance(place, bool):
                found[name] = {"true": True, "1": True, "false": False, "0": False}[text.lower()]
            else:
                found[name] = type(place)(text)
        except (KeyError, ValueError):
            raise InputError(
                f"option mapper_options: {name} is {text!r}; write a value like {place!r}"
            ) from None
    return found
