# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint demo``: create a small dataset, run all method families, write a report."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from ..common import notice, print_runs_json, print_tables, progress_bars, resumable


def demo(
    out: Path = typer.Option(Path("tiepoint-demo"), "--out", help="Folder for data, store and report."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Maximum number of workers; 0 means one per core."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Create a small photo set, run methods of all families on it, print tables and write a report.

    Example: `tiepoint demo`
    """
    from ...report.export import write
    from ...run.costs import cores
    from ...run.demo import lacking, run_demo
    from ...store.status_files import track_progress

    if (missing := lacking()) is not None:
        notice(missing)
    with (
        progress_bars(not json_) as bars,
        track_progress(out / "store", "the demo", bars) as progress,
        resumable(),
    ):
        runs, store = run_demo(out, jobs=jobs or cores(), progress=progress)
        report = out / "report.html"
        write(runs, report, "html", title="tiepoint demo", progress=progress)
    if json_:
        print_runs_json(runs, [] if missing is None else [missing])
        return
    print_tables(runs, [])
    print(f"\nstore: {store}\nreport: {report.resolve()}")
    print(f"browse the results: tiepoint serve --store {shlex.quote(str(store))}")
