# SPDX-License-Identifier: BSD-3-Clause
"""What commands that look after a store share: the option, a question before deleting, a plain table."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from ..core.errors import InputError
from .common import print_columns
from .shell.streams import can_ask

STORE = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store.")


def confirm(question: str, yes: bool) -> None:
    """Ask before something is deleted; where nobody can answer, `yes` must have been given."""
    if yes:
        return
    if not can_ask():
        raise InputError("nobody can be asked here; give `yes` to delete, or `dry_run` to see what would be")
    typer.confirm(question, abort=True, err=True)


def print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> None:
    """Print rows below columns as plain text, nothing cut; the last `right` columns are numbers."""
    print_columns(columns, rows, right=right, keys=2 if columns[0] == "run" else 1, spare=("dataset", "made"))
