# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint sql``: a user's own query."""

from __future__ import annotations

import json

import typer

from ...model.amounts import number_of
from ...model.plain_names import shown
from ..common import console, notice, reading
from .asking import STORE


def sql(
    query: str = typer.Argument(..., help="One statement that reads: select, with, values, explain."),
    store: str = STORE,
    timeout: float = typer.Option(60.0, "--timeout", help="Seconds after which the query is stopped."),
    limit: int = typer.Option(100_000, "--limit", min=0, help="Rows at most; 0 for all."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON list of rows."),
) -> None:
    """Print the result of a SQL query on the store. It can only read; the database refuses everything else.

    Example: `tiepoint sql "select method_id, task, created_at from runs"`
    """
    from ...store.connect.query import ask

    with reading(store) as opened:
        found = ask(opened.engine, query, timeout_s=timeout, most_rows=limit or None)
    if found.more:
        notice(f"these are the first {number_of(limit, 'row')}; `limit` asks for more, 0 for all")
    if json_:
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        print(json.dumps(rows, indent=1, default=str))
        return
    from rich.text import Text

    from ...report.terminal.fit import Table

    table = Table(box=None, header_style="bold")
    for column in found.columns:
        table.add_column(Text(shown(column)))
    for row in found.rows:
        table.add_row(*(Text("" if v is None else shown(str(v))) for v in row))
    console().print(table)
