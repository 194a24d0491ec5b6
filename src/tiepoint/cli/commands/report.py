# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint report`` and ``tiepoint plot``: write a page, tables or a figure of stored runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...core.formatting import count_text
from ..common import (
    console,
    dump_json,
    notice,
    open_store_for_reading,
    print_status,
    progress_bars,
    split_values,
)

if TYPE_CHECKING:
    from ...report.figures.figure import Figure


def report(
    methods: list[str] = typer.Argument(
        None, metavar="[METHOD...]", help="Methods or run ids; by default all."
    ),
    out: Path = typer.Option(None, "--out", help="File to write; default report.html (or .md, .tex, …)."),
    form: str = typer.Option("html", "--format", help="Format: html, md, latex, csv, json or parquet."),
    table: str = typer.Option(
        None,
        "--table",
        help="Table in md, latex and csv: combined (methods by tasks), tasks or scores.",
    ),
    names: Path = typer.Option(None, "--names", help="YAML file of display names for the tables."),
    task: list[str] = typer.Option(None, "--task", help="Only these tasks."),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    protocol: str = typer.Option(None, "--protocol", help="Only scores under this protocol; default exact."),
    test: str = typer.Option(
        "sign-flip", "--test", help="Test: sign-flip (assumes differences symmetric about 0) or bootstrap-t."
    ),
    intervals: bool = typer.Option(
        False, "--intervals", help="Add confidence intervals to the tables in md and latex."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
) -> None:
    """Write a report of the runs in a store.

    Markdown and LaTeX files contain tables for a paper: one of methods by tasks, and one per task with
    columns by noise level, subset or kind.

    Example: `tiepoint report --format latex --names names.yaml --out tables.tex`
    """
    from ...core.errors import UnknownNameError
    from ...report.export import SUFFIX, check_intervals, check_table, check_test, write
    from ...report.runs.lazy_records import report_damage
    from ...report.runs.names import read_names
    from ...report.runs.selection import of_dataset, of_protocol, of_split, runs_of

    path = out or Path(f"report.{SUFFIX.get(form, form)}")
    selected = split_values(task)
    display = None if names is None else read_names(names)
    check_table(form, table, display)
    check_test(form, table, test)
    check_intervals(form, table, intervals)
    with open_store_for_reading(store) as opened, progress_bars() as progress:
        runs = runs_of(opened, methods, singles=form not in ("html", "md", "latex"))
        for name in selected:
            if name not in {r.task for r in runs}:
                raise UnknownNameError("task with runs in the store", name, {r.task for r in runs})
        runs = [r for r in runs if not selected or r.task in selected]
        if split is not None:
            runs = of_split(runs, split, methods or ())
        runs = runs if dataset is None else of_dataset(runs, dataset)
        runs = runs if protocol is None else of_protocol(runs, protocol)
        with report_damage(notice):
            words: dict[str, Any] = {"table": table, "display": display, "test": test, "intervals": intervals}
            write(runs, path, form, progress=progress, **words)
    print(f"wrote {path} ({count_text(len(runs), 'run')})")


def plot(
    kind: str = typer.Argument(
        None,
        metavar="[KIND]",
        help="Figure: scores, scenes, time, bytes, stress, differences, race, a curve; default: list all.",
    ),
    methods: list[str] = typer.Argument(
        None, metavar="[METHOD...]", help="Methods or run ids; by default all. For race: its id."
    ),
    task: str = typer.Option(None, "--task", help="Task, required if several tasks have the figure."),
    protocol: str = typer.Option(None, "--protocol", help="Protocol; by default exact if the runs have it."),
    group: str = typer.Option(None, "--group", help="Group of a curve or score, e.g. noise=hard."),
    split: str = typer.Option(None, "--split", help="Only runs of this split, e.g. full."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    baseline: str = typer.Option(
        None, "--baseline", help="Baseline of the differences; by default the best."
    ),
    out: Path = typer.Option(
        None, "--out", help="File to write: .pdf, .svg, .png, or .csv for the data; default KIND.pdf."
    ),
    columns: int = typer.Option(1, "--columns", help="Width of the figure in columns of a paper: 1 or 2."),
    width: float = typer.Option(None, "--width", help="Width in inches."),
    names: Path = typer.Option(None, "--names", help="YAML file of display names."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Draw a figure of the report for a paper; without KIND, list the figures that the store offers.

    Example: `tiepoint plot scores --task hpatches-v1/matching --columns 2 --out scores.pdf`
    """
    from ...core.errors import InputError
    from ...report.figures.plot import chosen_sections, display_names, figures_of
    from ...report.figures.plot import plot as draw
    from ...report.runs.selection import of_dataset, of_split, runs_of

    display = display_names(names)
    of: Any
    about: dict[str, Any] = {}
    if kind == "differences":
        from ...api import compare

        if task is None:
            raise InputError("the figure `differences` needs one task; pass `task`")
        filters: dict[str, Any] = {"group": group, "protocol": protocol, "split": split, "dataset": dataset}
        of = compare(methods or (), task=task, store=store, baseline=baseline, **filters)
    elif kind == "race":
        of = _race_figure(methods or (), store)
    else:
        about = {"task": task, "protocol": protocol, "group": group}
        if baseline is not None:
            raise InputError("`baseline` has no effect on this figure; use it with `differences`, or omit it")
        with open_store_for_reading(store) as opened:
            of = runs_of(opened, methods, singles=False)
            of = of if split is None else of_split(of, split, methods or ())
            of = of if dataset is None else of_dataset(of, dataset)
            if kind is None:
                found = [
                    {"task": s.title, "kind": f.kind, "group": f.group, "figure": f.title}
                    for s in chosen_sections(of, task, protocol, display)
                    for f in figures_of(s)
                    if group in (None, f.group)
                ]
                _print_figures(found, json_)
                return
    path = out or Path(f"{kind}.pdf")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        figure = of if kind == "race" else draw(kind, of, names=display, **about)
        figure.save(path, columns=columns, width=width)
    for warning in caught:
        if warning.category is UserWarning:
            notice(str(warning.message))
    if json_:
        dump_json({"file": str(path), "title": figure.title, "caption": figure.caption})
        return
    print(f"wrote {path}")
    print_status(figure.caption)


def _race_figure(ids: Sequence[str], store: str | None) -> Figure:
    """Return the figure of one race."""
    from ...core.errors import InputError, UnknownNameError
    from ...report.figures.race import race_figure
    from ...store.races import find_race, load_races

    if len(ids) != 1:
        raise InputError("the figure `race` needs the id of one race; see `tiepoint list races`")
    with open_store_for_reading(store) as opened:
        race = find_race(opened.root, ids[0])
        if race is None:
            raise UnknownNameError("race", ids[0], [r.id for r in load_races(opened.root)])
    return race_figure(race)


def _print_figures(found: list[dict[str, str]], as_json: bool) -> None:
    if as_json:
        dump_json(found)
        return
    from rich.text import Text

    from ...report.terminal.rich_table import FittingTable

    groups: dict[tuple[str, str], list[str]] = {}
    for row in found:
        groups.setdefault((row["task"], row["kind"]), []).append(row["group"])
    table = FittingTable(box=None, header_style="bold", keys=2, wraps=("groups",))
    for column in ("task", "kind", "groups"):
        table.add_column(column, overflow="fold")
    for (task, kind), own in groups.items():
        table.add_row(Text(task), Text(kind), Text("" if own == ["all"] else " ".join(own)))
    console().print(table)
    for line in (
        "differences: for every task with two methods that have scene values",
        "draw one: tiepoint plot KIND --task TASK --out FILE.pdf",
    ):
        console().print(line, markup=False, highlight=False)
