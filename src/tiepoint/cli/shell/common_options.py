# SPDX-License-Identifier: BSD-3-Clause
"""Options and help format common to all commands: ``-q``, ``-v``, ``--debug``, ``-j``."""

from __future__ import annotations

import re
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import typer

from ...core.errors import InputError

WIDEST = 100
NARROW = 56
"""Terminal width below which the help of an option is on its own line."""
EXIT_CODES = (
    "Exit codes: 0 done; 1 some of the work failed; 2 wrong usage or input; 130 stopped by Ctrl-C; 143 "
    "stopped by SIGTERM."
)
_EXAMPLES = re.compile(r"^Examples?:\s*")
_NAMES = {
    "data": "DIR", "out": "PATH", "tasks": "DIR", "results": "DIR", "config": "FILE", "option": "KEY=VALUE",
    "fit_on": "DIR", "write_results": "DIR", "names": "FILE", "store": "STORE", "bg_color": "RRRGGGBBB",
    "flow_bg_color": "RRRGGGBBB", "side": "PIXELS", "on_bad": "HOW", "missing": "HOW", "benchmark": "NAME",
    "baseline": "METHOD", "allow": "WHAT", "cluster": "WORKERS", "older_than": "AGE",
    "larger_than_total": "SIZE", "size2": "SIZE",
}  # fmt: skip
"""Placeholder names of option values in the help, where type and option name are unclear."""


