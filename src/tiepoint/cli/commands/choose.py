# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint choose``: which method for these images, without ground truth."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.errors import InputError
from ..common import (
    STORE,
    as_text,
    console,
    dump_json,
    notice,
    open_store_for_writing,
    print_columns,
    print_status,
    progress_bars,
    resumable,
)


def choose_command(
    methods: list[str] = typer.Argument(None, metavar="METHOD...", help="Methods as in `run`, at least two."),
    images: Path = typer.Option(None, "--images", help="Folder of images; required."),
    pairs: Path = typer.Option(None, "--pairs", help="List of pairs; by default, pairs are sampled."),
    limit: int = typer.Option(None, "--limit", help="Number of pairs; default 30, or all pairs of the list."),
    out: Path = typer.Option(None, "--out", help="Write a page with pictures: FILE.html."),
    device: str = typer.Option(None, "--device", help="Device of networks; default cpu."),
    store: str = STORE,
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Compare methods on your images without ground truth, by how steady their matches are.

    Matches are those of `run`, which afterwards computes only what is missing. A choice is not a run and has
    no score. Exit code 1: no method confirms any pair.

    Example: `tiepoint choose "sift?ratio=0.8" "orb?ratio=0.8" --images photos --out choice.html`
    """
    from ...report.choice_page import check_page_name, save_choice
    from ...report.choice_text import COLUMNS, extent, run_command, sentences, table, warnings
    from ...run.choose.engine import ChoiceRequest, choose_method

    if images is None:
        raise InputError("choose needs --images DIR; see tiepoint choose --help")
    if out is not None:
        check_page_name(out)
    specs = tuple(as_text(m) for m in methods or ())
    request = ChoiceRequest(specs, images.expanduser(), pairs, limit, device or "cpu")
    request.check()
    with open_store_for_writing(store) as opened, progress_bars(not json_) as bars, resumable():
        choice = choose_method(request, opened, bars, report=print_status)
    command = run_command(choice, store)
    if out is not None:
        save_choice(choice, out, store=store)
        print_status(f"wrote {out}")
    if json_:
        texts = {"sentences": sentences(choice), "warnings": warnings(choice), "command": command}
        dump_json({**choice.to_dict(), **texts})
    else:
        for warning in warnings(choice):
            notice(warning)
        if choice.leader is not None:
            _print(extent(choice))
            rows = table(choice)
            print_columns(COLUMNS, rows)
        _print(" ".join(sentences(choice)))
        if command is not None:
            _print(f"To run it: {command}")
    if choice.leader is None:
        raise typer.Exit(1)


def _print(line: str) -> None:
    console().print(line, markup=False, highlight=False)
