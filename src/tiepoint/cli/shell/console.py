# SPDX-License-Identifier: BSD-3-Clause
"""Rich consoles and progress output for terminals and pipes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ...core.formatting import format_seconds
from . import common_options
from .streams import clean, escaping

PIPED = 2000
"""Output width without a terminal and without ``COLUMNS``, wide enough to avoid wrapping."""
TABLE = 100
"""Width of score tables without a terminal and without ``COLUMNS``."""


def colourless() -> bool:
    """Return whether to omit colours: ``NO_COLOR`` is set, or the terminal is dumb."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def redraws(stream: Any) -> bool:
    """Return whether a stream can redraw lines: a terminal that is not dumb."""
    return bool(stream.isatty()) and os.environ.get("TERM") not in ("dumb", "unknown")


def width_of(stream: Any, piped: int = PIPED) -> int | None:
    """Return the width of a stream in columns. None if unknown; rich then uses its default.

    Without a terminal, the width is `piped`.
    """
    if (os.environ.get("COLUMNS") or "").isdigit():
        return max(20, int(os.environ["COLUMNS"]))
    if not stream.isatty():
        return piped
    with contextlib.suppress(OSError, ValueError, AttributeError):  # rich takes 80 for a dumb terminal
        return max(20, os.get_terminal_size(stream.fileno()).columns)
    return None


def console(*, stderr: bool = False, piped: int = PIPED) -> Any:
    """Return a console on standard output or standard error. Without a terminal, its width is `piped`."""
    stream = sys.stderr if stderr else sys.stdout
    colours = {"color_system": None} if colourless() else {}
    return _escaping_console()(file=escaping(stream), width=width_of(stream, piped), **colours)


@cache
def _escaping_console() -> Any:
    """Return a console class that escapes control characters in everything it prints."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(self, *given: Any, **more: Any) -> Any:
            for segment in super().render(*given, **more):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(clean(segment.text), segment.style)

    return EscapingConsole


EVERY_S = 30.0
"""Seconds before the first progress line and between two lines."""

Progress = Callable[[str, int, int], None]


class ProgressLines:
    """Progress callback that prints a line every 30 s. With `more`, also a line after each stage.

    A line has the rate and the time left of its stage.

    >>> lines_printed = []
    >>> times = iter([0.0, 0.0, 20.0, 40.0, 100.0])
    >>> lines = ProgressLines(lines_printed.append, now=lambda: next(times))
    >>> for done in (0, 2, 4, 10): lines("sift: features", done, 10)
    >>> lines_printed
    ['sift: features: 4 of 10 (40 %), 0.1/s, 1.0 min left', 'sift: features: 10 of 10 (100 %)']
    """

    def __init__(
        self, report: Callable[[str], None], *, more: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._more, self._now = report, more, now
        self._next = now() + EVERY_S
        self._began: dict[str, tuple[float, int]] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage."""
        at = self._now()
        since, first = self._began.setdefault(stage, (at, done))
        if done >= total:
            del self._began[stage]
        if at < self._next and not (self._more and done >= total):
            return
        self._next = at + EVERY_S
        share = f" ({100 * done // total} %)" if total > 0 else ""
        self._report(f"{stage}: {done} of {total}{share}{_speed(done - first, total - done, at - since)}")


def _speed(done: int, left: int, seconds: float) -> str:
    """Return rate and time left as text. Empty for a finished stage and at the start of a stage.

    >>> _speed(5, 10, 20.0), _speed(0, 10, 20.0)
    (', 0.25/s, 40.0 s left', '')
    """
    if done <= 0 or seconds <= 0 or left <= 0:
        return ""
    return f", {done / seconds:.2g}/s, {format_seconds(left * seconds / done)} left"


@contextlib.contextmanager
def progress_bars(enabled: bool = True) -> Iterator[Progress]:
    """Yield a progress callback that prints to standard error. With ``-q`` it prints nothing."""
    if not enabled or common_options.quiet():
        yield lambda _stage, _done, _total: None
    elif not redraws(sys.stderr):
        yield ProgressLines(
            lambda text: print(f"tiepoint: {text}", file=sys.stderr, flush=True),
            more=common_options.verbose(),
        )
    else:
        with _bars() as update:
            yield update


def bars_on_a_terminal(
    wanted: bool = True,
) -> contextlib.AbstractContextManager[Progress]:
    """Yield a progress callback for Python callers. It draws bars on a terminal and nothing elsewhere.

    >>> with bars_on_a_terminal(False) as progress: progress("work", 1, 2)
    """
    return progress_bars(wanted and sys.stderr is not None and redraws(sys.stderr))


@contextlib.contextmanager
def _bars() -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:.2g}/s" if task.speed else "", style="progress.data.speed")

    # Descriptions contain method names, which may look like markup.
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        known: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in known:
                known[stage] = bars.add_task(stage, total=total)
            bars.update(known[stage], completed=done, total=total)
            if done >= total:
                bars.update(known.pop(stage), visible=False)

        yield update
