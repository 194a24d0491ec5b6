# SPDX-License-Identifier: BSD-3-Clause
"""Consoles of rich: as wide as the place they print to, without colours where none are wanted."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from typing import Any

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
