# SPDX-License-Identifier: BSD-3-Clause
"""Build hooks of the documentation site: pages generated from the code, links that leave the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

COMMON = {"--help", "--quiet", "--verbose", "--debug"}
PYTHON = """# Python

::: tiepoint.api
    options: {show_root_heading: false, show_root_toc_entry: false, heading_level: 2}

## Results

::: tiepoint.run.result.Run
::: tiepoint.report.run_list.Runs
::: tiepoint.report.compare.comparison.Comparison

## Scoring arrays

::: tiepoint.score
    options: {show_root_heading: false, show_root_toc_entry: false}
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated from the code."""
    for name, text in (("commands", "\n".join(commands())), ("python", PYTHON)):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside the documentation by their text."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:README\.md|CITATION\.cff|src/[^)]*)\)", r"\1", markdown)


def commands() -> Iterator[str]:
    """Yield the lines of the command reference."""
    from tiepoint.cli import app
    from tiepoint.cli.main import app as root
    from tiepoint.cli.main import command

    app.mount(root)
    yield "# Commands\n"
    link = "[the command line](../command-line.md)"
    yield f"Every command also takes `--quiet`, `--verbose`, `--debug` and `--help`: {link}.\n"
    for name, one in sorted(command().commands.items()):
        yield from section(f"tiepoint {name}", one, 2)


def section(name: str, command: Any, level: int) -> Iterator[str]:
    """Yield the section of a command: help, arguments and options, then its subcommands."""
    if command.hidden:
        return
    yield f"{'#' * level} {name}\n"
    yield f"{command.help or ''}\n".replace("\b", "")
    rows = [row for parameter in command.params if (row := parameter_row(parameter))]
    if rows:
        yield from ["| | |", "|---|---|", *rows, ""]
    for sub, one in sorted(getattr(command, "commands", {}).items()):
        yield from section(f"{name} {sub}", one, level + 1)


def parameter_row(parameter: Any) -> str:
    """Return the table row of an argument or option. Empty for common and hidden options."""
    text = getattr(parameter, "help", None) or ""
    if getattr(parameter, "hidden", False) or COMMON & set(parameter.opts):
        return ""
    options = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        options = [(parameter.metavar or parameter.name).upper()]
    names = ", ".join(f"`{option}`" for option in options)
    required = " Required." if parameter.required else ""
    return f"| {names} | {text.replace('|', chr(92) + '|')}{required} |".replace("\n", " ")
