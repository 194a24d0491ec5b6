# SPDX-License-Identifier: BSD-3-Clause
"""The list of commands."""

from __future__ import annotations

import typer

from . import store
from .app_part import data_app
from .commands import (
    compare,
    demo,
    describe,
    flow,
    import_cmd,
    keypoints,
    list_names,
    pairs_cmd,
    plot_cmd,
    report,
    run,
    score,
    serve,
    show,
)


def mount(app: typer.Typer) -> None:
    """Add every command once."""
    if app.registered_commands:
        return
    app.command("demo")(demo.demo)
    app.command("run")(run.run)
    app.command("score")(score.score_command)
    app.command("describe")(describe.describe)
    app.command("compare")(compare.compare_command)
    app.command("report")(report.report)
    app.command("plot")(plot_cmd.plot)
    app.command("serve")(serve.serve)
    app.command("list")(list_names.list_things)
    app.command("show")(show.show_run_command)
    app.command("import")(import_cmd.import_results)
    app.command("sql")(store.sql)
    app.add_typer(data_app, name="data")
    app.add_typer(keypoints.app, name="keypoints")
    app.add_typer(flow.app, name="flow")
    app.add_typer(pairs_cmd.app, name="pairs")
    app.add_typer(store.store_app, name="store")
