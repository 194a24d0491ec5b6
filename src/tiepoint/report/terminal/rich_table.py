# SPDX-License-Identifier: BSD-3-Clause
"""Tables of rich that never cut a cell: what is too wide is set in several tables, or a line a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from ...core.formatting import printable
from ..compare.text_table import blocks

MAX_TABLES = 3
"""Tables that one is set in before its cells get lines of their own."""


def _plain(cell: Any) -> Text:
    """A cell as text that takes the room it seems to take."""
    if isinstance(cell, Text):
        return cell if cell.plain.isprintable() else Text(printable(cell.plain), style=cell.style)
    return Text(printable(str(cell)))


class FittingTable(RichTable):
    """A table with its title above it, over the whole width.

    Args:
        keys: Columns that say what a row is; they are repeated where the others are set in several tables.
        spare: Names of columns that are left out, one after the other, before that is done.
        wraps: Names of columns of prose, which may break into lines.
    """

    def __init__(
        self, *, keys: int = 1, spare: Sequence[str] = (), wraps: Sequence[str] = (), **how: Any
    ) -> None:
        super().__init__(**how)
        self._keys, self._spare, self._wraps = keys, tuple(spare), frozenset(wraps)

    def add_row(self, *cells: Any, **how: Any) -> None:
        """A row; text is printed as it is, no markup, with control characters spelled out."""
        super().add_row(*(_plain(c) for c in cells), **how)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        if self.title:
            yield Text(str(self.title), style="table.title")
        if self.columns:
            yield from self._body(options.max_width)
        if self.caption:
            yield Text(str(self.caption), style="table.caption")

    def _body(self, width: int) -> Iterator[Any]:
        chosen = whole = list(range(len(self.columns)))
        laid = several = self._laid(whole, width)
        for name in self._spare:
            if len(laid) != 1:
                chosen = [k for k in chosen if str(self.columns[k].header) != name]
                laid = self._laid(chosen, width)
        if len(laid) != 1 and 0 < len(several) <= MAX_TABLES:
            chosen, laid = whole, several
        if not 0 < len(laid) <= MAX_TABLES:
            yield from self._lines(chosen, width)
            return
        for block in laid:
            yield self._part([chosen[k] for k in block])

    def _laid(self, chosen: Sequence[int], width: int) -> list[list[int]]:
        """The tables that the chosen columns make."""
        between, edge = (2, 2) if self.box is None else (3, 4)
        natural = [self._width(k) for k in chosen]
        whole = blocks(natural, width - edge, keys=self._keys, between=between)
        if len(whole) == 1:
            return whole
        prose = [k for k, c in enumerate(chosen) if str(self.columns[c].header) in self._wraps]
        if prose:  # they take what the others leave
            rest = sum(w + between for k, w in enumerate(natural) if k not in prose)
            share = (width - edge + between - rest) // len(prose) - between
            if share >= 20:
                fitted = [min(w, share) if k in prose else w for k, w in enumerate(natural)]
                return blocks(fitted, width - edge, keys=self._keys, between=between)
        return whole

    def _width(self, number: int) -> int:
        column = self.columns[number]
        cells = [column.header, *column.cells] if self.show_header else list(column.cells)
        return max((cell_len(line) for cell in cells for line in str(cell).split("\n")), default=0)

    def _part(self, chosen: Sequence[int]) -> RichTable:
        """A table of some columns."""
        made = RichTable(box=self.box, show_header=self.show_header, header_style=self.header_style)
        columns = [self.columns[k] for k in chosen]
        for column in columns:
            prose = str(column.header) in self._wraps
            whole = not prose and "\n" not in str(column.header)
            made.add_column(Text(str(column.header)), justify=column.justify, overflow="fold", no_wrap=whole)
        cells = [list(column.cells) for column in columns]
        for k, row in enumerate(self.rows):
            made.add_row(*(own[k] for own in cells), style=row.style, end_section=row.end_section)
        return made

    def _lines(self, chosen: Sequence[int], width: int) -> Iterator[Text]:
        """A row as lines: its keys, then a line a cell that has something in it."""
        keys, others = chosen[: self._keys], chosen[self._keys :]
        cells = {k: list(self.columns[k].cells) for k in chosen}
        for row in range(len(self.rows)):
            yield Text("  ".join(str(cells[k][row]) for k in keys).rstrip(), style="bold")
            for k in others:
                if value := str(cells[k][row]):
                    head = " ".join(str(self.columns[k].header).split())
                    line = f"  {head}: {value}" if head else f"  {value}"
                    lines = wrap(
                        line, width, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
                    )
                    yield from map(Text, lines)
