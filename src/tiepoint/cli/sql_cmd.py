# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint sql``: ask the store, read-only."""

from __future__ import annotations

import json

import typer

from .common import console, reading


def sql(
    query: str = typer.Argument(..., help="A select statement."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON list of rows."),
) -> None:
    """Print the result of a SQL query on the store; writing is refused.

    Example: `tiepoint sql "select method_id, task, created_at from runs"`
    """
    from ..store.database import select

    with reading(store) as opened:
        columns, rows = select(opened.engine, query)
    if json_:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=1, default=str))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(Text(column))
    for row in rows:
        table.add_row(*(Text("" if v is None else str(v)) for v in row))
    console().print(table)
