# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint run``: methods on tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..model.errors import InputError, StoreError, TiepointError
from .common import error, key_values, print_json, print_tables, progress_bars, told, values
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
    from ..run.engine import Shared
    from ..run.foreign_results import has_result_files
    from ..run.machine import cores
    from ..run.prepare import Request, prepare_all
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
    check = has_result_files if write_results is not None else None
    if dry_run:
        return _plan(prepare_all(requests, store_root(store), check=check))
    with Store.open(store) as opened, progress_bars(not json_) as progress:
        prepared = prepare_all(requests, opened.root, progress, check=check)
        with Shared(opened.root) as shared:
            runs, code = _evaluate(prepared, opened, shared, progress, write_results)
    warnings = told(runs)
    if json_:
        print_json([row for r in runs for row in r.rows()], warnings)
    else:
        print_tables(runs, warnings)
    return code


def _evaluate(
    prepared: list[Any], store: Any, shared: Any, progress: Any, out: Path | None
) -> tuple[list[Any], int]:
    """Run what was made ready, one after the other; a failure is told at once and the rest goes on."""
    from ..run.engine import evaluate_prepared
    from ..run.foreign_results import write_result_files

    alone = len(prepared) == 1
    runs: list[Any] = []
    errors: dict[str, int] = {}
    while prepared:
        one = prepared.pop(0)  # lets the open task go after its last method
        try:
            runs.append(evaluate_prepared(one, store, shared, progress))
            if out is not None:
                write_result_files(one, runs[-1], store, shared, out)
        except StoreError:
            raise
        except TiepointError as e:
            if alone and isinstance(e, InputError):
                raise
            if str(e) not in errors:
                error(str(e))
            errors[str(e)] = e.exit_code
    return runs, max(errors.values(), default=0)


def _plan(prepared: list[Any]) -> int:
    for one in prepared:
        rows = sum(i.count or 0 for i in one.opened.items)
        size = f", {rows:,} rows" if rows else ""
        print(
            f"{one.method.name} on {one.task.name}: {len(one.opened.items)} items{size}, "
            f"{len(one.opened.units)} units, protocols {', '.join(one.protocols)}"
        )
    return 0
