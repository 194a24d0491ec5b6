# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store ls``, ``rm`` and ``rename``: the runs of a store."""

from __future__ import annotations

import json

import typer

from ...core.amounts import count_text, format_bytes
from ...core.formatting import printable
from ..asking import STORE, confirm, print_plain_table
from ..common import notice, open_store_for_reading, open_store_for_writing


def ls(
    method: str = typer.Option(None, "--method", help="Only runs of this method."),
    task: str = typer.Option(None, "--task", help="Only runs of this task."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    store: str = STORE,
    json_: bool = typer.Option(False, "--json", help="Print one JSON list."),
) -> None:
    """List the runs of a store with what they take: all they need, and what only they need.

    Example: `tiepoint store ls --task hpatches/matching`
    """
    from ...store.maintenance.space import list_runs

    with open_store_for_reading(store) as opened:
        found = list_runs(opened, method=method, task=task, dataset=dataset)
    if json_:
        print(json.dumps([run.to_dict() for run in found], indent=1))
        return
    if not found:
        print("no runs" + (" that fit" if method or task or dataset else " yet"))
        return
    columns = ["run", "method", "task", "dataset", "made", "size", "only its own"]
    rows = [
        [r.run, r.method, r.task, r.dataset, r.made, format_bytes(r.size_bytes), format_bytes(r.only_bytes)]
        for r in found
    ]
    print_plain_table(columns, rows, right=2)


def rm(
    runs: list[str] = typer.Argument(..., metavar="RUN...", help="Ids of runs; the beginning is enough."),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be deleted."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Delete runs, and the records, scene values and features that no other run needs.

    Other processes may work on the store meanwhile: what they may use stays.

    Example: `tiepoint store rm 3f9a12 --dry-run`
    """
    from ...store.maintenance.edit_runs import remove_runs

    with open_store_for_reading(store) as opened:
        told = remove_runs(opened, runs, dry_run=True)
    if not json_:
        for run, method, task in told.runs:
            print(f"{run}  {printable(method)} on {printable(task)}")
        parts = [
            f"{count_text(a.files, kind.removesuffix('s'))} ({format_bytes(a.size_bytes)})"
            for kind, a in told.files.items()
        ]
        print("what no other run needs: " + (", ".join(parts) or "nothing"))
        if told.kept:
            print(f"kept, since processes at work may use them: {count_text(told.kept, 'file')}")
    if not dry_run:
        confirm(f"Delete {count_text(len(told.runs), 'run')}?", yes)
        with open_store_for_writing(store, create=False) as opened:
            told = remove_runs(opened, [run for run, _, _ in told.runs])
    if json_:
        print(json.dumps(told.to_dict(), indent=1))
    elif not dry_run:
        print(f"deleted {count_text(len(told.runs), 'run')}, {format_bytes(told.size_bytes)}")


def rename(
    old: str = typer.Argument(..., help="Name of a method now."),
    new: str = typer.Argument(..., help="Its name from now on."),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be done."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Rename a method in all its runs. Scores stay; ids of runs change, since the name is part of them.

    Example: `tiepoint store rename my_net MyNet-v2`
    """
    from ...store.maintenance.rename import rename_method

    if dry_run:
        with open_store_for_reading(store) as opened:
            found = rename_method(opened, old, new, dry_run=True)
    else:
        with open_store_for_writing(store, create=False) as opened:
            found = rename_method(opened, old, new)
    if json_:
        print(json.dumps(found.to_dict(), indent=1))
        return
    for before, after in found.ids.items():
        print(before if before == after else f"{before} -> {after}")
    would = "would be" if dry_run else "is now"
    print(f"{printable(old)} {would} called {printable(new)} in {count_text(len(found.ids), 'run')}")
    if any(a != b for a, b in found.ids.items()):
        notice(f"the ids are those of runs made with --name '{printable(new)}'")
