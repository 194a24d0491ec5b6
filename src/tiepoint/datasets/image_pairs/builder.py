# SPDX-License-Identifier: BSD-3-Clause
"""Build validated image pairs from parsed files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...formats.text.numbers import is_singular
from ...geometry.two_view.scaling import turned_intrinsics, turned_pose
from .ground_truth import PairSet, PairTruth
from .pair import ImagePair, Matrix, Size, default_names, file_name
from .problems import PairProblems, first_names
from .scenes import dataset_of, scenes_of

NEEDS: dict[str, tuple[str, ...]] = {
    "pose": ("K0", "K1", "T_0to1"),
    "corrs": ("corrs",),
    "homography": ("H",),
    "keypoints": ("points0", "points1"),
    "plane": ("H|landmarks",),
    "any": (),
}
"""Ground truth that every pair must have, by kind of task. `|` separates alternatives."""
_SHAPES = {
    "corrs": (-1, 4),
    "landmarks": (-1, 4),
    "H": (3, 3),
    "points0": (-1, 2),
    "points1": (-1, 2),
    "ids": (-1,),
    "box0": (4,),
    "box1": (4,),
    "visible0": (-1,),
    "visible1": (-1,),
    "crossval": (-1,),
}
_NUMBERS = ("ids", "visible0", "visible1")


@dataclass
class PairDraft:
    """Image pair as parsed from a file, not yet checked.

    Sizes, K and T are those before any rotation of the images.
    """

    where: str
    images: tuple[str | None, str | None]
    name: str | None = None
    scene: str | None = None
    dataset: str | None = None
    sizes: tuple[Size | None, Size | None] = (None, None)
    assumed: tuple[Size | None, Size | None] = (None, None)
    K: tuple[Any, Any] = (None, None)
    T: Any = None
    centre: float = 0.0
    turns: tuple[int, int] = (0, 0)
    truth: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[str, str] = ("", "")


def build(drafts: Sequence[PairDraft], findings: PairProblems, *, needs: str, what: str) -> PairSet:
    """Check parsed pairs and return them as a dataset. Raise all problems as one `ProblemsError`."""
    pairs = assemble_pairs(drafts, findings, needs=needs)
    return PairSet(pairs, what, findings.end())


def assemble_pairs(
    drafts: Sequence[PairDraft], findings: PairProblems, *, needs: str
) -> tuple[PairTruth, ...]:
    """Check parsed pairs and return the valid ones. Collect problems in `findings`.

    Problems are a missing image without a stated size, a stated size that differs from the image, a K that is
    not invertible, an R that is not a rotation, missing ground truth that `needs` requires, and duplicate
    names.
    """
    if not drafts and not findings.problems:
        findings.problems.append("the dataset contains no image pair; pass a file or folder with pairs")
    scenes = scenes_of([(d.images, d.scene) for d in drafts])
    names = _names(drafts, scenes, findings)
    return tuple(
        _checked(draft, name, scene, findings, needs)
        for draft, name, scene in zip(drafts, names, scenes, strict=True)
    )


def _checked(draft: PairDraft, name: str, scene: str, findings: PairProblems, needs: str) -> PairTruth:
    found = [None if image is None else findings.image(image) for image in draft.images]
    sizes = [
        size
        if draft.members[side]
        else findings.size(path, size, f"{draft.where}, image{side}", draft.assumed[side])
        for side, (path, size) in enumerate(zip(found, draft.sizes, strict=True))
    ]
    K: list[Matrix | None] = [
        None if value is None else findings.intrinsics(value, f"{draft.where}, K{side}")
        for side, value in enumerate(draft.K)
    ]
    T = None if draft.T is None else findings.pose(draft.T, f"{draft.where}, T_0to1")
    for side in (0, 1):
        findings.camera(K[side], sizes[side], f"{draft.where}, K{side}")
    annotations = _annotations(draft, findings)
    stated = {"K0": draft.K[0], "K1": draft.K[1], "T_0to1": draft.T, **draft.truth}
    lacking = [
        " or ".join(f"`{key}`" for key in keys.split("|"))
        for keys in NEEDS[needs]
        if all(stated.get(key) is None for key in keys.split("|"))
    ]
    findings.lacks(draft.where, lacking, needs)
    turns = (draft.turns[0] % 4, draft.turns[1] % 4)
    for side in (0, 1):
        value, size = K[side], sizes[side]
        if turns[side] and size is not None:
            if value is not None:
                K[side] = rotated_camera(value, size, turns[side], draft.centre)
            sizes[side] = size if turns[side] % 2 == 0 else (size[1], size[0])
    pair = ImagePair(
        name=name,
        scene=scene,
        dataset=dataset_of(draft.dataset, draft.images),
        image0=found[0],
        image1=found[1],
        size0=sizes[0],
        size1=sizes[1],
        turns=turns,
        facts=dict(draft.facts),
        members=draft.members,
    )
    return PairTruth(
        pair,
        K0=K[0],
        K1=K[1],
        T_0to1=T if T is None or not any(turns) else turned_pose(T, *turns),
        centre=draft.centre,
        annotations=annotations,
    )


def rotated_camera(K: Matrix, size: Size, turns: int, centre: float) -> Matrix:
    """Return the camera matrix K of an image that is rotated by quarter turns.

    In the convention of K, the centre of the first pixel is at (`centre`, `centre`).

    >>> K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    >>> rotated_camera(K, (640, 480), 1, 0.5)[:2, 2].tolist()  # the middle stays the middle
    [240.0, 320.0]
    """
    shift = np.array([[0, 0, centre], [0, 0, centre], [0, 0, 0]], np.float64)
    return np.asarray(turned_intrinsics(K - shift, size, turns) + shift, np.float64)


def _annotations(draft: PairDraft, findings: PairProblems) -> dict[str, Matrix]:
    truth = {}
    for key, value in draft.truth.items():
        array = None if value is None else findings.numbers(value, _SHAPES[key], f"{draft.where}, {key}")
        if array is None:
            continue
        if key == "H" and is_singular(array):
            findings.problems.append(
                f"{draft.where}, H: not invertible; expected a homography from image 0 to image 1"
            )
            continue
        truth[key] = array
        if key.startswith("box") and not (array[0] < array[2] and array[1] < array[3]):
            findings.problems.append(
                f"{draft.where}, {key}: expected x1 < x2 and y1 < y2, found {array.tolist()}"
            )
        if key in _NUMBERS and not np.array_equal(array, np.rint(array)):
            findings.problems.append(f"{draft.where}, {key}: expected integer ids of keypoints")
    for together in (("points0", "points1", "ids"), ("corrs", "crossval")):
        lengths = {key: len(truth[key]) for key in together if key in truth}
        if len(set(lengths.values())) > 1:
            words = ", ".join(f"{n} {key}" for key, n in lengths.items())
            findings.problems.append(
                f"{draft.where}: the numbers of annotations differ ({words}); expected equal numbers"
            )
    return truth


def _names(drafts: Sequence[PairDraft], scenes: Sequence[str], findings: PairProblems) -> list[str]:
    """Return the names of the pairs, stated or default. Report duplicate names.

    Default names include the quarter turns.
    """
    stems = [
        (_stem(d.images[0], f"{i}a"), _stem(d.images[1], f"{i}b")) for i, d in enumerate(drafts, start=1)
    ]
    suffix = [f"-turned-{d.turns[0]}-{d.turns[1]}" if any(d.turns) else "" for d in drafts]
    distinct = [(a, b + s) for (a, b), s in zip(stems, suffix, strict=True)]
    default = default_names(distinct, scenes)
    names = [d.name or fallback for d, fallback in zip(drafts, default, strict=True)]
    repeated = [name for name, n in Counter(names).items() if n > 1]
    for name in repeated:
        wheres = [d.where for d, n in zip(drafts, names, strict=True) if n == name]
        findings.problems.append(f"{first_names(wheres)} have the same name {name!r}; rename one")
    files: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        files.setdefault(file_name(name), []).append(name)
    for clash in (group for group in files.values() if len(group) > 1):
        findings.problems.append(
            f"the names {first_names(clash)} differ only in slashes, which become `-` in files; rename one"
        )
    return names


def _stem(image: str | None, otherwise: str) -> str:
    if image is None:
        return otherwise
    head, dot, tail = image.rpartition(".")
    return head if dot and head and "/" not in tail and "\\" not in tail else image
