# SPDX-License-Identifier: BSD-3-Clause
"""Create keypoint sets with a detector or a recipe; import and export them as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, ProblemsError, TiepointError, UnknownNameError
from ...core.formatting import path_below
from ...core.keypoints import Keypoints
from ...formats.file_io import mark_incomplete, refuse_incomplete
from ...formats.keypoints.features import read_keypoint_csv, write_keypoint_csv
from ...formats.keypoints.set_folder import KeypointSet
from ...geometry.correspondence import centre, in_view
from ...geometry.homography import local_affine, project
from ...methods.keypoints.adapter import as_keypoints, check_keypoints
from ...methods.keypoints.detectors import RandomKeypoints, strongest_first
from ...methods.keypoints.factory import DETECTORS, FactoryPlan, check_roles, plan_part
from ...methods.keypoints.files import find_file
from ...methods.user_code import user_failure
from ..image_sequences import ImageSequences
from .filters import filter_by_size, intersect, subset, thin_by_distance

BORDER_PX = 40.0
MODES = ("independent", "projected")
PER_IMAGE = 927
"""Average number of keypoints per image in the published scale-matched sets (645,000 in 696 images)."""
Progress = Callable[[int, int], None]


def make_keypoint_set(
    sequences: ImageSequences,
    name: str,
    *,
    detector: str = "sift",
    mode: str = "independent",
    max_features: int | None = 2000,
    border_px: float = BORDER_PX,
    min_distance_px: float | None = None,
    min_size_px: float | None = None,
    max_size_px: float | None = None,
    device: str = "cpu",
    progress: Progress = lambda _done, _total: None,
) -> KeypointSet:
    """Create a keypoint set by detecting keypoints in every image.

    The steps in each image are: detect, select by size, drop keypoints closer to the edge than `border_px`,
    thin to a distance of `min_distance_px`, retain the `max_features` strongest. The limit is applied last,
    so images with enough keypoints have exactly `max_features`.

    Args:
        sequences: The images.
        name: Name of the set.
        detector: Specification of the detector, such as ``surf?threshold=0.001``.
        mode: ``independent`` (detect in each image) or ``projected`` (detect in image 1 and project by the
            homographies).
        max_features: Maximum number of keypoints per image. None means no limit.
        border_px: Margin to every edge of every image; 40 retains 39.5 <= x <= width - 40.5.
        min_distance_px: Minimum distance between two keypoints. Of two closer keypoints, the stronger is
            retained.
        min_size_px: Smallest size (diameter).
        max_size_px: Largest size.
        device: Device of learned detectors.
        progress: Called with (processed images, all images).

    In `projected` sets, row i of every image of a scene is the same point. If a point is outside one image,
    or closer to its edge than the border, it is dropped in all images. The local derivative of the homography
    transforms size and angle.
    """
    if mode not in MODES:
        raise UnknownNameError("mode", mode, MODES)
    plan = plan_part(detector, DETECTORS)
    uncapped = {
        k: v for k, v in (("max_features", None), ("border_px", 0.0)) if k in plan.accepted_parameters()
    }
    for key in uncapped:
        if key in plan.params:
            raise InputError(f"`{key}` is an option of the keypoint set; remove it from the detector")
    if plan.factory is RandomKeypoints:
        uncapped["max_features"] = max_features
    thing = FactoryPlan(
        plan.text, plan.factory, plan.argument, {**plan.params, **uncapped}, plan.parts
    ).build(device)
    check_roles(thing, detector, "detect")
    images: dict[str, Keypoints] = {}
    pairs: dict[str, Any] = {}
    todo = [(scene, k) for scene in sequences.scenes for k in sequences.images(scene)]
    for done, (scene, k) in enumerate(todo):
        progress(done, len(todo))
        key = f"{scene}/{k}"
        if key in images:
            continue
        pixels = sequences.image(scene, k)
        try:
            raw = thing.detect(pixels)
        except TiepointError:
            raise
        except (Exception, SystemExit) as error:
            raise user_failure(f"{detector} failed on {key}", error, thing, pixels) from error
        found = check_keypoints(as_keypoints(raw, key), pixels, f"{detector} on {key}")
        found = filter_by_size(found[strongest_first(found)], min_size_px, max_size_px)
        if mode == "projected":
            images |= _project(sequences, scene, found, max_features, border_px, min_distance_px)
            pairs |= {f"{scene}/{other}": np.arange(len(images[key])) for other in sequences.images(scene)}
            continue
        inside = found[in_view(found.xy, sequences.size(scene, k), border_px=border_px)]
        images[key] = thin_by_distance(inside, min_distance_px)[:max_features]
    progress(len(todo), len(todo))
    recipe = {
        "method": mode, "detector": detector, "max_features": max_features, "border_px": border_px,
        "min_distance_px": min_distance_px, "min_size_px": min_size_px, "max_size_px": max_size_px,
        "data": str(sequences.root), "data_hash": sequences.data_hash,
    }  # fmt: skip
    contents = {f"{s}/{k}": sequences.content(s, k) for s, k in todo}
    return KeypointSet(name, images, recipe, pairs if mode == "projected" else None, contents)


def _project(
    sequences: ImageSequences,
    scene: str,
    found: Keypoints,
    max_features: int | None,
    border_px: float,
    min_distance_px: float | None,
) -> dict[str, Keypoints]:
    first, *_ = sequences.images(scene)
    size = sequences.size(scene, first)
    visible = np.ones(len(found), bool)
    positions = {}
    for k in sequences.images(scene):
        xy = project(sequences.homography(scene, k), found.xy, reference=centre(size))
        visible &= in_view(xy, sequences.size(scene, k), border_px=border_px)
        positions[k] = xy
    rows = np.flatnonzero(visible)
    rows = rows[thin_by_distance(found[rows], min_distance_px, rows=True)][:max_features]
    out = {}
    for k, xy in positions.items():
        affine = local_affine(sequences.homography(scene, k), found.xy[rows])
        out[f"{scene}/{k}"] = _transform(found[rows], xy[rows], affine)
    return out


def _transform(keypoints: Keypoints, xy: Any, affine: Any) -> Keypoints:
    """Move keypoints to `xy` (n, 2), and transform size and angle by local derivatives `affine` (n, 2, 2)."""
    scale = np.sqrt(np.abs(np.linalg.det(affine))) if len(xy) else np.empty(0)
    angle = np.deg2rad(keypoints.angle_deg)
    direction = np.einsum("nij,nj->ni", affine, np.column_stack([np.cos(angle), np.sin(angle)]))
    rotated = np.rad2deg(np.arctan2(direction[:, 1], direction[:, 0])) % 360
    return replace(keypoints, xy=xy, size_px=keypoints.size_px * scale, angle_deg=rotated)


@dataclass(frozen=True)
class KeypointRecipe:
    """Recipe of two keypoint sets whose rows correspond: detectors, limits and tolerance."""

    detector_a: str
    detector_b: str
    max_features: int = 8000
    largest_per_image: int | None = None
    tolerance_px: float = 3.0


RECIPES = {
    "sift_surf_intersection": KeypointRecipe("sift", "surf", largest_per_image=PER_IMAGE, tolerance_px=6.0),
    "sift_surf_8k": KeypointRecipe("sift", "surf"),
}


def make_recipe(
    sequences: ImageSequences, name: str, *, border_px: float, progress: Progress = lambda _done, _total: None
) -> list[KeypointSet]:
    """Create the two keypoint sets of a recipe, ``NAME_a`` and ``NAME_b``, whose rows correspond.

    The recipe `sift_surf_intersection` detects at most 8000 SIFT and 8000 SURF keypoints per image. It
    retains the largest keypoints of each detector, as many as published: on average 927 per image. Of these,
    it retains mutual nearest neighbours within 6 px.
    """
    recipe = RECIPES[name]
    sources = []
    images = sum(len(sequences.images(s)) for s in sequences.scenes)
    for number, detector in enumerate((recipe.detector_a, recipe.detector_b)):

        def step(done: int, total: int, first: int = number) -> None:
            progress(first * total + done, 2 * total)

        source = make_keypoint_set(
            sequences, f"{name}_source_{'ab'[number]}", detector=detector, max_features=recipe.max_features,
            border_px=border_px, progress=step,
        )  # fmt: skip
        if recipe.largest_per_image is not None:
            count = recipe.largest_per_image * images
            source = subset(source, source.name, count=count, scope="set", by="size")
        sources.append(source)
    pair = intersect(sources[0], sources[1], name, tolerance_px=recipe.tolerance_px)
    extra = {
        "recipe": name, "max_features": recipe.max_features,
        "largest_per_image": recipe.largest_per_image, "scope": "set",
    }  # fmt: skip
    return [replace(side, recipe={**side.recipe, **extra}) for side in pair]


NAMES = ("number", "workbench")


def import_keypoints(folder: Path, name: str, sequences: ImageSequences) -> KeypointSet:
    """Read a keypoint set from files ``SCENE/IMAGE.csv``.

    All missing files and keypoints outside their images are reported together. The border is not known, so
    the smallest distance of a keypoint to an image edge is stored instead.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; pass a folder of files SCENE/IMAGE.csv")
    refuse_incomplete(folder)
    images, problems, margin = {}, [], np.inf
    for scene in sequences.scenes:
        for k in sequences.images(scene):
            key, size = f"{scene}/{k}", sequences.size(scene, k)
            try:
                found = read_keypoint_csv(find_file(folder, key, (".csv",)))
            except InputError as e:
                problems.append(str(e))
                continue
            outside = np.flatnonzero(~in_view(found.xy, size))
            if len(outside):
                x, y = found.xy[outside[0]]
                problems.append(
                    f"{key}: keypoint {outside[0]} at ({x:g}, {y:g}) is outside the image of {size[0]} x "
                    f"{size[1]} px; remove it"
                )
            if len(found):
                edge = np.minimum(found.xy + 0.5, np.array(size) - 0.5 - found.xy).min()
                margin = min(margin, float(edge))
            images[key] = found
    if problems:
        raise ProblemsError(str(folder), problems)
    recipe = {
        "method": "import", "detector": None, "data": str(sequences.root),
        "data_hash": sequences.data_hash, "measured_border_px": None if margin == np.inf else margin,
    }  # fmt: skip
    contents = {key: sequences.content(*key.rpartition("/")[::2]) for key in images}
    return KeypointSet(name, images, recipe, None, contents)


def export_keypoints(keypoint_set: KeypointSet, folder: Path, *, names: str = "number") -> int:
    """Write a keypoint set as ``SCENE/1.csv`` (or ``SCENE/1ppm.csv``). Return the number of files.

    Raises:
        InputError: The name of a scene or image leads outside the folder. No file is written.
    """
    if names not in NAMES:
        raise UnknownNameError("naming", names, NAMES)
    files = []
    for key in keypoint_set.images:
        scene, _, image = key.rpartition("/")
        ending = ".csv" if names == "number" else "ppm.csv"
        subject = f"keypoint set {keypoint_set.name}: the image"
        files.append(path_below(folder, scene, image, what=subject, ending=ending))
    with mark_incomplete(folder, "keypoints export"):
        for file, keypoints in zip(files, keypoint_set.images.values(), strict=True):
            write_keypoint_csv(file, keypoints)
    return len(files)
