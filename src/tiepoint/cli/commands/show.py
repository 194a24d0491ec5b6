# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint show``: one run in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ...core.amounts import count_text
from ..common import console, dump_json, open_store_for_reading, print_status, progress_bars
from ..shell.flag_names import as_flags


def show_run_command(
    run: str = typer.Argument(
        ...,
        metavar="RUN",
        help="A method, for its newest run, or the id of a run, may be abbreviated; `tiepoint list runs`.",
    ),
    task: str = typer.Option(None, "--task", help="Task of the run, where the method has runs of several."),
    conventions: bool = typer.Option(
        False, "--conventions", help="The run under every protocol, step by step."
    ),
    curves: Path = typer.Option(None, "--curves", help="Write ROC and PR points to this CSV file."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show one run: card, scores, scenes, ranks; `--conventions` explains the gap between protocols.

    Example: `tiepoint show sift --task hpatches-v1/matching --conventions`
    """
    from ...report.runs.lazy_records import lazy_run
    from ...report.runs.selection import one_run
    from ...report.terminal.conventions import conventions_json, conventions_of, terminal_convention_tables
    from ...report.terminal.ranks import histogram_table
    from ...report.terminal.run_view import (
        card_table,
        json_of,
        notes,
        scene_table,
        scored_protocols,
        scores_table,
        write_curves,
    )

    with open_store_for_reading(store) as opened:
        stored, remarks = one_run(opened, run, task=task)
        for line in remarks:
            print_status(line)
        found = lazy_run(stored, opened)
        told = None
        if conventions:
            with progress_bars() as progress:
                told = conventions_of(found, opened, progress)
    points = None if curves is None else write_curves(found, curves)
    if json_:
        whole = json_of(found)
        if told is not None:
            whole["conventions"] = conventions_json(told)
        if points is not None:
            whole["curves"] = {"file": str(curves), "points": points}
        dump_json(whole)
        return
    out = console()

    def say(kind: str, lines: Sequence[str]) -> None:
        for line in lines:
            out.print(f"{kind}: {as_flags(line)}", markup=False, highlight=False)

    if points is not None:
        print(f"wrote {count_text(points, 'point')} to {curves}")
    if told is not None:
        for table in terminal_convention_tables(told):
            out.print(table)
        say("note", told.notes)
        say("missing", list(told.missing.values()))
    if told is not None or points is not None:
        return
    first = next(iter(scored_protocols(found)), "")
    for part in (card_table(found), scores_table(found), scene_table(found), histogram_table(found, first)):
        if part is not None:
            out.print(part)
    say("note", notes(found))
