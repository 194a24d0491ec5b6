# SPDX-License-Identifier: BSD-3-Clause
"""The files of a store, each with how it is verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...core import array_cache, hashing
from ...core.errors import DamagedError, TiepointError
from ...core.hashing import verify_checksum
from ...core.regular_files import read_content
from ...formats.keypoints.set_folder import REPLACED, read_keypoint_set, sets_below
from ...formats.keypoints.set_folder import SETS as FOLDER_OF_SETS
from ...methods.transforms import load_transform
from ..atomic_files import TEMPORARIES
from ..store import Store

SETS = "keypoint sets"
"""The kind of keypoint sets."""


@dataclass(frozen=True)
class FileCheck:
    """Result of reading one file: its size and what is wrong with it.

    `heals` says that a run that needs it sees the damage itself and makes it anew. `method` is the one that
    made it, where the file says so. A file that is `foreign` is none of the store's: it is never removed.
    """

    kind: str
    key: str
    path: Path
    size_bytes: int = 0
    problem: str | None = None
    heals: bool = False
    method: str | None = None
    foreign: bool = False


Job = Callable[[], FileCheck]


def files_of(store: Store, needed: Mapping[str, Sequence[str]]) -> list[Job]:
    """Return one job for every file of a store and every missing file that a run needs (`needed`)."""
    jobs: list[Job] = []
    for kind, suffix, look in (("records", "parquet", _record), ("values", "npz", _values)):
        keys = {path.stem for path in (store.root / kind).glob(f"??/*.{suffix}")} | set(needed.get(kind, ()))
        jobs += [partial(look, store, key) for key in sorted(keys)]
    jobs += [partial(_features, store, p.name) for p in sorted((store.root / "features").glob("??/[!.]*"))]
    jobs += [partial(_run, path) for path in sorted((store.root / "runs").glob("*.json"))]
    jobs += [partial(_list, path) for path in sorted((store.root / array_cache.FOLDER).glob("*.bin"))]
    jobs += [partial(_transform, path) for path in sorted((store.root / "transforms").glob("*.npz"))]
    jobs += [partial(_costs, path) for path in sorted((store.root / "efficiency").glob("*.json"))]
    jobs += [
        partial(_data, path, digest)
        for path, digest in hashing.unchanged_file_hashes(store.root / "hashes.json")
    ]
    sets = sets_below(store.root).values()
    headless = (p for p in sorted((store.root / FOLDER_OF_SETS).glob("[!.]*")) if p.is_dir())
    jobs += [partial(_keypoints, path) for path in dict.fromkeys([*sets, *headless])]
    return jobs


def leftovers_of(root: Path) -> list[Path]:
    """What processes that were killed have left half-made."""
    return sorted(path for pattern in TEMPORARIES for path in root.glob(pattern))


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(p.stat().st_size for p in path.iterdir() if p.is_file())
    return path.stat().st_size if path.is_file() else 0


def _record(store: Store, key: str) -> FileCheck:
    path = store.records.path(key)
    problem = None
    try:
        store.records.verify(key)
    except TiepointError as e:
        problem = str(e)
    return FileCheck("records", key, path, _size(path), problem)


def _values(store: Store, key: str) -> FileCheck:
    path = store.values.path(key)
    problem = None
    try:
        store.values.get(key)
    except TiepointError as e:
        problem = str(e)
    return FileCheck("values", key, path, _size(path), problem)


def _features(store: Store, key: str) -> FileCheck:
    path = store.features.folder(key)
    problem, method = None, None
    try:
        for file in path.glob("*"):  # also of what the header does not name
            if file.exists() and not file.is_file() and not file.is_dir():
                raise DamagedError(file, "features", "it is no plain file")
        method = store.features.verify(key).get("method")
    except TiepointError as e:
        problem = str(e)
    return FileCheck("features", key, path, _size(path), problem, True, method)


def _run(path: Path) -> FileCheck:
    """A run file, counted: one that cannot be read is told where runs are looked for."""
    return FileCheck("run files", path.stem, path, _size(path))


def _list(path: Path) -> FileCheck:
    problem = None if array_cache.has_valid_checksum(path) else f"the list {path} is damaged"
    return FileCheck("lists", path.stem, path, _size(path), problem, heals=True)


def _transform(path: Path) -> FileCheck:
    problem = None if load_transform(path) is not None else f"the fitted transform {path} is damaged"
    return FileCheck("transforms", path.stem, path, _size(path), problem, heals=True)


def _costs(path: Path) -> FileCheck:
    problem = None
    try:
        verify_checksum(read_content(path))
    except (OSError, ValueError) as e:
        problem = f"the measured times {path} are damaged: {e}"
    return FileCheck("efficiency", path.stem, path, _size(path), problem, heals=True)


def _data(path: Path, digest: str) -> FileCheck:
    """A file of a dataset whose hash is remembered, since its time says that it did not change."""
    problem = None
    try:
        if hashing.hash_file(path, anew=True) != digest:
            problem = (
                f"{path} is not what it was when it was first read, though its time and size are; "
                "restore it from where it came from"
            )
    except TiepointError as e:
        problem = str(e)
    return FileCheck("data files", str(path), path, _size(path), problem, foreign=True)


def _keypoints(folder: Path) -> FileCheck:
    problem = None
    try:
        read_keypoint_set(folder)
    except TiepointError as e:
        problem = str(e)
    return FileCheck(SETS, folder.name.removeprefix(REPLACED), folder, _size(folder), problem)
