# SPDX-License-Identifier: BSD-3-Clause
"""Pair and patch lists of the 2017 tasks: from files, or drawn for the dataset when they are needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ...datasets.hpatches.draws_2017 import OFFICIAL_IMAGES, Verification, draw_clean, draw_verification
from ...datasets.hpatches.splits import scene_groups
from ...datasets.hpatches.task_files_2017 import VERIFICATION_FILES, retrieval_lists, verification_rows
from ...formats.hpatches.task_csv import PairTable, RefPatches, read_pairs_csv, read_patches_csv
from ...model.errors import FormatError
from ...model.hashing import hash_file, hash_json
from .opened import Setting

RETRIEVAL_FILES = ("retr_queries", "retr_distractors")
T = TypeVar("T", PairTable, RefPatches)


@dataclass(frozen=True)
class VerificationSource:
    """Pairs of a split: `given` by files, or drawn, and then only when a comparison needs them."""

    setting: Setting
    files: tuple[Path, ...]
    given: Verification | None
    kind: str | None = None
    """The kind of list asked for, ``official`` or ``clean``."""

    @property
    def images(self) -> int:
        """Image numbers that drawn lists use: the published recipe never draws image 5."""
        every = self.setting.levels + 1
        return every if self.kind == "clean" else min(OFFICIAL_IMAGES, every)

    @property
    def rows(self) -> int:
        """Pairs of each kind in drawn lists."""
        return verification_rows(self.setting.split, self.setting.lengths)

    @property
    def definition(self) -> str:
        """Hash of what the lists are."""
        if self.files:
            return hash_json([hash_file(p) for p in self.files])
        s = self.setting
        lengths = [[name, n] for name, n in s.lengths.items()]
        kind = self.kind or "official"
        # official lists pair what they pair; clean ones depend on which sequences are one scene
        scenes = [self.same_scene] if kind == "clean" and self.same_scene else []
        return hash_json(["drawn", kind, lengths, self.rows, self.images, *scenes])

    @cached_property
    def same_scene(self) -> list[tuple[str, ...]]:
        """Groups of sequences of one scene, which clean lists do not pair."""
        return scene_groups(self.setting.data, self.setting.split)

    @cached_property
    def lists(self) -> Verification:
        """The three lists."""
        if self.given is not None:
            return self.given
        s = self.setting
        if self.kind == "clean":
            return draw_clean(
                s.split.test, s.lengths, rows=self.rows, images=self.images, same_scene=self.same_scene
            )
        return draw_verification(s.split.test, s.lengths, rows=self.rows, images=self.images)


def verification_source(setting: Setting, kind: str | None, problems: list[str]) -> VerificationSource:
    """Lists of a split: ``verif_*_split-X.csv`` of the folder of tasks, or drawn; problems are collected."""
    files = _files(setting, tuple(VERIFICATION_FILES.values()), problems)
    tables = [_read(read_pairs_csv, p, setting.lengths, problems) for p in files]
    known = [t for t in tables if t is not None]
    _check_kind(setting, kind, files, problems)
    for path, t in zip(files, tables, strict=True):
        used = 0 if t is None else int(max(t.image1.max(), t.image2.max()))
        if used > setting.levels:
            problems.append(f"{path}: uses image {used} of a noise level, the dataset has {setting.levels}")
    if not files and len(setting.lengths) < 2:
        problems.append("verification compares patches of two sequences; the split has one")
    if not files and min(setting.lengths.values()) < 2:
        problems.append("verification needs at least two patches in every sequence")
    source = VerificationSource(setting, files, None, kind)
    wants_clean = not files and kind == "clean"
    if wants_clean and any(len(group) == len(setting.lengths) for group in source.same_scene):
        problems.append("the split has only one scene, so there are no pairs of different scenes")
    given = Verification(*known) if files and len(known) == len(files) else None
    return VerificationSource(setting, files, given, kind)


def _check_kind(setting: Setting, wanted: str | None, files: tuple[Path, ...], problems: list[str]) -> None:
    """Files are as they were written; asking for another kind of list than theirs is a contradiction."""
    folder = setting.options.tasks
    if not files or wanted is None or folder is None:
        return
    about = folder / "tasks.json"
    try:
        written = json.loads(about.read_text())["files"][files[0].name]["lists"] if about.is_file() else None
    except (ValueError, KeyError, TypeError):
        written = None
    if written != wanted:
        have = "not known to be" if written is None else f"{written} lists, not"
        problems.append(
            f"the verification files in {folder} are {have} {wanted}; leave out `lists`, or write such task "
            f'files first, with `lists="{wanted}"`'
        )


@dataclass(frozen=True)
class RetrievalSource:
    """Queries and distractors of a split: `given` by files, or drawn when needed."""

    setting: Setting
    files: tuple[Path, ...]
    given: tuple[RefPatches, RefPatches] | None

    @property
    def definition(self) -> str:
        """Hash of what the lists are; drawn ones depend on the pixels."""
        if self.files:
            return hash_json([hash_file(p) for p in self.files])
        data = self.setting.data
        content = [[s, data.item(s, "ref").content] for s in self.setting.split.test]
        return hash_json(["drawn", self.setting.split.name, content])

    @cached_property
    def lists(self) -> tuple[RefPatches, RefPatches]:
        """Queries and distractors."""
        return self.given or retrieval_lists(self.setting.data, self.setting.split)


def retrieval_source(setting: Setting, problems: list[str]) -> RetrievalSource:
    """Lists of a split: ``retr_*_split-X.csv`` of the folder of tasks, or drawn; problems are collected."""
    files = _files(setting, RETRIEVAL_FILES, problems)
    tables = [_read(read_patches_csv, p, setting.lengths, problems) for p in files]
    known = [t for t in tables if t is not None]
    if not files and not setting.data.has_patches:
        wanted = " and ".join(f"{n}_split-{setting.split.name}.csv" for n in RETRIEVAL_FILES)
        problems.append(
            "retrieval lists are drawn by the contrast of patches, and the dataset has no patches; "
            f"put {wanted} into the folder `tasks`"
        )
    given = (known[0], known[1]) if files and len(known) == len(files) else None
    return RetrievalSource(setting, files, given)


def _files(setting: Setting, names: tuple[str, ...], problems: list[str]) -> tuple[Path, ...]:
    """Files of the folder of tasks: all of them or none; some alone are a problem."""
    folder = setting.options.tasks
    if folder is None:
        return ()
    paths = tuple(folder / f"{n}_split-{setting.split.name}.csv" for n in names)
    there = tuple(p for p in paths if p.is_file())
    if there and len(there) < len(paths):
        lack = ", ".join(p.name for p in paths if p not in there)
        problems.append(f"{folder} has {there[0].name} but not {lack}; these files belong together")
        return ()
    return there


def _read(
    read: Callable[[Path, Mapping[str, int]], T], path: Path, lengths: Mapping[str, int], problems: list[str]
) -> T | None:
    try:
        return read(path, lengths)
    except FormatError as e:
        problems.append(str(e))
        return None
