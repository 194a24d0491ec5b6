# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint compare``: differences between methods, with intervals, tests and groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ...core.errors import InputError
from ...core.formatting import first_few
from ..common import console, dump_json, open_store_for_reading, split_values
from ..shell.console import width_of
from ..shell.flag_names import as_flags


def _only_task(methods: Sequence[str], store: str | None) -> str:
    """Return the only task with finished runs of all methods. Raise an error if there are several or none."""
    from ...report.runs.selection import runs_of

    with open_store_for_reading(store) as opened:
        names: list[list[str] | None] = [[m] for m in methods] or [None]
        tasks = [{run.task for run in runs_of(opened, name, singles=False)} for name in names]
    shared = sorted(set.intersection(*tasks))
    if len(shared) == 1:
        return shared[0]
    found = f"found {first_few(shared)}" if shared else "no task has runs of all methods"
    raise InputError(f"compare needs --task TASK: {found}")


def compare_command(
    methods: list[str] = typer.Argument(
        None, metavar="[METHOD...]", help="Methods or run ids; by default all."
    ),
    task: str = typer.Option(
        None,
        "--task",
        help="Task whose runs are compared; by default the only task with runs of all methods.",
    ),
    metric: str = typer.Option(
        None, "--metric", help="Score to compare by; by default the task's headline score."
    ),
    group: str = typer.Option(None, "--group", help="Group of the score, e.g. noise=hard."),
    protocol: str = typer.Option(
        None, "--protocol", help="Protocol; by default one that all runs share, preferably exact."
    ),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    baseline: str = typer.Option(
        None, "--baseline", help="Method or run id to compare the others with; by default the best."
    ),
    allow: list[str] = typer.Option(
        None, "--allow", help="Differences between runs to accept: dataset, lists, scenes, split …"
    ),
    test: str = typer.Option(
        "sign-flip", "--test", help="Test: sign-flip (assumes differences symmetric about 0) or bootstrap-t."
    ),
    margin: float = typer.Option(
        None, "--margin", help="Test whether METHOD loses at most this many points against the baseline."
    ),
    subset: str = typer.Option(
        None, "--subset", help="Compare the runs on this subset, with complete runs restricted to it."
    ),
    out: Path = typer.Option(
        None, "--out", help="Write the table here: .md, .tex, .csv, .json, .parquet or .txt."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Compare methods on the same scenes.

    If a method has runs on several splits, `--split` chooses one. By default, the only split of the other
    methods is used.

    Example: `tiepoint compare sift rootsift --task hpatches-v1/matching --baseline sift`
    """
    from ...api import compare as compare_named
    from ...report.compare.text_table import comparison_text

    comparison = compare_named(
        methods or (),
        task=task or _only_task(methods or (), store),
        metric=metric,
        group=group,
        protocol=protocol,
        split=split,
        dataset=dataset,
        baseline=baseline,
        allow=split_values(allow),
        test=test,
        margin=margin,
        subset=subset,
        store=store,
    )
    written = {} if out is None else {"file": str(comparison.save(out))}
    if json_:
        dump_json(comparison.to_dict() | written)
    elif written:
        print(f"wrote {written['file']}")
    else:
        print(as_flags(comparison_text(comparison, width_of(sys.stdout) or console().width)))
