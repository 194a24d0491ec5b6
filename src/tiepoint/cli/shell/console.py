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

from . import common_options
from .streams import clean, escaping

PIPED = 2000
"""Output width without a terminal and without ``COLUMNS``, wide enough to avoid wrapping."""


def colourless() -> bool:
    """Return whether to omit colours: ``NO_COLOR`` is set, or the terminal is dumb."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def redraws(stream: Any) -> bool:
    """Return whether a stream can redraw lines: a terminal that is not dumb."""
    return bool(stream.isatty()) and os.environ.get("TERM") not in ("dumb", "unknown")


def width_of(stream: Any) -> int | None:
    """Return the width of a stream in columns. None if unknown; rich then uses its default."""
    if (os.environ.get("COLUMNS") or "").isdigit():
        return max(20, int(os.environ["COLUMNS"]))
    if not stream.isatty():
        return PIPED
    with contextlib.suppress(OSError, ValueError, AttributeError):  # rich takes 80 for a dumb terminal
        return max(20, os.get_terminal_size(stream.fileno()).columns)
    return None


def console(*, stderr: bool = False) -> Any:
    """Return a console on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    colours = {"color_system": None} if colourless() else {}
    return _escaping_console()(file=escaping(stream), width=width_of(stream), **colours)


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


FIRST_S = 2.0
"""Seconds before the first progress line."""
EVERY_S = 5.0
"""Seconds between two progress lines."""

Progress = Callable[[str, int, int], None]


class ProgressLines:
    """Progress callback that prints a line after 2 s, then every 5 s. With `more`, also after each stage.

    >>> lines_printed = []
    >>> times = iter([0.0, 1.0, 2.0, 3.0, 7.0])
    >>> lines = ProgressLines(lines_printed.append, now=lambda: next(times))
    >>> for done in (1, 2, 3, 10): lines("sift: descriptors", done, 10)
    >>> lines_printed
    ['sift: descriptors: 2 of 10 (20 %)', 'sift: descriptors: 10 of 10 (100 %)']
    """

    def __init__(
        self, report: Callable[[str], None], *, more: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._more, self._now = report, more, now
        self._next = now() + FIRST_S

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage."""
        at = self._now()
        if at < self._next and not (self._more and done >= total):
            return
        self._next = at + EVERY_S
        share = f" ({100 * done // total} %)" if total > 0 else ""
        self._report(f"{stage}: {done} of {total}{share}")


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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Descriptions contain method names, which may look like markup.
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
