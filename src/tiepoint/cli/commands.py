# SPDX-License-Identifier: BSD-3-Clause
"""The list of commands."""

from __future__ import annotations

import typer

from . import (
    compare_cmd,
    demo_cmd,
    describe_cmd,
    flow,
    import_cmd,
    keypoints_cmd,
    list_cmd,
    pairs_cmd,
    plot_cmd,
    report_cmd,
    run_cmd,
    score_cmd,
    serve_cmd,
    show_cmd,
    store,
)
from .data.app import app as data_app


def mount(app: typer.Typer) -> None:
    """Add every command once."""
    if app.registered_commands:
        return
    app.command("demo")(demo_cmd.demo)
    app.command("run")(run_cmd.run)
    app.command("score")(score_cmd.score)
    app.command("describe")(describe_cmd.describe)
    app.command("compare")(compare_cmd.compare)
    app.command("report")(report_cmd.report)
    app.command("plot")(plot_cmd.plot)
    app.command("serve")(serve_cmd.serve)
    app.command("list")(list_cmd.list_things)
    app.command("show")(show_cmd.show)
    app.command("import")(import_cmd.import_results)
    app.command("sql")(store.sql)
    app.add_typer(data_app, name="data")
    app.add_typer(keypoints_cmd.app, name="keypoints")
    app.add_typer(flow.app, name="flow")
    app.add_typer(pairs_cmd.app, name="pairs")
    app.add_typer(store.app, name="store")
