# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store`` and ``tiepoint sql``: looking after a store, asking it."""

from __future__ import annotations

import json

import typer

from .common import console, progress_bars, reading

app = typer.Typer(help="Stores: bring one up to date.", no_args_is_help=True)


@app.callback()
def _store() -> None:
    """Stores: bring one up to date."""


@app.command("migrate")
def migrate(
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be done."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Bring a store of an older version up to date: database, names of runs, scores, scene values.

    The database is copied first. Nothing is extracted, and the command may be stopped and run again.

    Example: `tiepoint store migrate --store tiepoint-store`
    """
    from ..run.migrate import migrate_store

    with progress_bars(not json_) as progress:
        found = migrate_store(store, dry_run=dry_run, progress=progress)
    if json_:
        print(json.dumps(found.to_dict(), indent=1))
        return
    done = "would be " if dry_run else ""
    now = found.to_dict()["now"]
    if found.version == now:
        print(f"{found.store}: the database is up to date (schema {now})")
    else:
        print(f"{found.store}: schema {found.version} {'would become' if dry_run else 'is now'} {now}")
    if found.copy is not None:
        print(f"copy of the database: {found.copy}")
    print(
        f"runs: {found.runs}, {found.renamed} {done}renamed, {found.updated} {done}scored again from records"
    )
    if found.kept:
        print(f"records are missing, so these keep the scores they have: {', '.join(found.kept)}")
    if found.again:
        print("features that have to be made again when these are run the next time:")
        for one in found.again:
            print(f"  {one.run} {one.method} on {one.task}: {one.reason}")


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
