# SPDX-License-Identifier: BSD-3-Clause
"""Install a dataset: download, unpack and check it in a working folder, then rename that folder.

The rename comes last, so an interrupted installation leaves no incomplete dataset.
"""

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
    paths: Sequence[Path],
    source: DatasetSource,
    new: Path,
    unpack_progress: Callable[[int, int], None] | None,
) -> list[tuple[str, FetchedFile]]:
    """Unpack local archives and copy local folders and single files into the folder `new`.

    A file that the source lists as a single file, such as a pair list, is copied. Every other file must be an
    archive. If the source has hashes for a file, one of them must match. Return (name, properties) of each
    file.

    Raises:
        InputError: A file is missing, is not an archive or single file, or does not match its published hash.
    """
    single = {f.name for f in source.files if not f.archive}
    files = []
    for path in sorted(paths, key=lambda p: p.name in single):  # pair lists last: they go beside the images
        if path.is_dir():
            _copy_folder(path, new)
            continue
        size = regular_file_size(path)
        sha256, md5 = hashes(path)
        published = _is_published(path, size, sha256, md5, source)
        if path.name in single:
            with refusal(new):
                shutil.copyfile(path, base_of(new, source) / path.name)
        else:
            unpack(path, new, progress=unpack_progress)
        files.append((path.name, FetchedFile(path, "", size, sha256, published)))
    return files


def _is_published(path: Path, size: int, sha256: str, md5: str, source: DatasetSource) -> bool:
    mirrors = [m for f in source.files for m in f.mirrors if path.name in (f.name, m.url.rpartition("/")[2])]
    known = [m for m in mirrors if m.sha256 or m.md5]
    if any((m.sha256 or sha256, m.md5 or md5) == (sha256, md5) for m in known):
        return True
    if known and len(known) == len(mirrors):
        raise InputError(
            f"{path} is corrupt or has changed: SHA-256 {sha256}, MD5 {md5} differ from those published for "
            f"{path.name}; download the file again, or rename it to skip this check"
        )
    return False


def base_of(new: Path, source: DatasetSource) -> Path:
    """Return the folder of the dataset inside `new`, the folder of the unpacked files.

    Archives may wrap the dataset in folders. Descend while there is a single sub-folder, and stop at the
    folder with the dataset's name.
    """
    base = new
    while base.name != source.folder:
        entries = list(base.iterdir())
        if len(entries) != 1 or not entries[0].is_dir():
            break
        base = entries[0]
    return base


def _copy_folder(folder: Path, new: Path) -> None:
    """Copy the files of a folder. Links are refused, and names are checked as for archive members."""
    member_paths = MemberPaths(str(folder))
    for parent, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(parent, name)
            if path.is_symlink():
                raise InputError(f"{path} is a symbolic link; replace it by the file")
        for name in sorted(names):
            path = Path(parent, name)
            member = member_paths.file(path.relative_to(folder).as_posix())
            if member is None:
                continue
            regular_file_size(path)
            with refusal(new / member):
                (new / member).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, new / member)


ENDING = ".source.json"
_MAX_RECORD_BYTES = 1 << 20


def record_path(folder: Path) -> Path:
    """Return the path of a dataset's source record, a file beside the dataset's folder.

    >>> record_path(Path("data/EVD")).name
    'EVD.source.json'
    >>> record_path(Path(".")) == record_path(Path.cwd())
    True
    """
    folder = folder.resolve() if folder.name in ("", "..") else folder
    return folder.parent / f"{folder.name}{ENDING}"


def read_record(folder: Path) -> dict[str, Any]:
    """Read the source record of a dataset. Empty if it is missing or unreadable."""
    try:
        record = read_json(record_path(folder), most=_MAX_RECORD_BYTES)
    except InputError:
        return {}
    return record if isinstance(record, dict) else {}


