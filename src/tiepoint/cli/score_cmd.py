# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint score``: files that another program made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from .common import key_values, print_json, print_tables, progress_bars, values


def score(
    task: str = typer.Argument(..., metavar="TASK", help="Task, e.g. hpatches-v1/matching or tss."),
    results: Path = typer.Option(..., "--results", help="Folder with result files."),
    data: Path = typer.Option(..., "--data", help="Folder of the dataset."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder with definition files."),
    benchmark: list[str] = typer.Option(None, "--benchmark", help="Definition files to use; NAME or NAME*."),
    protocol: list[str] = typer.Option(None, "--protocol", help="Protocols; default exact."),
    on_bad: str = typer.Option(None, "--on-bad", help="NaN distances: error or miss."),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the task, key=value."),
    auto_flip: bool = typer.Option(
        False, "--auto-flip", help="tss: swap mask labels where that scores more."
    ),
    use_prec: bool = typer.Option(
        False, "--use-prec", help="tss: pixel accuracy instead of IoU in scores.csv."
    ),
    missing: str = typer.Option(None, "--missing", help="tss: error, skip or zero for missing files."),
    scores_csv: bool = typer.Option(False, "--scores-csv", help="tss: write RESULTS/SUBSET/scores.csv."),
    jobs: int = typer.Option(0, "--jobs", help="Worker processes; 0 means one per core."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Score files that another program made: any dissimilarity, any language.

    Example: `tiepoint score hpatches-v1/matching --results results --data hpatches-release`
    """
    from ..run.manifest import cores
    from ..run.results_files import score_results
    from ..store.store import Store

    options: dict[str, Any] = key_values(option)
    given = {
        "tasks": tasks,
        "benchmark": values(benchmark) or None,
        "on_bad": on_bad,
        "auto_flip": auto_flip or None,
        "use_prec": use_prec or None,
        "missing": missing,
    }
    options |= {k: v for k, v in given.items() if v is not None}
    with Store.open(store) as opened, progress_bars(not json_) as progress:
        runs = score_results(
            task,
            results,
            data,
            opened,
            protocols=values(protocol),
            options=options,
            jobs=jobs if jobs > 0 else cores(),
            progress=progress,
        )
    if scores_csv:
        from ..tasks.tss_results import write_subset_scores

        for run in runs:
            for path in write_subset_scores(run.unit_records, results, values(protocol), use_prec=use_prec):
                typer.echo(f"wrote {path}", err=True)
    warnings = list(dict.fromkeys(w for r in runs for w in r.warnings))
    if json_:
        print_json([row for r in runs for row in r.rows()], warnings)
    else:
        print_tables(runs, warnings)
