# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint export``: write the matches or keypoints of a run as files for other programs."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.formatting import printable
from ..common import STORE, dump_json, open_store_for_reading, print_status


def export(
    run: str = typer.Argument(
        ..., metavar="RUN", help="Run id, prefix of an id, or method (its newest run)."
    ),
    out: Path = typer.Option(..., "--out", help="Folder to create."),
    form: str = typer.Option("npz", "--form", help="Layout of the files: npz, hloc, glue-factory or colmap."),
    task: str = typer.Option(
        None, "--task", help="Task of the run, required if the method has runs of several tasks."
    ),
    store: str = STORE,
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Write the matches of a run on image pairs, or the keypoints and descriptors of a run on images.

    `--form colmap` writes the databases and models of a run of sfm/reconstruct.

    The files come from the feature cache; nothing is computed. `tiepoint run files:DIR` on the same data
    reads them and gives the same scores.

    Example: `tiepoint export "sift?matcher=mnn" --form hloc --out exported`
    """
    from ...report.runs.selection import one_run
    from ...run.export_features import export_features

    with open_store_for_reading(store) as opened:
        stored, remarks = one_run(opened, run, task=task)
        for line in remarks:
            print_status(line)
        found = export_features(opened, stored, out, form)
    if json_:
        dump_json(
            {"run": stored.id, "folder": str(found.folder), "count": found.count, "method": found.method}
        )
        return
    print(printable(str(found)))
    if not found.method:
        return
    print(f'to score them, use the method "{printable(found.method)}" on {stored.task} with the same data')