def columns() -> int:
    """Return the width of the help text: the terminal width or ``COLUMNS``, at most 100."""
    return max(20, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Write the help of a command. This function replaces the command's own method `format_help`."""
    formatter.write(format_help(command, context, columns()) + "\n")


def format_help(command: Any, context: Any, width: int) -> str:
    """Format the help of a command or of a group of commands."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.get_params(context) if p.param_type_name == "option" and not p.hidden]
    every = [p for p in options if p.name in EVERYWHERE]
    own = [p for p in options if p.name not in EVERYWHERE]
    inner = getattr(command, "commands", {})
    blocks = [_usage(context, arguments, own, bool(inner), width)]
    blocks += _prose(command.help or "", width)
    described = [(value_name(p), _help_text(p)) for p in arguments if getattr(p, "help", None)]
    blocks += _section("Arguments", described, width)
    listed = [(name, (c.help or "").split("\n\n")[0]) for name, c in inner.items() if not c.hidden]
    blocks += _section("Commands", [(name, _flat(text)) for name, text in listed], width)
    blocks += _section("Options", [(_flags(p), _help_text(p)) for p in own], width)
    blocks += _section("With every command", [(_flags(p), p.help or "") for p in every], width)
    if context.parent is None:
        blocks += _prose(EXIT_CODES, width)
    return "\n\n".join(blocks)


EVERYWHERE = ("quiet", "verbose", "debug", "help")
"""Options common to all commands."""


def value_name(parameter: Any) -> str:
    """Return the placeholder for a parameter's value in help and messages. Empty for a boolean flag.

    Repeatable values end in dots. Optional values are in brackets.
    """
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name.rstrip("_").upper()).strip("[]").removesuffix("...")
        name += "..." if parameter.nargs == -1 else ""
        return name if parameter.required else f"[{name}]"
    if getattr(parameter, "is_flag", False) or parameter.name == "help":
        return ""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = _kind(parameter)
    if parameter.name in _NAMES and (parameter.name != "names" or "path" in kind):
        return _NAMES[parameter.name]
    if "int" in kind or "float" in kind:
        return "N" if "int" in kind else "X"
    return "PATH" if "path" in kind else str(parameter.name.rstrip("_").rpartition("_")[2].upper())


def _kind(parameter: Any) -> str:
    """Return the type name of a value, for all supported versions of Typer."""
    annotated = getattr(getattr(parameter, "type_descriptor", None), "annotation", "")
    return str(getattr(getattr(parameter, "type", None), "name", None) or annotated).lower()


def _usage(context: Any, arguments: Sequence[Any], options: Sequence[Any], group: bool, width: int) -> str:
    needed = [f"{long_flag(p)} {value_name(p)}".strip() for p in options if p.required]
    words = [*map(value_name, arguments), *needed, "[OPTIONS]", *(["COMMAND ..."] if group else [])]
    return textwrap.fill(
        f"Usage: {context.command_path} " + " ".join(words),
        width,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def long_flag(parameter: Any) -> str:
    """Return the long flag of an option."""
    return next((o for o in parameter.opts if o.startswith("--")), str(parameter.opts[0]))


def _flags(parameter: Any) -> str:
    short = [o for o in parameter.opts if not o.startswith("--")]
    long = [o for o in (*parameter.opts, *parameter.secondary_opts) if o.startswith("--")]
    flags = ", ".join([*short, " / ".join(long)] if long else short)
    return f"{flags} {value_name(parameter)}".strip()


def _help_text(parameter: Any) -> str:
    text = parameter.help or ""
    default = parameter.default
    described = re.search(r"\bdefault\b", text) or default is None or default is False or default in ((), [])
    if not described and not parameter.required:
        text = f"{text} Default: {default}."
    marked = parameter.required and parameter.param_type_name == "option"
    return f"{text} (required)" if marked else text


def _prose(text: str, width: int) -> list[str]:
    """Wrap paragraphs. Put each example command on its own line."""
    blocks = []
    for paragraph in text.strip().split("\n\n"):
        flat = " ".join(paragraph.split())
        if _EXAMPLES.match(flat):
            commands = re.findall(r"`([^`]+)`", flat)
            title = "Example:" if len(commands) == 1 else "Examples:"
            blocks.append("\n".join([title, *(_command(c, width) for c in commands)]))
        elif flat:
            blocks.append(textwrap.fill(_flat(flat), width, break_long_words=False, break_on_hyphens=False))
    return blocks


def _command(text: str, width: int) -> str:
    """Format a command line. Break long commands with backslashes."""
    first, *words = re.findall(
        r"--?[a-z][a-z0-9-]*(?: (?!-)\S+)?|\S+", text
    )  # an option stays with its value
    lines, line = [], "  " + first
    for word in words:
        if len(line) + 1 + len(word) > width - 2:
            lines.append(line + " \\")
            line = "      " + word
        else:
            line += " " + word
    return "\n".join([*lines, line])


def _flat(text: str) -> str:
    """Join lines and remove backticks."""
    return " ".join(text.split()).replace("`", "")


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Format a heading and two columns, or one column on a narrow terminal."""
    if not rows:
        return []
    indent = min(max(len(name) for name, _ in rows) + 4, 30 if width >= 80 else 24)
    lines = [f"{title}:"]
    for name, text in rows:
        under = width < NARROW or len(name) + 4 > indent
        first = "    " * (width < NARROW) or " " * indent
        body = textwrap.wrap(
            _flat(text),
            width,
            initial_indent=first if under else "  " + name.ljust(indent - 2),
            subsequent_indent=first,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += ["  " + name, *body] if under else body or ["  " + name]
    return ["\n".join(lines)]


_state = {"level": 0}
_since = {"start": 0.0}


def start_command() -> None:
    """Reset verbosity and start the clock of a command."""
    _state["level"] = 0
    _since["start"] = time.monotonic()


def set_verbosity(level: int) -> None:
    """Set the verbosity: -1 quiet, 1 verbose."""
    if level * _state["level"] < 0:
        raise InputError("-q and -v contradict each other; pass one of them")
    _state["level"] = level


def quiet() -> bool:
    """Return whether to print only results and errors."""
    return _state["level"] < 0


def verbose() -> bool:
    """Return whether to print details."""
    return _state["level"] > 0


def elapsed_s() -> float:
    """Return the seconds since the command started."""
    return time.monotonic() - _since["start"]


_SWITCHES = ("-q", "--quiet", "-v", "--verbose", "--debug")


def _quiet(value: bool) -> None:
    if value:
        set_verbosity(-1)


def _verbose(value: bool) -> None:
    if value:
        set_verbosity(1)


def _common_options() -> list[Any]:
    """Build the common options. All commands share the same objects, because these have no state."""
    app = typer.Typer(add_completion=False)

    @app.command()
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
            help="Print cache hits, timings and paths.",
        ),
        debug: bool = typer.Option(
            False, "--debug", expose_value=False, help="Show the traceback of an error."
        ),
    ) -> None:
        pass

    names = ("quiet", "verbose", "debug")
    return [p for p in typer.main.get_command(app).params if p.name in names]


def add_common_options(command: Any) -> Any:
    """Add the common options to a command and its subcommands. Return the command."""
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
    """Move common options after the command name. Add ``--help`` to a group without a command.

    ``-q run sift`` becomes ``run -q sift``, and ``-j 2 data cut`` becomes ``data cut -j 2``.
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
    """Return the missing required arguments of a command. Empty if none is missing."""
    command = context.command
    parsed = command.make_context(context.info_name, list(given), resilient_parsing=True).params
    lacking = [p for p in command.params if p.required and parsed.get(p.name) in (None, (), [])]
    needed = [
        value_name(p) if p.param_type_name == "argument" else f"{long_flag(p)} {value_name(p)}".strip()
        for p in lacking
    ]
    return " and ".join([", ".join(needed[:-1]), needed[-1]] if len(needed) > 1 else needed)
