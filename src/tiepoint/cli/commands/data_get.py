# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data get``: download a published dataset."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...core.errors import InputError
from ..common import RunInterrupted, notice, print_columns, print_status, without_effect
from ..shell import common_options
from ..shell.console import console, redraws
from ..shell.flag_names import as_flags
from ..shell.streams import can_ask

if TYPE_CHECKING:
    from ...datasets.download.sources import DatasetSource


def get(
    context: typer.Context,
    name: str = typer.Argument(None, help="Name of the dataset; without a name, list all datasets."),
    to: Path = typer.Option(
        None, "--to", help="Parent folder of the dataset; by default $TIEPOINT_DATA or the current folder."
    ),
    accept_licence: bool = typer.Option(False, "--accept-licence", help="Accept the licence without asking."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print files, sources, sizes and licence; download nothing."
    ),
    from_file: list[Path] = typer.Option(
        None, "--from", help="Manually downloaded archive, folder or pair list; may be repeated."
    ),
    sources: Path = typer.Option(
        None, "--sources", help="Sources file to use in place of the built-in one or $TIEPOINT_SOURCES."
    ),
    keep_archive: bool = typer.Option(False, "--keep-archive", help="Keep the archives after unpacking."),
    allow_http: bool = typer.Option(
        False, "--allow-http", help="Also use mirrors with neither encryption nor a checksum."
    ),
    list_all: bool = typer.Option(False, "--list", help="List the datasets with size and licence."),
) -> int:
    """Download a published dataset, unpack it and check its content.

    An interrupted download resumes. The folder appears only when it is complete.

    Example: `tiepoint data get evd --to datasets --dry-run`
    """
    from ...datasets.download.sources import named_source, plan_for, read_sources
    from ...datasets.local import data_folders

    known = read_sources(sources)
    if name is None or list_all:
        without_effect(
            context,
            ("from_file", "accept_licence", "dry_run", "keep_archive", "allow_http"),
            "without a dataset",
        )
        _print_list(known)
        return 0
    source = named_source(known, name)
    to = to or next(iter(data_folders()), Path())
    if dry_run:
        print(as_flags(str(plan_for(name, source, to))))
        return 0
    if not source.licence.ask or from_file:
        accept_licence = accept_licence or _accepted(source)
    from ...datasets.download.fetch import FetchOptions
    from ...datasets.download.install import get_dataset

    try:
        with transfers() as update:
            got = get_dataset(
                name,
                to,
                accept_licence=accept_licence,
                from_file=from_file or (),
                sources=sources,
                keep_archive=keep_archive,
                options=FetchOptions(
                    lambda done, total: update("fetch", done, total), print_status, allow_http=allow_http
                ),
                unpack_progress=lambda done, total: update("unpack", done, total),
            )
    except KeyboardInterrupt as e:
        raise RunInterrupted("Interrupted. The downloaded part is saved; rerun the command to resume.") from e
    print(as_flags(str(got)))
    release = got.report.release
    if release is not None and not release.complete:
        notice(
            f"the dataset {release.title} is incomplete: only {release.have:,} of {release.total:,} "
            "parts are present and equal to the published ones"
        )
    return 0 if got.report.ok else 2


def _accepted(source: DatasetSource) -> bool:
    """Show the licence and ask for consent. Without a terminal, raise an error."""
    from ...datasets.download.sources import format_licence

    print(f"{source.title}\nlicence: {format_licence(source)}\ncite: {source.cite}", file=sys.stderr)
    if not can_ask():
        raise InputError("the licence above must be accepted; pass --accept-licence")
    if not typer.confirm("Accept this licence?", err=True):
        raise InputError("licence not accepted; nothing was downloaded")
    return True


def _print_list(known: dict[str, DatasetSource]) -> None:
    from ...datasets.download.sources import format_size

    rows = []
    for name, source in known.items():
        fetched = format_size(source.archive_bytes) if source.files else "on request"
        unpacked = format_size(source.unpacked_bytes) if source.files else ""
        rows.append((name, fetched, unpacked, source.licence.name, source.about))
    columns = ("name", "to fetch", "unpacked", "licence", "what")
    print_columns(columns, rows, spare=("unpacked",), wraps=("licence", "what"))


Update = Callable[[str, int, int | None], None]
EVERY_S = 30.0
"""Seconds between two progress lines if standard error is not a terminal."""


class TransferLines:
    """Progress callback that prints at most one line every 30 s, and one line at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.since = self.begun = 0.0
        self.first = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Report transferred and total bytes. The total is None if unknown."""
        now = self.clock()
        if stage != self.stage:
            self.stage, self.begun, self.since, self.first = stage, now, now, done
        if now - self.since >= EVERY_S or (done == total and now > self.begun):
            self.since = now
            print(f"tiepoint: {stage}: {self.words(done, total, now)}", file=sys.stderr, flush=True)

    def words(self, done: int, total: int | None, now: float) -> str:
        """Format a transfer as text: size, total size, rate and remaining time.

        >>> lines = TransferLines(clock=lambda: 0.0)
        >>> lines("fetch", 0, 100)
        >>> lines.words(50_000_000, 100_000_000, 10.0)
        '50 MB of 100 MB, 5 MB/s, 10 s left'
        """
        from ...datasets.download.sources import format_size  # slow to import

        seconds = now - self.begun
        rate = (done - self.first) / seconds if seconds > 0 else 0.0
        of = f" of {format_size(total)}" if total else ""
        left = f", {_time((total - done) / rate)} left" if total and rate > 0 and total > done else ""
        return f"{format_size(done)}{of}, {format_size(rate)}/s{left}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )


@contextlib.contextmanager
def transfers() -> Iterator[Update]:
    """Yield a function that prints progress in bytes. With ``-q`` it prints nothing."""
    if common_options.quiet():
        yield lambda _stage, _done, _total: None
        return
    if not redraws(sys.stderr):
        yield TransferLines()
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        known: dict[str, tuple[object, int]] = {}

        def update(stage: str, done: int, total: int | None) -> None:
            task, before = known.get(stage, (None, 0))
            if task is None or done < before:  # restarted: discard the earlier rate
                if task is not None:
                    bars.remove_task(task)  # type: ignore[arg-type]
                task = bars.add_task(stage, total=total, completed=done)
            bars.update(task, completed=done, total=total)  # type: ignore[arg-type]
            known[stage] = (task, done)

        yield update
