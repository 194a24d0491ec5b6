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
    from ..report.page.html import render
    from ..report.runs.select import runs_of
    from ..report.runs.splits import of_split

    path = out or Path(f"report.{SUFFIX.get(form, form)}")
    wanted = values(task)
    with reading(store) as opened, progress_bars() as progress:
        runs = runs_of(opened, methods)
        for name in wanted:
            if name not in {r.task for r in runs}:
                raise UnknownNameError("task with runs in the store", name, {r.task for r in runs})
        runs = [r for r in runs if not wanted or r.task in wanted]
        if split is not None:
            runs = of_split(runs, split, methods or ())
        if form == "html":
            write_text(path, render(runs, progress=progress))
        else:
            write(runs, path, form)
    print(f"wrote {path} ({len(runs)} runs)")


def write_text(path: Path, text: str) -> None:
    """Write a text file; a refusal of the system is one sentence."""
    from ..model.errors import InputError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e
