# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint run``: methods on tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..model.errors import InputError, TiepointError
from .common import error, key_values, print_json, print_tables, progress_bars, values
from .experiment_view import run_config


def run(
    methods: list[str] = typer.Argument(
        None, metavar="METHOD...", help="Names, files:DIR, onnx:FILE, my.py:Class …"
    ),
    task: list[str] = typer.Option(None, "--task", help="Task, repeated or comma-separated."),
    data: Path = typer.Option(None, "--data", help="Folder of the dataset."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder with definition files, splits, task lists."),
    benchmark: list[str] = typer.Option(None, "--benchmark", help="Definition files to use; NAME or NAME*."),
    protocol: list[str] = typer.Option(None, "--protocol", help="Protocols; default exact."),
    split: str = typer.Option(None, "--split", help="Split of the task (HPatches 2017)."),
    jobs: int = typer.Option(0, "--jobs", help="Worker processes; 0 means one per core."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    on_bad: str = typer.Option(
        "error", "--on-bad", help="NaN, inf, zero descriptors: error, miss, keep-zeros."
    ),
    device: str = typer.Option("cpu", "--device", help="Device of learned methods."),
    fit_on: Path = typer.Option(
        None, "--fit-on", help="Dataset to fit +pca, +zca … on instead of the split's train sequences."
    ),
    write_results: Path = typer.Option(
        None, "--write-results", help="Also write result files of the task here."
    ),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the task, key=value."),
    config: Path = typer.Option(None, "--config", help="Experiment file (YAML)."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the plan and stop."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Run methods on tasks and print their scores.

    Example: `tiepoint run sift rootsift orb --task hpatches-v1/matching --data hpatches-release`
    """
    from ..run.engine import Request, evaluate
    from ..run.manifest import cores
    from ..run.results_files import write_result_files
    from ..store.store import Store, store_root

    names = values(task)
    if config is not None:
        if methods or names or data is not None:
            raise InputError("an experiment file names methods, tasks and data itself; give --config alone")
        return run_config(config, store, dry_run=dry_run, as_json=json_)
    if not methods or not names or data is None:
        raise InputError("run needs at least one METHOD, --task and --data; see tiepoint run --help")
    options: dict[str, Any] = key_values(option)
    given = {"tasks": tasks, "split": split, "benchmark": values(benchmark) or None}
    options |= {k: v for k, v in given.items() if v is not None}
    protocols = tuple(values(protocol))
    requests = [
        Request(
            method,
            name,
            data,
            protocols,
            options,
            {"on_bad": on_bad, "device": device},
            jobs if jobs > 0 else cores(),
            fit_on,
        )
        for name in names
        for method in methods
    ]
    if dry_run:
        return _plan(requests, store_root(store))
    runs, failed = [], 0
    with Store.open(store) as opened, progress_bars(not json_) as progress:
        for request in requests:
            try:
                runs.append(evaluate(request, opened, progress))
                if write_results is not None:
                    write_result_files(request, runs[-1], opened, write_results)
            except InputError:
                raise
            except TiepointError as e:
                error(str(e))
                failed += 1
    warnings = list(dict.fromkeys(w for r in runs for w in r.warnings))
    if json_:
        print_json([row for r in runs for row in r.rows()], warnings)
    else:
        print_tables(runs, warnings)
    return 1 if failed else 0


def _plan(requests: list[Any], root: Path) -> int:
    from ..methods.keypoint_places import located
    from ..methods.resolve import resolve
    from ..run.engine import checked_protocols, load_task
    from ..run.fitting import planned

    for request in requests:
        task = load_task(request.task)
        protocols = checked_protocols(task, request.protocols)
        opened = task.open(request.data, request.options)
        method = resolve(
            located(request.method, root), family=task.family, fit=planned, **request.method_options
        )
        rows = sum(i.count or 0 for i in opened.items)
        size = f", {rows:,} rows" if rows else ""
        print(
            f"{method.name} on {task.name}: {len(opened.items)} items{size}, "
            f"{len(opened.units)} units, protocols {', '.join(protocols)}"
        )
    return 0
