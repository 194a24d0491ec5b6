# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint import``: results of the older tools into the store."""

from __future__ import annotations

from pathlib import Path

import typer

from ..common import as_text, notice, open_store_for_writing, print_json, print_status, print_tables


def import_results(
    files: list[Path] = typer.Argument(..., metavar="FILE...", help="Result files, or folders of them."),
    name: str = typer.Option(None, "--name", help="Another name for the one descriptor of the files."),
    split: str = typer.Option(None, "--split", help="Import only results of this split."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder of task files, for retrieval results."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Import results of the older tools, with notes on what cannot be trusted.

    HPatches reference tools: pickles (never executed), JSON, MATLAB score tables. DescriptorWorkbench:
    databases (`experiments.db`) with their keypoint sets, and CSV exports.

    Example: `tiepoint import results/sift_matching_full.p`
    """
    from ...run.importers import import_files

    with open_store_for_writing(store) as opened:
        runs, notes = import_files(files, opened, name=as_text(name), split=split, tasks=tasks)
    if json_:
        print_json([row for r in runs for row in r.rows()], notes)
        return
    if len(runs) <= 3:
        print_tables(runs, notes)
    else:
        for note in notes:
            notice(note)
    for run in runs:
        print_status(f"imported {run.method} on {run.task} (run {run.id})")
