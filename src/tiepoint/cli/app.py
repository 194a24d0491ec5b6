# SPDX-License-Identifier: BSD-3-Clause
"""The tree of commands and subcommands."""

from __future__ import annotations

import typer

from .commands import (
    choose,
    compare,
    demo,
    describe,
    export,
    flow,
    keypoints,
    list_names,
    plan,
    race,
    report,
    run,
    score,
    serve,
    show,
    stress,
)
from .commands.data import check_data_command, cut, make, pack, tasks
from .commands.data_get import get
from .commands.sql import sql
from .commands.store import check_store_command, ls, prune, rename, rm, size
from .commands.store_merge import merge

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


__all__ = ["sql", "store_app"]

store_app = typer.Typer(
    help="Stores: list, measure, delete, rename, prune, merge, check.", no_args_is_help=True
)


@store_app.callback()
def _store() -> None:
    """Stores: list, measure, delete, rename, prune, merge, check."""


store_app.command("ls")(ls)
store_app.command("size")(size)
store_app.command("rm")(rm)
store_app.command("rename")(rename)
store_app.command("prune")(prune)
store_app.command("merge")(merge)
store_app.command("check")(check_store_command)


def mount(app: typer.Typer) -> None:
    """Add all commands to the application. Further calls do nothing."""
    if app.registered_commands:
        return
    app.command("demo")(demo.demo)
    app.command("run")(run.run)
    app.command("plan")(plan.plan_command)
    app.command("race")(race.race_command)
    app.command("stress")(stress.stress_command)
    app.command("choose")(choose.choose_command)
    app.command("score")(score.score_command)
    app.command("describe")(describe.describe)
    app.command("compare")(compare.compare_command)
    app.command("report")(report.report)
    app.command("plot")(report.plot)
    app.command("export")(export.export)
    app.command("serve")(serve.serve)
    app.command("list")(list_names.list_things)
    app.command("show")(show.show_run_command)
    app.command("import")(score.import_results)
    app.command("sql")(sql)
    app.add_typer(data_app, name="data")
    app.add_typer(keypoints.app, name="keypoints")
    app.add_typer(flow.app, name="flow")
    app.add_typer(show.app, name="pairs")
    app.add_typer(store_app, name="store")
