# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint sql``: run a read-only query."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from ...core.formatting import count_text, printable
from ..common import STORE, console, dump_json, notice, open_store_for_reading

MAX_CELLS = 5_000
"""Maximum number of cells for which a result is fitted to the terminal width."""


MAX_CELL_CHARS = 2_000
"""Maximum number of characters of a printed cell."""


def sql(
    query: str = typer.Argument(..., help="One read-only statement: select, with, values, explain."),
    store: str = STORE,
    timeout: float = typer.Option(60.0, "--timeout", help="Stop the query after this many seconds."),
    limit: int = typer.Option(100_000, "--limit", min=0, help="Maximum number of rows; 0 for all."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON list of rows."),
) -> None:
    """Print the result of a SQL query. The database refuses statements that write.

    Example: `tiepoint sql "select method_id, task, created_at from runs"`
    """
    from ...store.sql_query import run_query

    with open_store_for_reading(store) as opened:
        found = run_query(opened.engine, query, timeout_s=timeout, most_rows=limit or None)
    if found.truncated:
        notice(f"the result is truncated after {count_text(limit, 'row')}; raise `limit`, or pass 0 for all")
    if json_:
        names = _unique_names(found.columns)
        rows = [dict(zip(names, row, strict=True)) for row in found.rows]
        dump_json(rows, default=str)
        return
    cells = [["" if v is None else _cell(v) for v in row] for row in found.rows]
    if len(cells) * len(found.columns) > MAX_CELLS:
        _print_lines([[printable(column) for column in found.columns], *cells])
        return
    from rich.text import Text

    from ...report.terminal.rich_table import FittingTable

    table = FittingTable(box=None, header_style="bold")
    for column in found.columns:
        table.add_column(Text(printable(column)))
    for texts in cells:
        table.add_row(*map(Text, texts))
    console().print(table)


def _cell(value: object) -> str:
    r"""Return the text of a value. A long text ends with the number of characters that were cut.

    >>> _cell("ab\n"), len(_cell("x" * 5_000)), _cell("x" * 5_000)[-30:]
    ('ab\\n', 2024, 'xxxxxx… (3,000 characters cut)')
    """
    text = str(value)
    cut = len(text) - MAX_CELL_CHARS
    return printable(text) if cut <= 0 else f"{printable(text[:MAX_CELL_CHARS])}… ({cut:,} characters cut)"


def _print_lines(grid: Sequence[Sequence[str]]) -> None:
    """Print one line per row at full width, because fitting many rows to a terminal takes minutes."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for row in grid:
        print(" " + "  ".join(text.ljust(n) for text, n in zip(row, widths, strict=True)).rstrip())


def _unique_names(columns: Sequence[str]) -> list[str]:
    """Number duplicate column names.

    >>> _unique_names(["id", "name", "id", "id_2", "id"])
    ['id', 'name', 'id_3', 'id_2', 'id_4']
    """
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names or (number > 1 and name in columns):
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names
