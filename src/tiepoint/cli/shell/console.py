# SPDX-License-Identifier: BSD-3-Clause
"""Consoles of rich: as wide as the place they print to, without colours where none are wanted."""

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
"""Columns where nothing says how many there are: no terminal, and no ``COLUMNS``. Nothing need be broken."""


def colourless() -> bool:
    """Whether escapes of colour and weight are unwanted: ``NO_COLOR`` is set, or the terminal is dumb."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def redraws(stream: Any) -> bool:
    """Whether what is printed can be drawn again in its place: on a terminal that is not dumb."""
    return bool(stream.isatty()) and os.environ.get("TERM") not in ("dumb", "unknown")


def width_of(stream: Any) -> int | None:
    """Columns to print in; None lets the terminal say."""
    if (os.environ.get("COLUMNS") or "").isdigit():
        return max(20, int(os.environ["COLUMNS"]))
    if not stream.isatty():
        return PIPED
    with contextlib.suppress(OSError, ValueError, AttributeError):  # rich takes 80 for a dumb terminal
        return max(20, os.get_terminal_size(stream.fileno()).columns)
    return None


def console(*, stderr: bool = False) -> Any:
    """A console on standard output, or on standard error."""
    stream = sys.stderr if stderr else sys.stdout
    made = {"color_system": None} if colourless() else {}
    return _careful()(file=escaping(stream), width=width_of(stream), **made)


@cache
def _careful() -> Any:
    """A console that spells out control characters, whoever made what it prints."""
    from rich.console import Console
    from rich.segment import Segment

    class Careful(Console):
        def render(self, *given: Any, **more: Any) -> Any:
            for segment in super().render(*given, **more):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(clean(segment.text), segment.style)

    return Careful


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
