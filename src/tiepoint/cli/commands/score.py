# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint score`` and ``tiepoint import``: score and import results of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ..common import (
    as_text,
    console,
    notice,
    open_store_for_writing,
    print_runs_json,
    print_status,
    print_tables,
    progress_bars,
    resumable,
    split_values,
    task_options,
    without_effect,
)


def score_command(
    context: typer.Context,
    task: str = typer.Argument(..., metavar="TASK", help="Task, e.g. hpatches-v1/matching or tss."),
    results: list[Path] = typer.Option(
        ..., "--results", help="Folder or file with results; repeat for several methods."
    ),
    data: Path = typer.Option(..., "--data", help="Folder of the dataset."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder of benchmark definitions."),
    benchmark: list[str] = typer.Option(
        None, "--benchmark", help="Benchmark definitions to use, NAME or NAME*."
    ),
    protocol: list[str] = typer.Option(None, "--protocol", help="Protocols; default exact."),
    name: str = typer.Option(None, "--name", help="Name of the run; only for results of one method."),
    on_bad: str = typer.Option(None, "--on-bad", help="Treat NaN distances as error or miss; not for flows."),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the task, key=value."),
    auto_flip: bool = typer.Option(
        False, "--auto-flip", help="tss: invert both masks when that raises the score."
    ),
    use_prec: bool = typer.Option(False, "--use-prec", help="tss: pixel accuracy (SegPrec) instead of IoU."),
    missing: str = typer.Option(
        None, "--missing", help="tss and dense tasks: zero (default), skip or error for missing files."
    ),
    scores_csv: bool = typer.Option(False, "--scores-csv", help="tss: write RESULTS/SUBSET/scores.csv."),
    pairs: bool = typer.Option(False, "--pairs", help="tss: also print both directions of every pair."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Maximum number of workers; 0 means one per core."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Score result files written by any program.

    Example: `tiepoint score hpatches-v1/matching --results results --data hpatches-release`
    """
    from ...run.costs import cores
    from ...run.result_files import score_results

    if task != "tss":
        without_effect(context, ("scores_csv", "pairs"), f"on {task}, which has no rows for pairs")
    if json_:
        without_effect(context, ("pairs",), "with --json, which prints no tables")
    folders = list(dict.fromkeys(results))
    if len(folders) > 1:
        without_effect(context, ("name",), "with several folders of results")
    options = task_options(
        option,
        tasks=tasks,
        benchmark=split_values(benchmark) or None,
        on_bad=on_bad,
        auto_flip=auto_flip or None,
        use_prec=use_prec or None,
        missing=missing,
    )
    with open_store_for_writing(store) as opened, progress_bars(not json_) as progress, resumable():
        found = {
            folder: score_results(
                task,
                folder,
                data,
                opened,
                protocols=split_values(protocol),
                options=options,
                jobs=jobs or cores(),
                name=as_text(name),
                progress=progress,
                announce=notice,
            )
            for folder in folders
        }
    if scores_csv:
        for folder, own in found.items():
            _write_scores_csv(own, folder, split_values(protocol))
    runs = [run for own in found.values() for run in own]
    if json_:
        print_runs_json(runs, list(dict.fromkeys(w for r in runs for w in r.warnings)))
        return
    print_tables(runs, by_document=True)
    if pairs:
        _print_pairs(runs)


def _write_scores_csv(runs: Sequence[Any], results: Path, protocols: Sequence[str]) -> None:
    from ...tasks.tss.results import subsets_without_results, write_subset_scores

    for run in runs:
        for path in write_subset_scores(run.unit_records, results, protocols):
            print_status(f"wrote {path}")
        for subset in subsets_without_results(run.unit_records):
            notice(f"{results}: no results of the subset {subset}; its scores.csv was not written")


def _print_pairs(runs: Sequence[Any]) -> None:
    from ...report.terminal.scores import pair_tables

    for table in pair_tables(runs):
        console().print(table)


def import_results(
    files: list[Path] = typer.Argument(..., metavar="FILE...", help="Result files, or folders of them."),
    name: str = typer.Option(
        None, "--name", help="New name of the method; only for files of a single method."
    ),
    split: str = typer.Option(None, "--split", help="Import only results of this split."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder of task files, for retrieval results."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Import results of older tools, with notes about unreliable values.

    HPatches reference tools: pickles (never executed), JSON, MATLAB score tables. DescriptorWorkbench:
    databases (`experiments.db`) with their keypoint sets, and CSV exports. GIM: pose errors of ZEB
    (`[T] METHOD SET VERSION.txt`).

    Example: `tiepoint import results/sift_matching_full.p`
    """
    from ...run.importers import import_files

    with open_store_for_writing(store) as opened:
        runs, notes = import_files(files, opened, name=as_text(name), split=split, tasks=tasks)
    if json_:
        print_runs_json(runs, notes)
        return
    if len(runs) <= 3:
        print_tables(runs, notes)
    else:
        for note in notes:
            notice(note)
    for run in runs:
        print_status(f"imported {run.method} on {run.task} (run {run.id})")
