# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint show``: one run in the terminal."""

from __future__ import annotations

from pathlib import Path

import typer

from .common import console, print_json


def show(
    run: str = typer.Argument(
        ..., metavar="RUN", help="Id of a run, may be abbreviated; `tiepoint list runs`."
    ),
    conventions: bool = typer.Option(
        False, "--conventions", help="The run under every protocol, step by step."
    ),
    curves: Path = typer.Option(None, "--curves", help="Write ROC and PR points to this CSV file."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show one run: card, scores, scenes, ranks; `--conventions` explains the gap between protocols.

    Example: `tiepoint show 3f2a --conventions`
    """
    from ..report.show import (
        card,
        convention_tables,
        histogram_table,
        notes,
        scene_table,
        scores_table,
        write_curves,
    )
    from ..run.engine import read_records
    from ..run.result import Run
    from ..store.runs import load_run
    from ..store.store import Store

    with Store.open(store) as opened:
        stored = load_run(opened, run)
        found = Run(stored, read_records(opened, stored), stored.manifest.get("warnings", ()))
    if json_:
        print_json(found.rows(), list(found.warnings))
        return
    out = console()
    if conventions:
        for table in convention_tables(found):
            out.print(table)
        return
    if curves is not None:
        n = write_curves(found, curves)
        print(f"wrote {n} points to {curves}")
        return
    for part in (card(found), scores_table(found), scene_table(found), histogram_table(found)):
        if part is not None:
            out.print(part)
    for note in notes(found):
        out.print(f"note: {note}", markup=False, highlight=False)
