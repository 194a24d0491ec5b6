# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data check``: what a folder is, what is wrong with it, what it is good for."""

from __future__ import annotations

from pathlib import Path

import typer

from ...model.errors import InputError
from ..common import progress_bars, without_effect
from ..words import as_flags


def check(
    context: typer.Context,
    data: Path = typer.Option(None, "--data", help="Dataset to check, of any known layout."),
    store: str = typer.Option(
        None, "--store", help="Store to verify; its database is rebuilt from the files."
    ),
    fast: bool = typer.Option(False, "--fast", help="Check only headers and names."),
) -> int:
    """Validate a dataset and say in words what is wrong, or verify a store as `tiepoint store check` does.

    Example: `tiepoint data check --data hpatches-release`
    """
    if data is None and store is None:
        raise InputError("check needs --data DIR or --store STORE")
    if data is None:
        without_effect(context, ("fast",), "on a store, whose files are all read")
    code = 0
    if data is not None:
        from ...datasets.check import check_dataset

        with progress_bars() as progress:
            report = check_dataset(data, deep=not fast, progress=lambda d, t: progress("check", d, t))
        print(as_flags(str(report)))
        code = 0 if report.ok else 2
    if store is not None:
        from ..store.check import check_and_tell

        code = max(code, check_and_tell(store))
    return code
