# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store`` and ``tiepoint sql``: looking after a store, asking it."""

from __future__ import annotations

import typer

from .migrate import migrate
from .sql import sql

__all__ = ["app", "sql"]

app = typer.Typer(help="Stores: what is in one, what it takes, deleting, checking.", no_args_is_help=True)


@app.callback()
def _store() -> None:
    """Stores: what is in one, what it takes, deleting, checking."""


app.command("migrate")(migrate)
