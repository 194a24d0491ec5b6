# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint plan``: how many scenes and pairs a benchmark needs."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.errors import InputError
from ..common import console, dump_json, open_store_for_reading, print_columns, print_status, split_values
from ..shell.flag_names import as_flags


def plan_command(
    detect: float = typer.Option(None, "--detect", help="Difference to detect, in points; required."),
    task: str = typer.Option(None, "--task", help="Task of the stored runs; required."),
    methods: list[str] = typer.Option(
        None, "--methods", help="Methods or run ids; default the newest run of every method."
    ),
    protocol: str = typer.Option(None, "--protocol", help="Protocol; default exact if the runs have it."),
    metric: str = typer.Option(None, "--metric", help="Score; default the task's headline score."),
    group: str = typer.Option(None, "--group", help="Group of the score, e.g. threshold_deg=5."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    power: float = typer.Option(
        0.8, "--power", help="Probability of separating methods that differ by --detect."
    ),
    alpha: float = typer.Option(0.05, "--alpha", help="Probability of separating equal methods."),
    pairs_per_scene: int = typer.Option(
        None, "--pairs-per-scene", help="Number of pairs per planned scene; default as in the runs."
    ),
    family: bool = typer.Option(False, "--family", help="Divide alpha by the number of pairs of methods."),
    out: Path = typer.Option(None, "--out", help="Write the figure: .pdf, .svg, .png, or .csv for its data."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Print how many scenes and pairs a benchmark needs to separate methods, from stored runs.

    Example: `tiepoint plan --detect 1.0 --task pose/relative --out plan.pdf`
    """
    from ...report.benchmark_plan import PlanSettings, plan_benchmark, plan_sentences, plan_table
    from ...report.figures.plan import plan_figure
    from ...tools.planning import in_stored_unit, runs_to_plan

    if detect is None:
        raise InputError("plan needs --detect DIFFERENCE: the smallest difference that matters to you")
    if task is None:
        raise InputError("plan needs --task TASK; see tiepoint plan --help")
    settings = PlanSettings(in_stored_unit(task, metric, detect), power, alpha, pairs_per_scene, family)
    settings.check()
    with open_store_for_reading(store) as opened:
        runs, notes = runs_to_plan(opened, split_values(methods), task, dataset, split)
        for note in notes:
            print_status(note)
        made = plan_benchmark(runs, settings, protocol=protocol, metric=metric, group=group)
    if out is not None:
        plan_figure(made).save(out)
        print_status(f"wrote {out}")
    if json_:
        dump_json(made.to_dict())
        return
    header, rows = plan_table(made)
    print_columns(header, rows, right=len(header) - 1)
    for line in plan_sentences(made):
        console().print(as_flags(line), markup=False, highlight=False)
