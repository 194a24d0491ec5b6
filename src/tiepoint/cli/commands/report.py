# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint report``: all runs of a store in one page or table."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.amounts import count_text
from ..common import notice, open_store_for_reading, progress_bars, split_values


def report(
    methods: list[str] = typer.Argument(None, metavar="[METHOD...]", help="Methods or run ids; default all."),
    out: Path = typer.Option(None, "--out", help="File to write; default report.html (or .md, .tex, …)."),
    form: str = typer.Option("html", "--format", help="html, md, latex, csv, json or parquet."),
    table: str = typer.Option(
        None,
        "--table",
        help="Of md, latex, csv: combined (methods by tasks), tasks (by groups), scores (all of them).",
    ),
    names: Path = typer.Option(None, "--names", help="YAML file of display names, for tables of a paper."),
    task: list[str] = typer.Option(None, "--task", help="Only these tasks."),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    protocol: str = typer.Option(None, "--protocol", help="Only scores under this protocol; default exact."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
) -> None:
    """Write a report of the runs in a store.

    Markdown and LaTeX are the tables of a paper: methods by tasks, and each task by noise, subset or kind.

    Example: `tiepoint report --format latex --names names.yaml --out tables.tex`
    """
    from ...core.errors import UnknownNameError
    from ...report.export import SUFFIX, check_table, write
    from ...report.runs.lazy_records import report_damage
    from ...report.runs.names import read_names
    from ...report.runs.selection import of_dataset, of_protocol, of_split, runs_of

    path = out or Path(f"report.{SUFFIX.get(form, form)}")
    wanted = split_values(task)
    called = None if names is None else read_names(names)
    check_table(form, table, called)
    with open_store_for_reading(store) as opened, progress_bars() as progress:
        runs = runs_of(opened, methods, singles=form not in ("html", "md", "latex"))
        for name in wanted:
            if name not in {r.task for r in runs}:
                raise UnknownNameError("task with runs in the store", name, {r.task for r in runs})
        runs = [r for r in runs if not wanted or r.task in wanted]
        if split is not None:
            runs = of_split(runs, split, methods or ())
        runs = runs if dataset is None else of_dataset(runs, dataset)
        runs = runs if protocol is None else of_protocol(runs, protocol)
        with report_damage(notice):
            write(runs, path, form, progress=progress, table=table, called=called)
    print(f"wrote {path} ({count_text(len(runs), 'run')})")
