# SPDX-License-Identifier: BSD-3-Clause
"""Find and read COLMAP models in folders."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import FormatError
from ...core.regular_files import is_file, is_folder
from .binary import read_binary_model
from .tables import ModelTables
from .text import read_text_model

_FORMS = (("bin", read_binary_model), ("txt", read_text_model))
_PARTS = ("cameras", "images", "points3D")


def is_model(folder: Path) -> bool:
    """Return whether a folder has the images file of a COLMAP model."""
    return any(is_file(folder / f"images.{ending}") for ending, _ in _FORMS)


def find_models(folder: Path) -> list[Path]:
    """Return the model folders of a reconstruction: the folder itself, or its sub-folders with a model."""
    if is_model(folder):
        return [folder]
    if not is_folder(folder):
        return []
    inside = [p for p in folder.iterdir() if is_folder(p) and is_model(p)]
    return sorted(
        inside, key=lambda p: (not p.name.isdigit(), int(p.name) if p.name.isdigit() else 0, p.name)
    )


def read_model(folder: Path, *, points: bool = False) -> ModelTables:
    """Read the model in a folder. With `points`, each image gets the ids of the points that it observes.

    If several models are present, a complete one is preferred to one without ``points3D``, then binary to
    text, as in COLMAP. Without ``points3D``, the points are unknown.

    Raises:
        InputError: The model is incomplete or violates the format. The message names file and line.
    """
    complete = [
        (ending, read)
        for ending, read in _FORMS
        if all(is_file(folder / f"{part}.{ending}") for part in _PARTS)
    ]
    some = [(ending, read) for ending, read in _FORMS if is_file(folder / f"images.{ending}")]
    if not complete and not some:
        raise FormatError(folder, "has no images.bin or images.txt; pass the folder of a COLMAP model")
    ending, read = (complete or some)[0]
    if not is_file(folder / f"cameras.{ending}"):
        raise FormatError(
            folder / f"cameras.{ending}", f"is missing; add it, because images.{ending} needs it"
        )
    both = [is_file(folder / f"{name}.{ending}") for name in ("rigs", "frames")]
    if both[0] != both[1]:
        here, absent = ("rigs", "frames") if both[0] else ("frames", "rigs")
        raise FormatError(
            folder / f"{absent}.{ending}",
            f"is missing; add it, because {here}.{ending} and {absent}.{ending} belong together",
        )
    return read(folder, points=points)
