# SPDX-License-Identifier: BSD-3-Clause
"""Progress on standard error: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import level
from .console import console, redraws

FIRST_S = 2.0
"""Seconds of work before the first line."""
EVERY_S = 5.0
"""Seconds between two lines."""

Progress = Callable[[str, int, int], None]


class ProgressLines:
    """Progress as lines: after two seconds, then every five; where `more` is said, also when a stage ends.

    >>> told = []
    >>> times = iter([0.0, 1.0, 2.0, 3.0, 7.0])
    >>> lines = ProgressLines(told.append, now=lambda: next(times))
    >>> for done in (1, 2, 3, 10): lines("sift: descriptors", done, 10)
    >>> told
    ['sift: descriptors: 2 of 10 (20 %)', 'sift: descriptors: 10 of 10 (100 %)']
    """

    def __init__(
        self, say: Callable[[str], None], *, more: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._more, self._now = say, more, now
        self._next = now() + FIRST_S

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Told where the work is."""
        at = self._now()
        if at < self._next and not (self._more and done >= total):
            return
        self._next = at + EVERY_S
        share = f" ({100 * done // total} %)" if total > 0 else ""
        self._say(f"{stage}: {done} of {total}{share}")


@contextlib.contextmanager
def progress_bars(enabled: bool = True) -> Iterator[Progress]:
    """A progress function for standard error; it says nothing with ``-q``."""
    if not enabled or level.quiet():
        yield lambda _stage, _done, _total: None
    elif not redraws(sys.stderr):
        yield ProgressLines(
            lambda text: print(f"tiepoint: {text}", file=sys.stderr, flush=True), more=level.verbose()
        )
    else:
        with _bars() as update:
            yield update


def bars_on_a_terminal(
    wanted: bool = True,
) -> contextlib.AbstractContextManager[Progress]:
    """A progress function for who calls from Python: bars where standard error is a terminal, else nothing.

    >>> with bars_on_a_terminal(False) as progress: progress("work", 1, 2)
    """
    return progress_bars(wanted and sys.stderr is not None and redraws(sys.stderr))


@contextlib.contextmanager
def _bars() -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Descriptions carry names of methods, and a name may look like markup.
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        known: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in known:
                known[stage] = bars.add_task(stage, total=total)
            bars.update(known[stage], completed=done, total=total)
            if done >= total:
                bars.update(known.pop(stage), visible=False)

        yield update
