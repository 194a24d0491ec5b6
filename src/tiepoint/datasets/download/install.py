# SPDX-License-Identifier: BSD-3-Clause
"""Get a dataset: fetch, unpack beside, look at what is inside, then rename; a kill leaves nothing half."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...core.errors import FormatError, InputError
from ...core.regular_files import regular_file_size
from ...formats.file_io import write_bytes
from ...formats.json_yaml import read_json
from ..validation.dataset import CheckReport, check_dataset
from ..validation.releases import Release
from .archives import MemberPaths, unpack
from .fetch import FetchedFile, FetchOptions, fetch_file
from .partial_file import hashes, lock_file, refusal
from .sources import DatasetSource, DownloadPlan, SourceFile, named_source, plan_for, read_sources


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


ENDING = ".source.json"
_MAX_RECORD_BYTES = 1 << 20


def record_path(folder: Path) -> Path:
    """The file of a dataset's folder, beside it.

    >>> record_path(Path("data/EVD")).name
    'EVD.source.json'
    >>> record_path(Path(".")) == record_path(Path.cwd())
    True
    """
    whole = folder.resolve() if folder.name in ("", "..") else folder
    return whole.parent / f"{whole.name}{ENDING}"


def read_record(folder: Path) -> dict[str, Any]:
    """What is recorded of a folder; nothing where there is no record, or it cannot be read."""
    try:
        found = read_json(record_path(folder), most=_MAX_RECORD_BYTES)
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def write_record(
    folder: Path,
    name: str,
    source: DatasetSource,
    release: Release | None,
    files: Sequence[tuple[str, FetchedFile]],
) -> Path:
    """Write the record of a dataset that was got; returns its place."""
    value = {
        "dataset": name,
        "title": source.title,
        "release": None if release is None else {"key": release.key, "have": release.have, "of": release.of},
        "files": [
            {
                "name": file,
                "url": fetched.url or None,
                "bytes": fetched.size,
                "sha256": fetched.sha256,
                "hash_published": fetched.published,
            }
            for file, fetched in files
        ],
        "licence": source.licence.name,
        "licence_page": source.licence.page,
        "cite": source.cite,
        "got": datetime.now(UTC).isoformat(timespec="seconds"),
        "tiepoint": __version__,
    }
    path = record_path(folder)
    write_bytes(path, [(json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()])
    return path


def check_unchanged(folder: Path, name: str, fetched: FetchedFile) -> None:
    """Hold a file against the record of an earlier one: an unpublished hash is trusted once, then pinned.

    Raises:
        InputError: The same address gave another file before.
    """
    files = read_record(folder).get("files")
    for entry in files if isinstance(files, list) else ():
        if not isinstance(entry, dict) or (entry.get("name"), entry.get("url")) != (name, fetched.url):
            continue
        if fetched.url and entry.get("sha256") != fetched.sha256:
            raise InputError(
                f"{fetched.url} gives another file than when it was first fetched: SHA-256 {fetched.sha256}, "
                f"recorded {entry.get('sha256')}; to accept it, remove {record_path(folder)}"
            )


WORK = ".tiepoint-get"
"""Folder for parts, locks and what is being unpacked, beside the datasets."""


@dataclass(frozen=True)
class InstalledDataset:
    """A dataset that is there: its folder, what a look at it found, what was fetched."""

    folder: Path
    report: CheckReport
    files: tuple[tuple[str, FetchedFile], ...] = ()
    new: bool = True

    def __str__(self) -> str:
        lines = [] if self.new else [f"{self.folder} is there already; nothing was fetched"]
        for name, file in self.files:
            trust = "as published" if file.published else "trusted on first use"
            lines.append(f"{name}: {file.size:,} bytes, SHA-256 {file.sha256} ({trust})")
        if self.files:
            lines.append(f"recorded in {record_path(self.folder)}")
        return "\n".join([*lines, str(self.report)])


def get_dataset(
    name: str,
    to: str | Path = ".",
    *,
    accept_licence: bool = False,
    from_file: str | Path | Sequence[str | Path] = (),
    sources: str | Path | None = None,
    keep_archive: bool = False,
    manner: FetchOptions | None = None,
    unpacking: Callable[[int, int], None] | None = None,
) -> InstalledDataset:
    """Get a published dataset, checked, as a folder of its own.

    A call that was stopped is taken up where it was by the next one. Two at the same time do not disturb each
    other: the second is refused. The folder appears under its name only when it is whole.

    Args:
        name: A name of `read_sources`.
        to: Folder to put the dataset's folder in.
        accept_licence: Whether its licence was read and is accepted.
        from_file: Archives, a folder, or single files that were fetched by hand.
        sources: Another file of sources.
        keep_archive: Keep the archives, in the folder `.tiepoint-get` beside.
        manner: How to fetch, and what to call meanwhile.
        unpacking: Called with (done, total) bytes of an archive.

    Raises:
        InputError: Not accepted, to be asked for, no room, no mirror, or not what was expected.
    """
    source = named_source(read_sources(sources), name)
    by_hand = [from_file] if isinstance(from_file, str | Path) else list(from_file)
    plan = plan_for(name, source, to)
    if source.licence.ask and not by_hand:
        raise InputError(
            f"{source.title} may not be downloaded directly: {source.licence.ask}; then give what you have "
            "as `from_file`"
        )
    if not accept_licence:
        raise InputError(
            f"{source.title} has the licence {source.licence.name} ({source.licence.terms}; see "
            f"{source.licence.page}); to get it, accept that with `accept_licence`"
        )
    work = plan.folder.parent / WORK
    with lock_file(work / f"{name}.lock", name):
        if plan.folder.exists():
            return _there(plan.folder, source)
        got = _made(plan, work / name, by_hand, manner or FetchOptions(), unpacking)
        if not keep_archive:
            shutil.rmtree(work / name, ignore_errors=True)
    return got


def _there(folder: Path, source: DatasetSource) -> InstalledDataset:
    """The dataset that is there already, if it is that one."""
    report = check_dataset(folder, deep=False)
    if report.release is None or report.release.key != source.release:
        raise InputError(f"{folder} is there and is not {source.title}; remove it or choose another `to`")
    return InstalledDataset(folder, report, new=False)


def _made(
    plan: DownloadPlan,
    work: Path,
    by_hand: Sequence[str | Path],
    manner: FetchOptions,
    unpacking: Callable[[int, int], None] | None,
) -> InstalledDataset:
    source, new = plan.source, work / "new"
    shutil.rmtree(new, ignore_errors=True)  # of a call that was killed: the lock is ours
    try:
        with refusal(new):
            new.mkdir(parents=True)
        if by_hand:
            files = install_local([Path(p).expanduser() for p in by_hand], source, new, unpacking)
            base = base_of(new, source)
        else:
            files, base = _fetched(plan, work, new, manner, unpacking)
        base, report = _recognised(base, new, source)
        with refusal(plan.folder):
            os.rename(base, plan.folder)
            write_record(plan.folder, plan.name, source, report.release, files)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return InstalledDataset(plan.folder, check_dataset(plan.folder, deep=False), tuple(files))


def _fetched(
    plan: DownloadPlan,
    work: Path,
    new: Path,
    manner: FetchOptions,
    unpacking: Callable[[int, int], None] | None,
) -> tuple[list[tuple[str, FetchedFile]], Path]:
    """Fetch and unpack all files; where they are, and the folder of the dataset among what was unpacked."""
    plan.check_room(fetched=sum(p.stat().st_size for p in work.glob("*.part")))
    files: list[tuple[SourceFile, FetchedFile]] = []
    for file in plan.source.files:
        try:
            fetched = fetch_file(file, work, plan.source.hosts, manner)
        except InputError as e:
            if not file.optional:
                raise
            manner.tell(f"going on without {file.name}: {e.one_line}")
            continue
        check_unchanged(plan.folder, file.name, fetched)
        files.append((file, fetched))
    for file, fetched in files:
        if file.archive:
            most = file.unpacked_bytes and 2 * file.unpacked_bytes
            count = file.unpacked_files and 2 * file.unpacked_files
            unpack(fetched.path, new, most_bytes=most, most_files=count, progress=unpacking)
    base = base_of(new, plan.source)
    for file, fetched in files:
        if not file.archive:
            with refusal(base / file.name):
                shutil.copyfile(fetched.path, base / file.name)
    return [(file.name, fetched) for file, fetched in files], base


def _recognised(base: Path, new: Path, source: DatasetSource) -> tuple[Path, CheckReport]:
    """The folder and the look at it; where the dataset is not in it, the folders above it are tried."""
    first = None
    for folder in [base, *(p for p in base.parents if p == new or new in p.parents)]:
        report = check_dataset(folder, deep=False)
        if report.release is not None and report.release.key == source.release:
            return folder, report
        first = first or report
    assert first is not None
    reason = first.problems[0] if first.problems else first.what.rpartition(": ")[2]
    raise FormatError(
        new.parent,
        f"what was unpacked is not {source.title} as it is known ({reason}); archives that were fetched "
        "stay in this folder",
    )
