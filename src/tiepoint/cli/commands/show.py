# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint show`` and ``tiepoint pairs show``: print one run, draw the matches of one pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ...core.errors import InputError
from ...core.formatting import count_text
from ..common import console, dump_json, open_store_for_reading, print_status, progress_bars, split_values
from ..shell.flag_names import as_flags


def show_run_command(
    run: str = typer.Argument(
        ...,
        metavar="RUN",
        help="Run id, race id, prefix of an id, or method (its newest run); see `tiepoint list runs`.",
    ),
    task: str = typer.Option(
        None, "--task", help="Task of the run, required if the method has runs of several tasks."
    ),
    conventions: bool = typer.Option(
        False, "--conventions", help="Explain the differences between protocols step by step."
    ),
    curves: Path = typer.Option(None, "--curves", help="Write ROC and PR points to this CSV file."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Print one run: summary, scores, scenes and ranks. Or print the decisions of one race.

    With `--conventions`, explain step by step why scores differ between protocols.

    Example: `tiepoint show sift --task hpatches-v1/matching --conventions`
    """
    from ...report.runs.lazy_records import lazy_run
    from ...report.runs.selection import one_run
    from ...report.terminal.conventions import conventions_json, conventions_of, terminal_convention_tables
    from ...report.terminal.run_view import (
        card_table,
        histogram_table,
        json_of,
        notes,
        scene_table,
        scored_protocols,
        scores_table,
        write_curves,
    )
    from ...store.races import find_race
    from .race import print_race

    with open_store_for_reading(store) as opened:
        if (race := find_race(opened.root, run)) is not None:
            if conventions or curves is not None:
                raise InputError(f"{run} is a race, which has no conventions and curves; omit these options")
            print_race(race, as_json=json_)
            return
        stored, remarks = one_run(opened, run, task=task)
        for line in remarks:
            print_status(line)
        found = lazy_run(stored, opened)
        steps = None
        if conventions:
            with progress_bars() as progress:
                steps = conventions_of(found, opened, progress)
    points = None if curves is None else write_curves(found, curves)
    if json_:
        content = json_of(found)
        if steps is not None:
            content["conventions"] = conventions_json(steps)
        if points is not None:
            content["curves"] = {"file": str(curves), "points": points}
        dump_json(content)
        return
    out = console()

    def print_lines(kind: str, lines: Sequence[str]) -> None:
        for line in lines:
            out.print(f"{kind}: {as_flags(line)}", markup=False, highlight=False)

    if points is not None:
        print(f"wrote {count_text(points, 'point')} to {curves}")
    if steps is not None:
        if steps.order:
            out.print(steps.order, markup=False, highlight=False)
        for table in terminal_convention_tables(steps):
            out.print(table)
        print_lines("note", steps.notes)
        print_lines("missing", list(steps.missing.values()))
    if steps is not None or points is not None:
        return
    first = next(iter(scored_protocols(found)), "")
    for part in (card_table(found), scores_table(found), scene_table(found), histogram_table(found, first)):
        if part is not None:
            out.print(part)
    print_lines("note", notes(found))


app = typer.Typer(help="Image pairs: matches coloured by their true error.", no_args_is_help=True)


@app.callback()
def _pairs() -> None:
    """Image pairs: matches coloured by their true error."""


@app.command("show")
def show_pair_command(
    run: str = typer.Argument(
        ..., metavar="RUN", help="Run id, prefix of an id, or method (its newest run)."
    ),
    pair: str = typer.Argument(..., metavar="PAIR", help="Name of a pair; slashes may be written as `-`."),
    out: Path = typer.Option(None, "--out", help="Picture to write; default PAIR.png."),
    most: int = typer.Option(200, "--max", min=1, help="Maximum number of drawn matches, sampled by error."),
    lines: int = typer.Option(0, "--lines", min=0, help="Number of matches to draw epipolar lines for."),
    points: str = typer.Option(
        None, "--points", metavar="I,J", help="Draw the epipolar lines of these matches, numbered from 0."
    ),
    task: str = typer.Option(
        None, "--task", help="Task of the run, required if the method has runs of several tasks."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
) -> None:
    """Draw both images of a pair with the matches of a run, coloured by their true error.

    The error is the distance to the true epipolar lines, or to the point given by the homography. Matches
    come from the feature cache; the command computes nothing and does not write to the store.

    Example: `tiepoint pairs show 3f2a scene0000/a--b --lines 6 --out pair.png`
    """
    from ...datasets.image_pairs.pair import file_name
    from ...formats.image.reader import write_image
    from ...report.pictures.error_colours import chosen_rows, count_grades
    from ...report.pictures.matches import RunPairs, pair_picture
    from ...report.runs.lazy_records import lazy_run
    from ...report.runs.selection import one_run

    rows = _rows(points)
    with open_store_for_reading(store) as opened:
        stored, remarks = one_run(opened, run, task=task)
        for line in remarks:
            print_status(line)
        found = RunPairs(lazy_run(stored, opened))
        name = found.pair_name(pair)
        matched = found.matches(name)
        chosen = chosen_rows(matched, lines, rows)
        caption = found.caption(name)
    picture = pair_picture(matched, caption=caption, most=most, chosen=chosen.tolist())
    target = out or Path(f"{file_name(name)}.png")
    write_image(target, picture)
    grades = ", ".join(f"{n:,} {grade.text}" for grade, n in count_grades(matched))
    typer.echo(f"{name}: {count_text(len(matched), 'match', 'matches')} ({grades}) -> {target}")


def _rows(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in split_values([text] if text else []))
    except ValueError as e:
        raise InputError(f"--points {text!r}: not a list of integers; pass match numbers such as 0,17") from e
