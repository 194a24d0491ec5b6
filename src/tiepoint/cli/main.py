# SPDX-License-Identifier: BSD-3-Clause
"""Entry point of the command line: signals, exit codes, error messages."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from typing import Any

import typer

from .._version import __version__
from ..core.errors import TiepointError, os_error_reason
from .common import error, print_verbose
from .shell import common_options
from .shell.common_options import add_common_options, missing, reorder_arguments
from .shell.flag_names import set_command_flags
from .shell.streams import (
    OutputError,
    discard_pending,
    reserve_standard_fds,
    result_stream,
    stdout_for_result,
    tolerant_streams,
)

GRACE_S = 12.0
"""Seconds after SIGTERM or SIGHUP until a command that is still running is killed."""


def force_exit_after(names: Collection[str] = ("SIGTERM", "SIGHUP"), after_s: float = GRACE_S) -> None:
    """Force the process to exit a given time after a signal. Call once.

    Python runs signal handlers only between bytecodes of the main thread, and user code may catch the
    exception. Therefore a watchdog thread receives the signal through a pipe and kills the workers. The next
    command removes leftover files. The watchdog cannot run while a library holds the GIL.
    """
    numbers = {int(getattr(signal, name)) for name in names if hasattr(signal, name)}
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, numbers, after_s), name="end surely", daemon=True).start()


def _watch(reader: int, numbers: Collection[int], after_s: float) -> None:
    while received := os.read(reader, 1):
        if received[0] in numbers:
            time.sleep(after_s)
            with contextlib.suppress(Exception):
                used = sys.modules.get("multiprocessing")
                for worker in () if used is None else used.active_children():
                    worker.kill()
            with contextlib.suppress(OSError):
                os.write(2, f"tiepoint: Ended: the work did not stop within {after_s:g} s.\n".encode())
            os._exit(128 + received[0])


COMPLETING = "_TIEPOINT_COMPLETE"
"""Environment variable by which a shell requests completions."""

app = typer.Typer(
    name="tiepoint",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"tiepoint {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Measure how well a method finds the same point in two images.

    Examples: `tiepoint demo`, `tiepoint list`, `tiepoint run --help`
    """


def command() -> Any:
    """Return the root command with the options common to all commands."""
    return add_common_options(typer.main.get_command(app))


def _mount() -> None:
    from . import app as commands

    commands.mount(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line.

    The exit code is 0 (done), 1 (some units failed, or the output could not be written), 2 (wrong usage or
    input), 130 (stopped by Ctrl-C) or 128 plus the number of the signal that stopped it (143 for SIGTERM).
    """
    reserve_standard_fds()
    force_exit_after()
    code = run(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _leave(code)
    raise SystemExit(code)


def _leave(code: int) -> None:
    """Exit as Python does, but without destroying all objects one by one.

    Destroying them takes half a second if torch is loaded. Threads are joined and exit handlers run first. If
    the output cannot be written, return, so that Python reports it.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by the caller
            stream.flush()
        os._exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # while commands are imported
        return _stopped()


def _run(arguments: list[str]) -> int:
    _mount()
    if COMPLETING in os.environ:
        from .shell.completion import complete

        return complete(app, command)
    common_options.start_command()
    root = command()
    arguments = reorder_arguments(root, arguments)
    set_command_flags(root, arguments)
    as_json = "--json" in arguments
    with tolerant_streams(), stdout_for_result() if as_json else nullcontext(), _signals() as received:
        code = _code(root, arguments)
    return 128 + received[0] if received and code == STOPPED else code


STOPPED = 130
"""Exit code after Ctrl-C."""


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Handle SIGTERM and SIGHUP like Ctrl-C. Yield the list of received signals.

    A second signal ends the process immediately.
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


def _code(root: Any, arguments: list[str]) -> int:
    debug = "--debug" in arguments
    try:
        code = _called(root, arguments)
        result_stream().flush()
        print_verbose("done")
        return _stopped() if code == STOPPED else code
    except (typer.Abort, KeyboardInterrupt):
        return _stopped()
    except OutputError as e:
        discard_pending(result_stream())
        if not e.quiet:
            error(str(e))
        return e.exit_code
    except TiepointError as e:
        if debug and e.exit_code != STOPPED:
            raise
        error(str(e))
        return e.exit_code
    except OSError as e:  # a file name that is too long, a folder that was deleted
        if debug:
            raise
        error(str(os_error_reason(e)))
        return 2
    except UnicodeEncodeError as e:
        if debug:
            raise
        given = e.object[e.start : e.end].encode("ascii", "backslashreplace").decode()
        error(
            f"an argument or a file name has {given!r}, which the locale cannot encode; set a UTF-8 locale, "
            "such as LC_ALL=C.UTF-8"
        )
        return 2
    except Exception as e:
        # Usage errors have different classes in different versions of Typer, but the same method.
        if not hasattr(e, "format_message"):
            raise
        error(_usage(e, arguments))
        return 2


def _called(root: Any, arguments: list[str]) -> int:
    try:
        result = root.main(args=arguments, prog_name="tiepoint", standalone_mode=False)
    except typer.Exit as e:
        return int(e.exit_code)
    except SystemExit as e:  # Typer exits after it shows or installs completion
        return e.code if isinstance(e.code, int) else 0
    return int(result) if isinstance(result, int) else 0


def _usage(problem: Any, arguments: list[str]) -> str:
    """Return a message about a usage error, with the help command."""
    context = getattr(problem, "ctx", None)
    if context is None:
        return f"{problem.format_message()} (see tiepoint --help)"
    path = context.command_path
    if type(problem).__name__ == "MissingParameter":
        lacking = missing(context, arguments[len(path.split()) - 1 :])
        if lacking:
            return f"{path.partition(' ')[2]} needs {lacking}; see {path} --help"
    said = problem.format_message().rstrip().replace("'-j' / '--jobs'", "'--jobs'")
    if unknown := _NO_COMMAND.match(said):
        from ..core.errors import UnknownNameError

        known = [name for name, one in context.command.commands.items() if not one.hidden]
        what = "command" if path == "tiepoint" else f"command of {path}"
        return str(UnknownNameError(what, unknown["name"], known))
    if invalid := _NOT_A_NUMBER.match(said):
        return f"{invalid['flag']}: expected {invalid['kind']} (see {path} --help)"
    return f"{said} (see {path} --help)"


_NO_COMMAND = re.compile(r"No such command '(?P<name>.*?)'\.")
_NOT_A_NUMBER = re.compile(
    r"Invalid value for '(?P<flag>--[a-z0-9-]+)'.*(?:valid|not a valid) (?P<kind>integer|number)"
)


def _stopped() -> int:
    error("Interrupted.")
    return STOPPED
