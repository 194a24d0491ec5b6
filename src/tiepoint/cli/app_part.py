# SPDX-License-Identifier: BSD-3-Clause
"""The commands of ``tiepoint data``."""

from __future__ import annotations

import typer

from .commands.data import check_data_command
from .commands.data_get import get
from .commands.make import cut, make, pack
from .commands.tasks import tasks

data_app = typer.Typer(help="Datasets: get, make, cut, task files, pack, check.", no_args_is_help=True)
for _name, _command in (
    ("get", get),
    ("make", make),
    ("cut", cut),
    ("tasks", tasks),
    ("pack", pack),
    ("check", check_data_command),
):
    data_app.command(_name)(_command)
