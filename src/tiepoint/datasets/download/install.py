# SPDX-License-Identifier: BSD-3-Clause
"""Get a dataset: fetch, unpack beside, look at what is inside, then rename; a kill leaves nothing half."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import FormatError, InputError
from ..validation.dataset import CheckReport, check_dataset
from .archives import unpack
from .by_hand import base_of, install_local
from .fetch import FetchOptions
from .mirrors import FetchedFile, fetch_file
from .partial_file import lock_file, refusal
from .plan import DownloadPlan, plan_for
from .record import check_unchanged, record_path, write_record
from .sources import DatasetSource, SourceFile, named_source, read_sources

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
            manner.tell(f"going on without {file.name}: {e.brief}")
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
