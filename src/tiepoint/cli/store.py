# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store`` and ``tiepoint sql``: looking after a store, asking it."""

from __future__ import annotations

import typer

from .commands.runs import ls, rename, rm
from .commands.space import prune, size
from .commands.sql import sql
from .commands.store import check, migrate

__all__ = ["app", "sql"]

app = typer.Typer(
    help="Stores: list, measure, delete, rename, prune, check, bring up to date.", no_args_is_help=True
)


@app.callback()
def _store() -> None:
    """Stores: list, measure, delete, rename, prune, check, bring up to date."""


app.command("ls")(ls)
app.command("size")(size)
app.command("rm")(rm)
app.command("rename")(rename)
app.command("prune")(prune)
app.command("check")(check)
app.command("migrate")(migrate)
