# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint report``: all runs of a store in one page or table."""

from __future__ import annotations

from pathlib import Path

import typer

from .common import progress_bars, reading, values


def report(
    methods: list[str] = typer.Argument(None, metavar="[METHOD...]", help="Methods or run ids; default all."),
    out: Path = typer.Option(None, "--out", help="File to write; default report.html (or .md, .tex, …)."),
    form: str = typer.Option("html", "--format", help="html, md, latex, csv, json or parquet."),
    task: list[str] = typer.Option(None, "--task", help="Only these tasks."),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
) -> None:
    """Write a report of the runs in a store.

    Example: `tiepoint report --out report.html`
    """
    from ..model.errors import UnknownNameError
    from ..report.export import SUFFIX, write
    from ..report.runs.select import of_split, runs_of

    path = out or Path(f"report.{SUFFIX.get(form, form)}")
    wanted = values(task)
    with reading(store) as opened, progress_bars() as progress:
        runs = runs_of(opened, methods, singles=form not in ("html", "md", "latex"))
        for name in wanted:
            if name not in {r.task for r in runs}:
                raise UnknownNameError("task with runs in the store", name, {r.task for r in runs})
        runs = [r for r in runs if not wanted or r.task in wanted]
        if split is not None:
            runs = of_split(runs, split, methods or ())
        write(runs, path, form, progress=progress)
    print(f"wrote {path} ({len(runs)} runs)")