def write_record(
    folder: Path,
    name: str,
    source: DatasetSource,
    release: Release | None,
    files: Sequence[tuple[str, FetchedFile]],
) -> Path:
    """Write the source record of an installed dataset: source, release and file hashes. Return its path."""
    value = {
        "dataset": name,
        "title": source.title,
        "release": None
        if release is None
        else {"key": release.key, "have": release.have, "of": release.total},
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
    """Raise an error if a downloaded file has another hash than in the source record of an earlier download.

    A file without a published hash is trusted on its first download, and must stay the same afterwards.

    Raises:
        InputError: The same URL delivered another file before.
    """
    files = read_record(folder).get("files")
    for entry in files if isinstance(files, list) else ():
        if not isinstance(entry, dict) or (entry.get("name"), entry.get("url")) != (name, fetched.url):
            continue
        if fetched.url and entry.get("sha256") != fetched.sha256:
            raise InputError(
                f"{fetched.url} has changed since the first download: SHA-256 {fetched.sha256}, "
                f"recorded {entry.get('sha256')}; to accept the new file, remove {record_path(folder)}"
            )


WORK = ".tiepoint-get"
"""Working folder for partial files, locks and unpacking, beside the datasets."""


@dataclass(frozen=True)
class InstalledDataset:
    """Installed dataset: its folder, check report and downloaded files.

    `new` is False if the dataset was already installed.
    """

    folder: Path
    report: CheckReport
    files: tuple[tuple[str, FetchedFile], ...] = ()
    new: bool = True

    def __str__(self) -> str:
        lines = [] if self.new else [f"{self.folder} exists; nothing was downloaded"]
        for name, file in self.files:
            trust = "as published" if file.published else "trusted on first use"
            lines.append(f"{name}: {file.size:,} bytes, SHA-256 {file.sha256} ({trust})")
        if self.files:
            lines.append(f"source recorded in {record_path(self.folder)}")
        return "\n".join([*lines, str(self.report)])


def get_dataset(
    name: str,
    to: str | Path = ".",
    *,
    accept_licence: bool = False,
    from_file: str | Path | Sequence[str | Path] = (),
    sources: str | Path | None = None,
    keep_archive: bool = False,
    options: FetchOptions | None = None,
    unpack_progress: Callable[[int, int], None] | None = None,
) -> InstalledDataset:
    """Download a published dataset, check it and install it as a folder.

    An interrupted download is resumed by the next call. While another call downloads the dataset, an error is
    raised. The folder gets its final name only when it is complete.

    Args:
        name: Name of the dataset, a key of `read_sources`.
        to: Parent folder of the dataset's folder.
        accept_licence: Whether the user accepts the licence.
        from_file: Archives, a folder, or single files that were downloaded manually.
        sources: Custom sources file.
        keep_archive: Retain the archives, in the folder `.tiepoint-get`.
        options: Options of the download.
        unpack_progress: Called with (done, total) bytes of an archive.

    Raises:
        InputError: The licence is not accepted, direct download is not permitted, the disk is full, no mirror
            delivers a file, or the content is wrong.
    """
    source = named_source(read_sources(sources), name)
    local_files = [from_file] if isinstance(from_file, str | Path) else list(from_file)
    plan = plan_for(name, source, to)
    if source.licence.ask and not local_files:
        raise InputError(
            f"{source.title} cannot be downloaded directly: {source.licence.ask}; then pass the files as "
            "`from_file`"
        )
    if not accept_licence:
        raise InputError(
            f"{source.title} is under the licence {source.licence.name} ({source.licence.terms}; see "
            f"{source.licence.page}); pass `accept_licence` to accept it"
        )
    work = plan.folder.parent / WORK
    with lock_file(work / f"{name}.lock", name):
        if plan.folder.exists():
            report = check_dataset(plan.folder, deep=False)
            if report.release is None or report.release.key != source.release:
                reason = f"exists and is not {source.title}; remove it or choose another `to`"
                raise InputError(f"{plan.folder} {reason}")
            return InstalledDataset(plan.folder, report, new=False)
        installed = _install(plan, work / name, local_files, options or FetchOptions(), unpack_progress)
        if not keep_archive:
            shutil.rmtree(work / name, ignore_errors=True)
    return installed


def _install(
    plan: DownloadPlan,
    work: Path,
    local_files: Sequence[str | Path],
    options: FetchOptions,
    unpack_progress: Callable[[int, int], None] | None,
) -> InstalledDataset:
    source, new = plan.source, work / "new"
    shutil.rmtree(new, ignore_errors=True)  # left by a killed process; this process holds the lock
    try:
        with refusal(new):
            new.mkdir(parents=True)
        if local_files:
            files = install_local([Path(p).expanduser() for p in local_files], source, new, unpack_progress)
            base = base_of(new, source)
        else:
            files, base = _fetch_and_unpack(plan, work, new, options, unpack_progress)
        base, report = _find_dataset(base, new, source)
        with refusal(plan.folder):
            os.rename(base, plan.folder)
            write_record(plan.folder, plan.name, source, report.release, files)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return InstalledDataset(plan.folder, check_dataset(plan.folder, deep=False), tuple(files))


def _fetch_and_unpack(
    plan: DownloadPlan,
    work: Path,
    new: Path,
    options: FetchOptions,
    unpack_progress: Callable[[int, int], None] | None,
) -> tuple[list[tuple[str, FetchedFile]], Path]:
    """Download and unpack all files. Return (name, properties) of each file and the folder of the dataset."""
    plan.check_room(fetched=sum(p.stat().st_size for p in work.glob("*.part")))
    files: list[tuple[SourceFile, FetchedFile]] = []
    for file in plan.source.files:
        try:
            fetched = fetch_file(file, work, plan.source.hosts, options)
        except InputError as e:
            if not file.optional:
                raise
            options.report(f"continuing without {file.name}: {e.one_line}")
            continue
        check_unchanged(plan.folder, file.name, fetched)
        files.append((file, fetched))
    for file, fetched in files:
        if file.archive:
            limit = file.unpacked_bytes and 2 * file.unpacked_bytes
            count = file.unpacked_files and 2 * file.unpacked_files
            unpack(fetched.path, new, max_bytes=limit, max_files=count, progress=unpack_progress)
    base = base_of(new, plan.source)
    for file, fetched in files:
        if not file.archive:
            with refusal(base / file.name):
                shutil.copyfile(fetched.path, base / file.name)
    return [(file.name, fetched) for file, fetched in files], base


def _find_dataset(base: Path, new: Path, source: DatasetSource) -> tuple[Path, CheckReport]:
    """Find the dataset in `base` or a parent up to `new`. Return its folder and its check report."""
    first = None
    for folder in [base, *(p for p in base.parents if p == new or new in p.parents)]:
        report = check_dataset(folder, deep=False)
        if report.release is not None and report.release.key == source.release:
            return folder, report
        first = first or report
    assert first is not None
    reason = first.problems[0] if first.problems else first.title.rpartition(": ")[2]
    raise FormatError(
        new.parent,
        f"the unpacked files are not {source.title} ({reason}); the downloaded archives are in this folder",
    )
