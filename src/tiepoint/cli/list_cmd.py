# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint list``: what there is."""

from __future__ import annotations

import json

import typer

from ..model.errors import UnknownNameError
from .common import console, reading


def list_things(
    what: str = typer.Argument(..., metavar="methods|tasks|datasets|runs"),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON list."),
) -> None:
    """List methods, tasks, datasets or runs.

    Example: `tiepoint list methods`
    """
    if what not in _LISTS:
        raise UnknownNameError("list", what, _LISTS)
    rows = _LISTS[what](store)
    if json_:
        print(json.dumps(rows, indent=1))
        return
    from rich.table import Table
    from rich.text import Text

    if not rows:
        print(f"no {what} yet")
        return
    table = Table(box=None, header_style="bold")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text("" if v is None else str(v)) for v in row.values()))
    console().print(table)


def _methods(_: str | None) -> list[dict[str, str | None]]:
    from ..methods.names import METHODS

    return [
        {"family": e.family, "name": e.name.split(":")[-1], "about": e.summary, "extra": e.needs}
        for e in METHODS
    ]


def _tasks(_: str | None) -> list[dict[str, str | None]]:
    from ..tasks import TASKS

    return [{"family": e.family, "name": e.name, "about": e.summary} for e in TASKS]


def _datasets(store: str | None) -> list[dict[str, str | None]]:
    import sqlalchemy as sa

    from ..store.schema import datasets

    with reading(store) as opened, opened.reading() as connection:
        rows = connection.execute(sa.select(datasets).order_by(datasets.c.name, datasets.c.id)).mappings()
        return [
            {"name": r["name"], "family": r["family"], "path": r["path"], "hash": r["id"][:12]} for r in rows
        ]


def _runs(store: str | None) -> list[dict[str, str | None]]:
    from ..store.runs import load_runs

    with reading(store) as opened:
        return [
            {
                "run": r.id,
                "method": r.method,
                "task": r.task,
                "dataset": r.dataset,
                "status": r.status,
                "protocols": ",".join(sorted({str(s["protocol"]) for s in r.scores})),
                "made": r.created_at,
            }
            for r in load_runs(opened)
        ]


_LISTS = {"methods": _methods, "tasks": _tasks, "datasets": _datasets, "runs": _runs}
