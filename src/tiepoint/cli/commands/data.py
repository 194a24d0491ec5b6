# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data check``: what a folder is, what is wrong with it, what it is good for."""

from __future__ import annotations

from pathlib import Path

import typer

from ...core.errors import InputError
from ...core.formatting import printable
from ..common import progress_bars, without_effect
from ..shell.flag_names import as_flags


def check_data_command(
    context: typer.Context,
    folder: Path = typer.Argument(None, metavar="[DATASET]", help="Dataset to check, of any known layout."),
    data: Path = typer.Option(None, "--data", help="The same as DATASET."),
    store: str = typer.Option(
        None, "--store", help="Store to verify; its database is rebuilt from the files."
    ),
    fast: bool = typer.Option(False, "--fast", help="Check only headers and names."),
    missing: bool = typer.Option(False, "--missing", help="Name all that is missing from the release."),
) -> int:
    """Say which published release a dataset is, what is missing or wrong, and which tasks can run on it.

    With --store, verify a store instead, as `tiepoint store check` does.

    Example: `tiepoint data check hpatches-release`
    """
    if folder is not None and data is not None:
        raise InputError("check takes one dataset: give it with --data or without, not both")
    data = folder if data is None else data
    if data is None and store is None:
        raise InputError("check needs a DATASET or --store STORE")
    if data is None:
        without_effect(context, ("fast", "missing"), "on a store, whose files are all read")
    code = 0
    if data is not None:
        from ...datasets.validation.dataset import check_dataset
        from ...datasets.validation.release import MAX_MISSING_LISTED

        with progress_bars() as progress:
            report = check_dataset(data, deep=not fast, progress=lambda d, t: progress("check", d, t))
        shown = 1 << 30 if missing else MAX_MISSING_LISTED
        print(as_flags(report.told(shown=shown, protocols=_protocols)))
        _origin(data)
        code = 0 if report.ok else 2
    if store is not None:
        from .store import check_and_report

        code = max(code, check_and_report(store))
    return code


def _origin(data: Path) -> None:
    """Say where a dataset came from that was got."""
    from ...datasets.download.record import read_record, record_path

    for entry in read_record(data).get("files") or ():
        if isinstance(entry, dict):
            place = str(entry.get("url") or "a file fetched by hand")
            print(printable(f"got from {place}, SHA-256 {entry.get('sha256')} ({record_path(data)})"))


def _protocols(task: str) -> list[str]:
    from ...tasks import TASKS

    entry = next((e for e in TASKS if e.name == task), None)
    return [] if entry is None else list(TASKS.imported(entry).protocols)
