# SPDX-License-Identifier: BSD-3-Clause
"""Pair and patch lists of the 2017 tasks, read from files or sampled on first use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...core.array_cache import cached_arrays
from ...core.errors import FormatError
from ...core.hashing import hash_file, hash_json
from ...datasets.hpatches.sampling_2017 import (
    OFFICIAL_IMAGES,
    VerificationDraw,
    draw_clean,
    draw_verification,
)
from ...datasets.hpatches.splits import scene_groups
from ...datasets.hpatches.task_files_2017 import VERIFICATION_FILES, retrieval_lists, verification_rows
from ...formats.hpatches.task_lists import RefPatches, VerificationPairs, read_pairs_csv, read_patches_csv
from ...formats.json_yaml import read_json
from .data import DatasetSplit, smallest_unsigned

RETRIEVAL_FILES = ("retr_queries", "retr_distractors")
T = TypeVar("T", VerificationPairs, RefPatches)
LIST_CACHE_VERSION = 1
"""Version of the cache of pair lists. Increase it if lists are sampled, checked or cached differently."""


@dataclass(frozen=True)
class VerificationSource:
    """Pair lists of a split for verification: `given` by files, or sampled on first use."""

    setting: DatasetSplit
    files: tuple[Path, ...]
    given: VerificationDraw | None
    kind: str | None = None
    """Requested kind of pair lists: ``official`` or ``clean``."""

    @property
    def images(self) -> int:
        """Number of images per sequence in sampled lists. The published recipe never samples image 5."""
        every = self.setting.levels + 1
        return every if self.kind == "clean" else min(OFFICIAL_IMAGES, every)

    @property
    def rows(self) -> int:
        """Number of pairs that each sampled list has."""
        return verification_rows(self.setting.split, self.setting.lengths)

    @property
    def definition(self) -> str:
        """Hash of the list files, or of the inputs from which the lists are sampled."""
        if self.files:
            return hash_json([hash_file(p) for p in self.files])
        s = self.setting
        lengths = [[name, n] for name, n in s.lengths.items()]
        kind = self.kind or "official"
        # only clean lists depend on which sequences show one scene
        scenes = [self.same_scene] if kind == "clean" and self.same_scene else []
        return hash_json(["drawn", kind, lengths, self.rows, self.images, *scenes])

    @cached_property
    def same_scene(self) -> list[tuple[str, ...]]:
        """Groups of sequences that show the same scene. Clean lists do not pair them as negatives."""
        return scene_groups(self.setting.data, self.setting.split)

    @cached_property
    def lists(self) -> VerificationDraw:
        """The three pair lists: positives, and negatives within and between sequences."""
        if self.given is not None:
            return self.given
        made = cached_arrays(
            "pairs", [LIST_CACHE_VERSION, self.definition], lambda: _packed(_tables_of(self._drawn()))
        )
        return VerificationDraw(*_unpacked(VerificationPairs, made))

    def _drawn(self) -> VerificationDraw:
        s = self.setting
        if self.kind == "clean":
            return draw_clean(
                s.split.test, s.lengths, rows=self.rows, images=self.images, same_scene=self.same_scene
            )
        return draw_verification(s.split.test, s.lengths, rows=self.rows, images=self.images)


def verification_source(setting: DatasetSplit, kind: str | None, problems: list[str]) -> VerificationSource:
    """Return the pair lists of a split, from ``verif_*_split-X.csv`` or sampled. Add errors to `problems`."""
    files = _files(setting, tuple(VERIFICATION_FILES.values()), problems)
    tables = _tables(VerificationPairs, read_pairs_csv, files, setting, problems)
    known = [t for t in tables if t is not None]
    _check_kind(setting, kind, files, problems)
    for path, t in zip(files, tables, strict=True):
        used = 0 if t is None else int(max(t.image1.max(), t.image2.max()))
        if used > setting.levels:
            problems.append(
                f"{path} uses image {used} of a noise level, but the dataset has {setting.levels} per level"
            )
    if not files and len(setting.lengths) < 2:
        problems.append(
            "verification needs at least two sequences, but the split has one; choose another split"
        )
    if not files and min(setting.lengths.values()) < 2:
        problems.append(
            "verification needs at least two patches in every sequence; remove sequences with fewer"
        )
    source = VerificationSource(setting, files, None, kind)
    wants_clean = not files and kind == "clean"
    if wants_clean and any(len(group) == len(setting.lengths) for group in source.same_scene):
        problems.append(
            "the split has only one scene, but clean lists need pairs of different scenes; choose another "
            "split"
        )
    given = VerificationDraw(*known) if files and len(known) == len(files) else None
    return VerificationSource(setting, files, given, kind)


def _check_kind(
    setting: DatasetSplit, wanted: str | None, files: tuple[Path, ...], problems: list[str]
) -> None:
    """Add a problem if the requested kind of lists contradicts the list files."""
    folder = setting.options.tasks
    if not files or wanted is None or folder is None:
        return
    about = folder / "tasks.json"
    try:
        written = read_json(about)["files"][files[0].name]["lists"] if about.is_file() else None
    except (FormatError, LookupError, TypeError):
        written = None
    if written != wanted:
        have = "of an unknown kind" if written is None else f"{written} lists"
        problems.append(
            f"the verification files in {folder} are {have}, expected {wanted} lists; omit `lists`, or "
            f'create task files with `lists="{wanted}"`'
        )


@dataclass(frozen=True)
class RetrievalSource:
    """Queries and distractors of a split for retrieval: `given` by files, or sampled on first use."""

    setting: DatasetSplit
    files: tuple[Path, ...]
    given: tuple[RefPatches, RefPatches] | None

    @property
    def definition(self) -> str:
        """Hash of the list files, or of the inputs from which the lists are sampled, including the pixels."""
        if self.files:
            return hash_json([hash_file(p) for p in self.files])
        data = self.setting.data
        content = [[s, data.item(s, "ref").content] for s in self.setting.split.test]
        return hash_json(["drawn", self.setting.split.name, content])

    @cached_property
    def lists(self) -> tuple[RefPatches, RefPatches]:
        """The tables of queries and distractors."""
        if self.given is not None:
            return self.given
        split = self.setting.split
        key = [LIST_CACHE_VERSION, self.definition, [split.name, split.test, split.train]]
        made = cached_arrays("patches", key, lambda: _packed(retrieval_lists(self.setting.data, split)))
        queries, distractors = _unpacked(RefPatches, made)
        return queries, distractors


def retrieval_source(setting: DatasetSplit, problems: list[str]) -> RetrievalSource:
    """Return the query lists of a split, from ``retr_*_split-X.csv`` or sampled. Add errors to `problems`."""
    files = _files(setting, RETRIEVAL_FILES, problems)
    tables = _tables(RefPatches, read_patches_csv, files, setting, problems)
    known = [t for t in tables if t is not None]
    if not files and not setting.data.has_patches:
        wanted = " and ".join(f"{n}_split-{setting.split.name}.csv" for n in RETRIEVAL_FILES)
        problems.append(
            "sampling retrieval lists needs the contrast of patches, but the dataset has no patches; "
            f"put {wanted} into the folder `tasks`"
        )
    given = (known[0], known[1]) if files and len(known) == len(files) else None
    return RetrievalSource(setting, files, given)


def _files(setting: DatasetSplit, names: tuple[str, ...], problems: list[str]) -> tuple[Path, ...]:
    """Return the list files of the task folder; empty if there are none.

    An incomplete set of files is added to `problems`.
    """
    folder = setting.options.tasks
    if folder is None:
        return ()
    paths = tuple(folder / f"{n}_split-{setting.split.name}.csv" for n in names)
    there = tuple(p for p in paths if p.is_file())
    if there and len(there) < len(paths):
        lack = ", ".join(p.name for p in paths if p not in there)
        problems.append(f"{folder} has {there[0].name} but not {lack}; add the missing file")
        return ()
    return there


def _tables(
    kind: type[T],
    read: Callable[[Path, Mapping[str, int]], T],
    files: Sequence[Path],
    setting: DatasetSplit,
    problems: list[str],
) -> list[T | None]:
    """Read the list files and cache their tables. An invalid file gives None and is added to `problems`."""
    found: list[T | None] = []

    def parsed() -> Mapping[str, Any]:
        wrong = None
        for path in files:
            try:
                found.append(read(path, setting.lengths))
            except FormatError as e:
                wrong = e
                problems.append(str(e))
                found.append(None)
        if wrong is not None:
            raise wrong
        return _packed([t for t in found if t is not None])

    if not files:
        return found
    try:
        made = cached_arrays(
            "files", [LIST_CACHE_VERSION, [hash_file(p) for p in files], setting.lengths], parsed
        )
    except FormatError:
        return found
    return found or list(_unpacked(kind, made))


def _tables_of(lists: VerificationDraw) -> tuple[VerificationPairs, VerificationPairs, VerificationPairs]:
    return lists.pos, lists.intra, lists.inter


def _packed(tables: Sequence[T]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the distinct columns of all tables in small types, and `about`: which columns each table has."""
    columns: dict[int, np.ndarray[Any, Any]] = {}
    about = []
    for t in tables:
        own = [getattr(t, f.name) for f in fields(t)[1:]]
        columns |= {id(c): c for c in own}
        about.append([list(t.sequences), [list(columns).index(id(c)) for c in own]])
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return {"about": text} | {str(i): smallest_unsigned(c) for i, c in enumerate(columns.values())}


def _unpacked(kind: type[T], made: Mapping[str, np.ndarray[Any, Any]]) -> list[T]:
    about = json.loads(made["about"].tobytes())
    columns = [made[str(i)].astype(np.int32) for i in range(len(made) - 1)]
    return [kind(tuple(names), *(columns[i] for i in own)) for names, own in about]
