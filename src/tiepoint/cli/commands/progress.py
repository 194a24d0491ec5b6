# SPDX-License-Identifier: BSD-3-Clause
"""Progress of a download: a bar with rate and time left on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from ...datasets.download.plan import format_size
from ..shell import level
from ..shell.console import console, redraws

Update = Callable[[str, int, int | None], None]
EVERY_S = 10.0
"""Seconds between two lines where standard error is no terminal."""


class TransferLines:
    """A line of done, total, rate and time left at most every ten seconds, and one at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.since = self.begun = 0.0
        self.first = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Told (stage, bytes done, bytes in all where known)."""
        now = self.clock()
        if stage != self.stage:
            self.stage, self.begun, self.since, self.first = stage, now, now, done
        if now - self.since >= EVERY_S or (done == total and now > self.begun):
            self.since = now
            print(f"tiepoint: {stage}: {self.words(done, total, now)}", file=sys.stderr, flush=True)

    def words(self, done: int, total: int | None, now: float) -> str:
        """How far it is.

        >>> lines = TransferLines(clock=lambda: 0.0)
        >>> lines("fetch", 0, 100)
        >>> lines.words(50_000_000, 100_000_000, 10.0)
        '50 MB of 100 MB, 5 MB/s, 10 s left'
        """
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
    """A function to be told of progress in bytes; it says nothing with ``-q``."""
    if level.quiet():
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
            if task is None or done < before:  # begun anew: the rate of before is none of now
                if task is not None:
                    bars.remove_task(task)  # type: ignore[arg-type]
                task = bars.add_task(stage, total=total, completed=done)
            bars.update(task, completed=done, total=total)  # type: ignore[arg-type]
            known[stage] = (task, done)

        yield update
