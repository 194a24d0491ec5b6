# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint run --config``: run an experiment file with a live table of metrics."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.formatting import count_text
from ..common import (
    console,
    error,
    merge_warnings,
    open_store_for_writing,
    print_plan,
    print_runs_json,
    print_status,
    print_tables,
    progress_bars,
    resumable,
)
from ..shell import common_options
from ..shell.console import Progress, redraws
from ..shell.flag_names import as_flags


def run_config(
    config: Path,
    store: str | None,
    performance: Mapping[str, Any],
    *,
    dry_run: bool,
    as_json: bool,
    cluster: str | None = None,
) -> int:
    """Run an experiment file. Return 0 if every run succeeded, otherwise 1.

    Values in `performance` override the values of the file unless they are None.
    """
    from ...run.experiment.config import read_experiment
    from ...run.experiment.grid import plan
    from ...run.experiment.runner import run_experiment, store_of
    from ...store.status_files import track_progress

    experiment = read_experiment(config, {k: v for k, v in performance.items() if v is not None})
    if dry_run:
        return _plan(experiment, plan(experiment), as_json)
    outcomes: list[Any] = []
    live = not as_json and redraws(sys.stdout) and not common_options.quiet()
    where = store_of(experiment, config, store)
    bars = progress_bars(not as_json and not live)
    what = f"experiment {config.name}"
    with (
        open_store_for_writing(where) as opened,
        bars as drawn,
        track_progress(opened.root, what, drawn) as progress,
        resumable(),
    ):
        if live:
            _live(experiment, opened, outcomes, progress, cluster)
        else:
            outcomes += run_experiment(
                experiment, opened, progress=progress, cluster=cluster, report=print_status
            )
    failed = [o for o in outcomes if o.error is not None]
    for outcome in failed:
        error(outcome.error)
    runs = [o.run for o in outcomes if o.run is not None]
    if as_json:
        print_runs_json(runs, merge_warnings(runs))
    else:
        print_tables(runs)
        for outcome in failed:
            print(f"{outcome.cell.name} on {outcome.cell.task}: failed")
    return 1 if failed else 0


def _live(experiment: Any, store: Any, outcomes: list[Any], progress: Progress, cluster: str | None) -> None:
    """Run the experiment and redraw a table at every step. The table disappears at the end."""
    from rich.live import Live

    from ...run.experiment.runner import run_experiment

    with Live(table(outcomes), console=console(), refresh_per_second=4, transient=True) as screen:

        def step(stage: str, done: int, total: int) -> None:
            progress(stage, done, total)
            screen.update(table(outcomes, f"{stage}, {done} of {total}"))

        for outcome in run_experiment(experiment, store, progress=step, cluster=cluster, report=print_status):
            outcomes.append(outcome)
            screen.update(table(outcomes))


def table(outcomes: list[Any], now: str = "") -> Any:
    """Build the table of headline metrics of finished runs. A failed run shows the reason instead."""
    from rich.text import Text

    from ...report.terminal.rich_table import FittingTable
    from ...report.terminal.scores import summary_text

    shown = FittingTable(
        title="experiment (percent, 95 % interval)",
        caption=Text(now) if now else None,
        keys=2,
        wraps=("metrics",),
    )
    for column in ("method", "task", "run", "protocol", "metrics"):
        shown.add_column(column)
    for outcome in outcomes:
        if outcome.error is not None:
            failed = Text(f"failed: {as_flags(outcome.error)}")
            shown.add_row(Text(outcome.cell.name), Text(outcome.cell.task), "", "", failed)
            continue
        for protocol in outcome.cell.protocols:
            text = summary_text(outcome.run, protocol)
            name, task = Text(outcome.cell.name), Text(outcome.cell.task)
            shown.add_row(name, task, outcome.run.id, protocol, Text(text))
    return shown


def _plan(experiment: Any, cells: list[Any], as_json: bool) -> int:
    """Print the planned runs with their numbers of items and units."""
    from ...methods.keypoints.spec import split_detector
    from ...tasks import load_task

    found = []
    for cell in cells:
        opened = load_task(cell.task).open(experiment.dataset.path, cell.options)
        found.append(
            {
                "method": cell.name,
                "spec": cell.spec,
                "task": cell.task,
                "items": len(opened.items),
                "units": len(opened.units),
                "protocols": list(cell.protocols),
            }
        )
    sets = sorted({c.make for c in cells if c.make is not None})
    if not as_json:
        for detector in sets:
            print(f"keypoint set: {detector} in image 1 of every scene, projected into the others")
    print_plan(found, as_json, keypoint_sets=sets)
    if not as_json:
        extractions = {(c.spec, split_detector(c.spec).detector) for c in cells}
        images = max(one["items"] for one in found)
        made = f"{count_text(len(extractions), 'feature extraction')} of {count_text(images, 'image')} each"
        print(f"{count_text(len(cells), 'run')}, {made}")
    return 0
