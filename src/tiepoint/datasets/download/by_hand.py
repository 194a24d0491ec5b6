# SPDX-License-Identifier: BSD-3-Clause
"""What was fetched by hand: archives, folders and single files, put where a fetched dataset would be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core.errors import InputError
from ...core.regular_files import regular_file_size
from .archives import unpack
from .members import MemberPaths
from .mirrors import FetchedFile
from .partial_file import hashes, refusal
from .sources import DatasetSource


def install_local(
    paths: Sequence[Path], source: DatasetSource, new: Path, unpacking: Callable[[int, int], None] | None
) -> list[tuple[str, FetchedFile]]:
    """Unpack archives into `new`, copy folders and single files there; returns what each file was.

    A single file is one that the source names as such (a list of pairs); any other file is an archive. Its
    hash is held against those published for the source, where one has the same length.

    Raises:
        InputError: It is not there, is neither, or is not what was published.
    """
    single = {f.name for f in source.files if not f.archive}
    found = []
    for path in sorted(paths, key=lambda p: p.name in single):  # lists last: they go where the images are
        if path.is_dir():
            _copied(path, new)
            continue
        size = regular_file_size(path)
        sha256, md5 = hashes(path)
        published = _published(path, size, sha256, md5, source)
        if path.name in single:
            with refusal(new):
                shutil.copyfile(path, base_of(new, source) / path.name)
        else:
            unpack(path, new, progress=unpacking)
        found.append((path.name, FetchedFile(path, "", size, sha256, published)))
    return found


def _published(path: Path, size: int, sha256: str, md5: str, source: DatasetSource) -> bool:
    mirrors = [m for f in source.files for m in f.mirrors if path.name in (f.name, m.url.rpartition("/")[2])]
    known = [m for m in mirrors if m.sha256 or m.md5]
    if any((m.sha256 or sha256, m.md5 or md5) == (sha256, md5) for m in known):
        return True
    if known and len(known) == len(mirrors):
        raise InputError(
            f"{path} is damaged or another file: SHA-256 {sha256}, MD5 {md5} are not those published for "
            f"{path.name}; fetch it again, or rename it to have it unpacked all the same"
        )
    return False


def base_of(new: Path, source: DatasetSource) -> Path:
    """The folder of the dataset: that of its name, or the one below which there is more than one thing."""
    base = new
    while base.name != source.folder:
        inside = list(base.iterdir())
        if len(inside) != 1 or not inside[0].is_dir():
            break
        base = inside[0]
    return base


def _copied(folder: Path, new: Path) -> None:
    """Copy a folder's files, links refused, names checked as those of an archive are."""
    places = MemberPaths(str(folder))
    for where, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(where, name)
            if path.is_symlink():
                raise InputError(f"{path} is a link; only files are taken over")
        for name in sorted(names):
            path = Path(where, name)
            place = places.file(path.relative_to(folder).as_posix())
            if place is None:
                continue
            regular_file_size(path)
            with refusal(new / place):
                (new / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, new / place)
