# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store`` and ``tiepoint sql``: looking after a store, asking it."""

from __future__ import annotations

import typer

from .commands.runs import ls, rename, rm
from .commands.space import prune, size
from .commands.sql import sql
from .commands.store import check_store_command, migrate_command

__all__ = ["sql", "store_app"]

store_app = typer.Typer(
    help="Stores: list, measure, delete, rename, prune, check, bring up to date.", no_args_is_help=True
)


@store_app.callback()
def _store() -> None:
    """Stores: list, measure, delete, rename, prune, check, bring up to date."""


store_app.command("ls")(ls)
store_app.command("size")(size)
store_app.command("rm")(rm)
store_app.command("rename")(rename)
store_app.command("prune")(prune)
store_app.command("check")(check_store_command)
store_app.command("migrate")(migrate_command)
