# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets from and to folders of CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.errors import InputError, ProblemsError, UnknownNameError
from ...core.formatting import path_below
from ...formats.keypoints.csv_file import read_keypoint_csv, write_keypoint_csv
from ...formats.keypoints.set_folder import KeypointSet
from ...formats.unfinished import mark_incomplete, refuse_incomplete
from ...geometry.covisibility import in_view
from ...methods.keypoints.files_part import find_file
from ..image_sequences import ImageSequences

NAMES = ("number", "workbench")


def import_keypoints(folder: Path, name: str, sequences: ImageSequences) -> KeypointSet:
    """A set from ``SCENE/IMAGE.csv``; every missing file and keypoint outside its image is reported at once.

    The border is unknown and not recorded; it can be measured, so the smallest distance to an edge is.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder of SCENE/IMAGE.csv")
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
                    f"{key}: keypoint {outside[0]} at ({x:g}, {y:g}) lies outside {size[0]} x {size[1]}"
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


def export_keypoints(made: KeypointSet, folder: Path, *, names: str = "number") -> int:
    """Write ``SCENE/1.csv`` (or ``SCENE/1ppm.csv``) for every image; returns the number of files.

    Raises:
        InputError: if a scene or image has a name that would lead out of the folder; nothing is written then.
    """
    if names not in NAMES:
        raise UnknownNameError("naming", names, NAMES)
    files = []
    for key in made.images:
        scene, _, image = key.rpartition("/")
        ending = ".csv" if names == "number" else "ppm.csv"
        files.append(
            path_below(folder, scene, image, what=f"keypoint set {made.name}: the image", ending=ending)
        )
    with mark_incomplete(folder, "keypoints export"):
        for file, keypoints in zip(files, made.images.values(), strict=True):
            write_keypoint_csv(file, keypoints)
    return len(files)
