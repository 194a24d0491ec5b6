# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets in a store: a folder each, then a row of the table ``keypoint_sets``."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa

from ..core.errors import InputError, UnknownNameError
from ..core.formatting import path_part
from ..formats.keypoints.set_folder import (
    SETS,
    KeypointSet,
    read_keypoint_set,
    sets_below,
    write_keypoint_set,
)
from .atomic_files import atomic_folder
from .schema import keypoint_sets
from .store import Store

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def save_keypoint_set(store: Store, made: KeypointSet, *, overwrite: bool = False) -> Path:
    """Write a set: folder first, row last. A name is taken once unless `overwrite`."""
    if not _NAME.fullmatch(made.name):
        raise InputError(
            f"{made.name!r} cannot be the name of a keypoint set; use letters, digits, _ . and -"
        )
    folder = store.root / SETS / path_part(made.name, "the keypoint set")
    with store.begin() as connection:
        if made.name in sets_below(store.root) and not overwrite:
            raise InputError(
                f"there is already a keypoint set {made.name!r}; choose another name, or replace it with "
                "`overwrite`"
            )
        with atomic_folder(folder, replace=True) as temporary:
            write_keypoint_set(temporary, made)
        connection.execute(sa.delete(keypoint_sets).where(keypoint_sets.c.id == made.id))
        connection.execute(sa.insert(keypoint_sets).values(**made.row()))
    return folder


def load_keypoint_set(root: Path, name: str) -> KeypointSet:
    """A set of the store whose files are at `root` by its name, or one in a folder of its own."""
    known = sets_below(root)
    if name in known or "/" in name:
        return read_keypoint_set(known.get(name, name))
    raise UnknownNameError("keypoint set", name, known)
