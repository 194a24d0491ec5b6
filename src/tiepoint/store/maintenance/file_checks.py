# SPDX-License-Identifier: BSD-3-Clause
"""Verify the files of a store, one job per file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...core import array_cache, hashing
from ...core.errors import DamagedError, StoreError, TiepointError
from ...formats.keypoints.set_folder import REPLACED, read_keypoint_set, sets_below
from ...formats.keypoints.set_folder import SETS as FOLDER_OF_SETS
from ...methods.transforms import load_transform
from ..atomic_files import TEMPORARIES
from ..races import FOLDER as RACES
from ..store import Store

SETS = "keypoint sets"
"""File kind of keypoint sets."""


@dataclass(frozen=True)
class FileCheck:
    """Result of verifying one file: its size, and the problem found, if any.

    `heals` is set if the next run automatically recomputes the corrupt file. `method` is the method that
    computed the file, if known. A `foreign` file belongs to a dataset and is never removed.
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
    """Return one check function per file of a store, and one per missing file in `needed`."""
    root, jobs = store.root, list[Job]()
    for kind, suffix, files, read in (
        ("records", "parquet", store.records, store.records.verify),
        ("values", "npz", store.values, store.values.get),
    ):
        keys = {path.stem for path in (root / kind).glob(f"??/*.{suffix}")} | set(needed.get(kind, ()))
        jobs += [partial(_check, kind, files.path(key), partial(read, key)) for key in sorted(keys)]
    for kind, pattern, verify in (
        ("features", "features/??/[!.]*", partial(_features, store)),
        ("run files", "runs/*.json", lambda path: None),  # `verify` reports unreadable ones
        ("races", f"{RACES}/*.json", lambda path: None),
        ("lists", f"{array_cache.FOLDER}/*.bin", _list),
        ("transforms", "transforms/*.npz", _transform),
    ):
        jobs += [
            partial(_check, kind, path, partial(verify, path), heals=kind not in ("run files", "races"))
            for path in sorted(root.glob(pattern))
        ]
    jobs += [
        partial(_check, "data files", path, partial(_data, path, digest), key=str(path), foreign=True)
        for path, digest in hashing.unchanged_file_hashes(root / "hashes.json")
    ]
    sets = sets_below(root).values()
    headless = (p for p in sorted((root / FOLDER_OF_SETS).glob("[!.]*")) if p.is_dir())
    for path in dict.fromkeys([*sets, *headless]):
        name = path.name.removeprefix(REPLACED)
        jobs.append(partial(_check, SETS, path, partial(read_keypoint_set, path), key=name))
    return jobs


def leftovers_of(root: Path) -> list[Path]:
    """Return the temporary files of killed processes."""
    return sorted(path for pattern in TEMPORARIES for path in root.glob(pattern))


def _check(
    kind: str,
    path: Path,
    verify: Callable[[], object],
    *,
    key: str | None = None,
    heals: bool = False,
    foreign: bool = False,
) -> FileCheck:
    """Verify one file.

    `verify` raises an error if the file is corrupt. It may return the name of the method that wrote it.
    """
    problem = method = None
    try:
        found = verify()
        method = found if isinstance(found, str) else None
    except TiepointError as e:
        problem = str(e)
    if path.is_dir():
        size = sum(p.stat().st_size for p in path.iterdir() if p.is_file())
    else:
        size = path.stat().st_size if path.is_file() else 0
    return FileCheck(kind, path.stem if key is None else key, path, size, problem, heals, method, foreign)


def _features(store: Store, path: Path) -> object:
    for file in path.glob("*"):  # also files that the header does not name
        if file.exists() and not file.is_file() and not file.is_dir():
            raise DamagedError(file, "features", "it is not a regular file")
    return store.features.verify(path.name).get("method")


def _list(path: Path) -> None:
    if not array_cache.has_valid_checksum(path):
        raise StoreError(f"the cached pair list {path} is corrupt")


def _transform(path: Path) -> None:
    if load_transform(path) is None:
        raise StoreError(f"the fitted transform {path} is corrupt")


def _data(path: Path, digest: str) -> None:
    """Verify that a dataset file still has its cached hash."""
    if hashing.hash_file(path, reread=True) != digest:
        raise StoreError(
            f"{path}: the content has changed since the first read, but size and modification time have not; "
            "restore the file"
        )
