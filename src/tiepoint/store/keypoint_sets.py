# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets in a store: a folder each, then a row of the table ``keypoint_sets``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import sqlalchemy as sa

from ..formats.keypoints.set_folder import KeypointSet, read_keypoint_set, write_keypoint_set
from ..methods.keypoints.detect.files import FOLDER
from ..model.errors import InputError, UnknownNameError
from .atomic import atomic_folder
from .schema import keypoint_sets
from .store import Store

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def save_keypoint_set(store: Store, made: KeypointSet, *, overwrite: bool = False) -> Path:
    """Write a set: folder first, row last. A name is taken once unless `overwrite`."""
    if not _NAME.fullmatch(made.name):
        raise InputError(f"{made.name!r} is no name for a keypoint set; use letters, digits, _ . and -")
    folder = store.root / FOLDER / made.name
    if (folder / "set.json").is_file():
        if not overwrite:
            raise InputError(
                f"there is a keypoint set {made.name!r} already; choose another name or --overwrite"
            )
        shutil.rmtree(folder)
    with atomic_folder(folder) as temporary:
        write_keypoint_set(temporary, made)
    with store.begin() as connection:
        connection.execute(sa.delete(keypoint_sets).where(keypoint_sets.c.id == made.id))
        connection.execute(sa.insert(keypoint_sets).values(**made.row()))
    return folder


def known_keypoint_sets(store: Store) -> list[str]:
    """Names of the sets of a store."""
    return sorted(p.parent.name for p in (store.root / FOLDER).glob("*/set.json"))


def load_keypoint_set(store: Store, name: str) -> KeypointSet:
    """A set of a store by name, or one in a folder."""
    folder = store.root / FOLDER / name
    if (folder / "set.json").is_file():
        return read_keypoint_set(folder)
    if "/" in name:
        return read_keypoint_set(name)
    raise UnknownNameError("keypoint set", name, known_keypoint_sets(store))
