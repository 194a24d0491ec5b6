# SPDX-License-Identifier: BSD-3-Clause
"""What every command gets: ``-q``, ``-v``, ``--debug``, ``-j`` for ``--jobs``, one form of help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import typer

from . import level
from .helptext import long_flag, value_name, write_help

_SWITCHES = ("-q", "--quiet", "-v", "--verbose", "--debug")


def _quiet(value: bool) -> None:
    if value:
        level.set_verbosity(-1)


def _verbose(value: bool) -> None:
    if value:
        level.set_verbosity(1)


def _common_options() -> list[Any]:
    """The options themselves, made once and shared: they hold no state."""
    made = typer.Typer(add_completion=False)

    @made.command()
    def common(
        quiet: bool = typer.Option(
            False, "-q", "--quiet", callback=_quiet, expose_value=False, help="Print only results and errors."
        ),
        verbose: bool = typer.Option(
            False,
            "-v",
            "--verbose",
            callback=_verbose,
            expose_value=False,
            help="Say more: what is reused, times, paths.",
        ),
        debug: bool = typer.Option(
            False, "--debug", expose_value=False, help="Show the traceback of an error."
        ),
    ) -> None:
        pass

    wanted = ("quiet", "verbose", "debug")
    return [p for p in typer.main.get_command(made).params if p.name in wanted]


def add_common_options(command: Any) -> Any:
    """The command and all below it, with what every command has."""
    common = _common_options()
    for one in _all(command):
        own = {flag for p in one.params for flag in p.opts}
        for parameter in one.params:
            if "--jobs" in parameter.opts and "-j" not in own:
                parameter.opts.insert(0, "-j")
        one.params.extend(p for p in common if not own & set(p.opts))
        one.format_help = partial(write_help, one)
    return command


def _all(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from _all(inner)


def reorder_arguments(command: Any, arguments: Sequence[str]) -> list[str]:
    """The arguments with options of every command behind its name; a group alone asks for its help.

    ``-q run sift`` and ``-j 2 data cut`` mean ``run -q sift`` and ``data cut -j 2``.
    """
    before: list[str] = []
    words: list[str] = []
    rest = list(arguments)
    while rest and hasattr(command, "commands"):
        word = rest[0]
        if word in command.commands:
            command = command.commands[word]
            words.append(rest.pop(0))
        elif word in _SWITCHES or word.startswith("--jobs=") or (word[:2] == "-j" and word[2:].isdigit()):
            before.append(rest.pop(0))
        elif word in ("-j", "--jobs") and len(rest) > 1:
            before += [rest.pop(0), rest.pop(0)]
        else:
            break
    if hasattr(command, "commands") and not rest:
        return [*words, "--help"]
    return [*words, *before, *rest]


def missing(context: Any, given: Sequence[str]) -> str:
    """What the command of this context needs and was not given, in words; empty if nothing is missing."""
    command = context.command
    parsed = command.make_context(context.info_name, list(given), resilient_parsing=True).params
    lacking = [p for p in command.params if p.required and parsed.get(p.name) in (None, (), [])]
    needed = [
        value_name(p) if p.param_type_name == "argument" else f"{long_flag(p)} {value_name(p)}".strip()
        for p in lacking
    ]
    return " and ".join([", ".join(needed[:-1]), needed[-1]] if len(needed) > 1 else needed)
