# SPDX-License-Identifier: BSD-3-Clause
"""Rich tables without truncated cells. Wide tables are split or printed with one cell per line."""

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
"""Maximum number of parts of a split table. With more parts, each cell is printed on its own line."""


def _plain(cell: Any) -> Text:
    """Return a cell as text without control characters."""
    if isinstance(cell, Text):
        return cell if cell.plain.isprintable() else Text(printable(cell.plain), style=cell.style)
    return Text(printable(str(cell)))


class FittingTable(RichTable):
    """A table that adapts to the width of the terminal, with its title above.

    Args:
        keys: Number of leading columns that identify a row. Each part of a split table repeats them.
        spare: Names of columns that may be dropped, in this order, before the table is split.
        wraps: Names of columns whose text may wrap.
    """

    def __init__(
        self, *, keys: int = 1, spare: Sequence[str] = (), wraps: Sequence[str] = (), **how: Any
    ) -> None:
        super().__init__(**how)
        self._keys, self._spare, self._wraps = keys, tuple(spare), frozenset(wraps)

    def add_row(self, *cells: Any, **how: Any) -> None:
        """Add a row. Markup is printed literally; control characters are escaped."""
        super().add_row(*(_plain(c) for c in cells), **how)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        if self.title:
            yield Text(str(self.title), style="table.title")
        if self.columns:
            yield from self._body(options.max_width)
        if self.caption:
            yield Text(str(self.caption), style="table.caption")

    def _body(self, width: int) -> Iterator[Any]:
        chosen = full = list(range(len(self.columns)))
        parts = several = self._split(full, width)
        for name in self._spare:
            if len(parts) != 1:
                chosen = [k for k in chosen if str(self.columns[k].header) != name]
                parts = self._split(chosen, width)
        if len(parts) != 1 and 0 < len(several) <= MAX_TABLES:
            chosen, parts = full, several
        if not 0 < len(parts) <= MAX_TABLES:
            yield from self._lines(chosen, width)
            return
        for block in parts:
            yield self._part([chosen[k] for k in block])

    def _split(self, chosen: Sequence[int], width: int) -> list[list[int]]:
        """Return the columns of each part of the table."""
        between, edge = (2, 2) if self.box is None else (3, 4)
        natural = [self._width(k) for k in chosen]
        full = blocks(natural, width - edge, keys=self._keys, between=between)
        if len(full) == 1:
            return full
        prose = [k for k, c in enumerate(chosen) if str(self.columns[c].header) in self._wraps]
        if prose:  # Text columns share the remaining width.
            rest = sum(w + between for k, w in enumerate(natural) if k not in prose)
            share = (width - edge + between - rest) // len(prose) - between
            if share >= 20:
                fitted = [min(w, share) if k in prose else w for k, w in enumerate(natural)]
                return blocks(fitted, width - edge, keys=self._keys, between=between)
        return full

    def _width(self, number: int) -> int:
        column = self.columns[number]
        cells = [column.header, *column.cells] if self.show_header else list(column.cells)
        return max((cell_len(line) for cell in cells for line in str(cell).split("\n")), default=0)

    def _part(self, chosen: Sequence[int]) -> RichTable:
        """Return a Rich table with a subset of the columns."""
        table = RichTable(box=self.box, show_header=self.show_header, header_style=self.header_style)
        columns = [self.columns[k] for k in chosen]
        for column in columns:
            prose = str(column.header) in self._wraps
            full = not prose and "\n" not in str(column.header)
            table.add_column(Text(str(column.header)), justify=column.justify, overflow="fold", no_wrap=full)
        cells = [list(column.cells) for column in columns]
        for k, row in enumerate(self.rows):
            table.add_row(*(own[k] for own in cells), style=row.style, end_section=row.end_section)
        return table

    def _lines(self, chosen: Sequence[int], width: int) -> Iterator[Text]:
        """Yield each row as lines: its keys, then a line for each non-empty cell."""
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
