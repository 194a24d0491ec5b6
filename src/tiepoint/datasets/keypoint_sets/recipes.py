# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets by the names they are published under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...formats.keypoints.set_folder import KeypointSet
from ..sequences import ImageSequences
from .filters import intersect, subset
from .make import make_keypoint_set

PER_IMAGE = 927
"""Keypoints per image, on average, that the published scale-matched sets keep (645,000 in 696 images)."""


@dataclass(frozen=True)
class Recipe:
    """Two detectors, their cap, how many of the largest keypoints stay, and the tolerance of partners."""

    first: str
    second: str
    max_features: int = 8000
    largest_per_image: int | None = None
    tolerance_px: float = 3.0


RECIPES = {
    "sift_surf_intersection": Recipe("sift", "surf", largest_per_image=PER_IMAGE, tolerance_px=6.0),
    "sift_surf_8k": Recipe("sift", "surf"),
}


def make_recipe(
    sequences: ImageSequences,
    name: str,
    *,
    border_px: float,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[KeypointSet]:
    """The sets of a recipe: ``NAME_a`` and ``NAME_b``, partners row by row.

    `sift_surf_intersection`: SIFT and SURF, at most 8000 an image, the largest of each (927 an image on
    average, counted over the whole set as published), then mutual nearest neighbours within 6 px.
    """
    recipe = RECIPES[name]
    sources = []
    images = sum(len(sequences.images(s)) for s in sequences.scenes)
    for number, detector in enumerate((recipe.first, recipe.second)):

        def step(done: int, total: int, first: int = number) -> None:
            progress(first * total + done, 2 * total)

        made = make_keypoint_set(
            sequences, f"{name}_source_{'ab'[number]}", detector=detector, max_features=recipe.max_features,
            border_px=border_px, progress=step,
        )  # fmt: skip
        if recipe.largest_per_image is not None:
            count = recipe.largest_per_image * images
            made = subset(made, made.name, count=count, scope="set", by="size")
        sources.append(made)
    pair = intersect(sources[0], sources[1], name, tolerance_px=recipe.tolerance_px)
    extra = {
        "recipe": name, "max_features": recipe.max_features,
        "largest_per_image": recipe.largest_per_image, "scope": "set",
    }  # fmt: skip
    return [replace(made, recipe={**made.recipe, **extra}) for made in pair]
