# SPDX-License-Identifier: BSD-3-Clause
"""Score table for the terminal: drops columns that do not fit, never wraps a cell, marks the best scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ...core.formatting import count_text, printable
from ..cells import ScoreCell

BEST, TIE, CAUTION = "+", "=", "*"
"""Marks behind a score: it is the best of its column, is not separated from the best, or has a caution."""

GAP = "  "
MAX_NOTES = 3
"""Maximum number of lines below a table, unless all notes are requested."""
MIN_NAME = 8
"""Width to which names are cut if the first score does not fit otherwise."""


@dataclass(frozen=True)
class ScoreColumn:
    """A column of scores. `marked` returns the cells with marks; it is called only if the column is shown.

    `heading` may have several lines. `chance` is the chance level as text.
    """

    heading: str
    cells: Sequence[ScoreCell]
    marked: Callable[[], tuple[Sequence[ScoreCell], Sequence[str]]] | None = None
    chance: str = ""

    @property
    def width(self) -> int:
        """Width of the column, with room for marks."""
        marks = 2 * (self.marked is not None or any(c.caution for c in self.cells))
        return self.text_width(self.cells) + marks

    def text_width(self, cells: Sequence[ScoreCell]) -> int:
        """Return the width of heading, scores and chance level without marks."""
        return max(cell_len(t) for t in [*self.heading.split("\n"), self.chance, *map(_value, cells)])


@dataclass(frozen=True)
class ScoreTable:
    """A table that prints itself at the width of the console.

    `keys` are the columns that identify a row: heading and one text per row. The first is always shown, the
    others are dropped before the first score. `dim` has the rows of reference methods. `legend` explains
    units and intervals, `notes` has further remarks, most important first. With `more`, all notes are
    printed, and without `notes_shown` none. `remedy` is the command that shows what does not fit.
    """

    title: str
    keys: Sequence[tuple[str, Sequence[str]]]
    columns: Sequence[ScoreColumn]
    legend: Sequence[str] = ()
    notes: Sequence[str] = ()
    dim: frozenset[int] = frozenset()
    more: bool = False
    indent: str = ""
    remedy: str = "tiepoint show RUN"
    notes_shown: bool = True

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Text]:
        width = options.max_width - len(self.indent)
        keys, columns = self._fit(width)
        marked = [(c.cells, ()) if c.marked is None else c.marked() for c in columns]
        if self.title:
            yield _line(self.title, "bold")
        yield from self._grid(keys, columns, [cells for cells, _ in marked])
        dropped = len(self.columns) - len(columns) + len(self.keys) - len(keys)
        notes = [n for _, own in marked for n in own]
        if self.notes_shown:
            yield from self._notes(width, [c for cells, _ in marked for c in cells], notes, dropped)

    def _fit(self, width: int) -> tuple[list[tuple[str, list[str]]], Sequence[ScoreColumn]]:
        """Return the keys and columns that fit."""
        keys = [(head, [printable(t) for t in texts]) for head, texts in self.keys]
        first = self.columns[0].width + len(GAP) if self.columns else 0
        while len(keys) > 1 and _width(keys) + first > width:
            keys.pop()
        if _width(keys) + first > width:
            room = max(MIN_NAME, width - first)
            keys = [(head, [_cut(t, room) for t in texts]) for head, texts in keys]
        room = width - _width(keys)
        shown = 0
        for column in self.columns:
            room -= len(GAP) + column.width
            if room < 0 and shown:
                break
            shown += 1
        return keys, self.columns[:shown]

    def _grid(
        self,
        keys: Sequence[tuple[str, Sequence[str]]],
        columns: Sequence[ScoreColumn],
        cells: Sequence[Sequence[ScoreCell]],
    ) -> Iterator[Text]:
        """Yield the heading lines, the rows, and the chance level."""
        heads = [c.heading.split("\n") for c in columns]
        depth = max((len(h) for h in heads), default=1)
        widths = [max(cell_len(t) for t in (head, "chance", *texts)) for head, texts in keys]
        marks = [max((len(_mark(x)) + 1 for x in own if _mark(x)), default=0) for own in cells]
        sizes = [c.text_width(own) for c, own in zip(columns, cells, strict=True)]
        for k in range(depth):
            last = k == depth - 1
            texts = [head if last else "" for head, _ in keys]
            own = [h[k - depth + len(h)] if k >= depth - len(h) else "" for h in heads]
            line = [t.ljust(w) for t, w in zip(texts, widths, strict=True)]
            line += [_right(t, w) + " " * m for t, w, m in zip(own, sizes, marks, strict=True)]
            yield _line(self.indent + GAP.join(line).rstrip(), "bold")
        rows = len(keys[0][1]) if keys else 0
        for i in range(rows):
            row = Text(self.indent, no_wrap=True, overflow="ellipsis")
            row.append(GAP.join(set_cell_size(t[i], w) for (_, t), w in zip(keys, widths, strict=True)))
            for own_cells, size, mark in zip(cells, sizes, marks, strict=True):
                cell = own_cells[i]
                value = _right(_value(cell), size) + (f" {_mark(cell)}".ljust(mark) if mark else "")
                row.append(GAP)
                row.append(value, "bold" if cell.best else "")
            if i in self.dim:
                row.stylize("dim")
            row.rstrip()
            yield row
        if any(c.chance for c in columns):
            first = ["chance".ljust(widths[0]), *(" " * w for w in widths[1:])]
            chance = [_right(c.chance, w) + " " * m for c, w, m in zip(columns, sizes, marks, strict=True)]
            yield _line(self.indent + GAP.join([*first, *chance]).rstrip(), "dim")

    def _notes(
        self, width: int, cells: Sequence[ScoreCell], found: Sequence[str], dropped: int
    ) -> Iterator[Text]:
        """Yield the notes: legend, number of dropped columns, remarks; at most `MAX_NOTES` lines."""
        legend = list(self.legend)
        if any(c.best for c in cells):
            ties = any(c.tied for c in cells)
            legend.append(f"{BEST} best" + (f", {TIE} not separated from the best" if ties else ""))
        texts = ["; ".join(legend), *self.notes, *found]
        last = f"{count_text(dropped, 'more column')}: {self.remedy}" if dropped else ""
        if last and cell_len(texts[0]) + len(last) + 2 <= width:
            texts[0], last = "; ".join(t for t in (texts[0], last) if t), ""
        lines = [line for text in dict.fromkeys(texts) if text for line in _wrapped(text, width)]
        room = MAX_NOTES - bool(last)
        if len(lines) > room and not self.more:
            lines = [*lines[: room - 1], _ended(lines[room - 1], width)]
        lines += [last] if last else []
        for line in lines:
            yield _line(self.indent + line, "dim")


def _value(cell: ScoreCell) -> str:
    return f"{cell.text} [{cell.interval_text}]" if cell.interval_text else cell.text


def _mark(cell: ScoreCell) -> str:
    return (BEST if cell.best else TIE if cell.tied else "") + (CAUTION if cell.caution else "")


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _width(keys: Sequence[tuple[str, Sequence[str]]]) -> int:
    return sum(max(cell_len(t) for t in (head, *texts)) for head, texts in keys) + len(GAP) * (len(keys) - 1)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _ended(line: str, width: int) -> str:
    """Return a line with an ellipsis at its end, shortened to the width if necessary."""
    return _cut(line, width - 2).removesuffix("…").rstrip() + " …"


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(printable(text), max(width, 20), break_on_hyphens=False, break_long_words=False)


def _line(text: str, style: str) -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")
