# SPDX-License-Identifier: BSD-3-Clause
"""Entry point: commands, exit codes, errors as one sentence."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import typer

from .._version import __version__
from ..model.errors import TiepointError
from .common import error
from .words import speak_of

app = typer.Typer(
    name="tiepoint",
    help="Measure how well a method finds the same point in two images.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tiepoint {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Measure how well a method finds the same point in two images.

    `--debug` anywhere on the line shows the traceback of an error.
    """


def _mount() -> None:
    from . import commands

    commands.mount(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the exit code is 0 (done), 1 (some units failed) or 2 (wrong usage or input)."""
    raise SystemExit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """The exit code of a command line."""
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    _mount()
    speak_of(app, arguments)
    with _signals() as received:
        code = _code(arguments, debug)
    return 128 + received[0] if received and code == STOPPED else code


STOPPED = 130
"""Exit code after Ctrl-C; other signals have their own."""


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP stop the work as Ctrl-C does; yields those received.

    A second one is no longer caught: it ends the process at once.
    """
    received: list[int] = []
    before: dict[int, Any] = {}

    def stop(number: int, _frame: Any) -> None:
        received.append(number)
        for own in before:
            signal.signal(own, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _code(arguments: list[str], debug: bool) -> int:
    try:
        result = app(arguments, standalone_mode=False)
        code = int(result) if isinstance(result, int) else 0
        return _stopped() if code == STOPPED else code
    except typer.Exit as e:
        return _stopped() if e.exit_code == STOPPED else int(e.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _stopped()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TiepointError as e:
        if debug and e.exit_code != STOPPED:
            raise
        error(str(e))
        return e.exit_code
    except Exception as e:
        # Usage errors: their class moved between versions of Typer, their method did not.
        message = getattr(e, "format_message", None)
        if message is None:
            raise
        error(f"{message()} (see --help)")
        return 2


def _stopped() -> int:
    error("Interrupted.")
    return STOPPED
