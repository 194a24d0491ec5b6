# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint pairs``: pictures of image pairs with their matches."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.amounts import count_text
from ...core.errors import InputError
from ..common import open_store_for_reading, split_values

app = typer.Typer(help="Image pairs: matches coloured by their true error.", no_args_is_help=True)


@app.callback()
def _pairs() -> None:
    """Image pairs: matches coloured by their true error."""


@app.command("show")
def show_pair_command(
    run: str = typer.Argument(
        ..., metavar="RUN", help="Id of a run, may be abbreviated; `tiepoint list runs`."
    ),
    pair: str = typer.Argument(..., metavar="PAIR", help="Name of a pair; slashes may be written as `-`."),
    out: Path = typer.Option(None, "--out", help="Picture to write; default PAIR.png."),
    most: int = typer.Option(200, "--max", min=1, help="Draw at most so many matches, evenly by error."),
    lines: int = typer.Option(0, "--lines", min=0, help="Draw the epipolar lines of so many matches."),
    points: str = typer.Option(
        None, "--points", metavar="I,J", help="Draw the epipolar lines of these matches, by row from 0."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
) -> None:
    """Draw both images of a pair with the matches of a run, coloured by their true error.

    The error is the distance to the true epipolar lines, or to the place that a homography gives. Matches
    come from the feature cache; nothing is computed again and nothing is written to the store.

    Example: `tiepoint pairs show 3f2a scene0000/a--b --lines 6 --out pair.png`
    """
    from ...datasets.image_pairs.pair import file_name
    from ...formats.image.reader import write_image
    from ...report.pictures.error_colours import chosen_rows, count_grades
    from ...report.pictures.matches import pair_picture
    from ...report.pictures.stored import RunPairs
    from ...report.runs.lazy_records import lazy_run
    from ...store.run_queries import load_run

    rows = _rows(points)
    with open_store_for_reading(store) as opened:
        found = RunPairs(lazy_run(load_run(opened, run), opened))
        name = found.named(pair)
        matched = found.matched(name)
        chosen = chosen_rows(matched, lines, rows)
        caption = found.caption(name)
    picture = pair_picture(matched, caption=caption, most=most, chosen=chosen.tolist())
    target = out or Path(f"{file_name(name)}.png")
    write_image(target, picture)
    said = ", ".join(f"{n:,} {grade.words}" for grade, n in count_grades(matched))
    typer.echo(f"{name}: {count_text(len(matched), 'match', 'matches')} ({said}) -> {target}")


def _rows(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in split_values([text] if text else []))
    except ValueError as e:
        raise InputError(f"cannot read --points {text!r}; write rows of matches such as 0,17") from e
