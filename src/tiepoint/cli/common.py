# SPDX-License-Identifier: BSD-3-Clause
"""What commands share: printing, progress, lists of values, options of tasks."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ..core.errors import InputError, TiepointError
from ..core.formatting import count_text, printable
from .shell import common_options
from .shell.console import PIPED, console, progress_bars, width_of
from .shell.flag_names import as_flags
from .shell.streams import can_ask

if TYPE_CHECKING:
    from ..store.store import Store


__all__ = [
    "RunInterrupted",
    "as_text",
    "console",
    "dump_json",
    "error",
    "join_words",
    "key_values",
    "merge_warnings",
    "notice",
    "open_store_for_reading",
    "open_store_for_writing",
    "print_columns",
    "print_json",
    "print_plan",
    "print_status",
    "print_tables",
    "print_verbose",
    "progress_bars",
    "resumable",
    "split_values",
    "task_options",
    "without_effect",
]  # fmt: skip


def error(message: str) -> None:
    """An error on standard error, in one sentence."""
    print(f"tiepoint: {as_flags(message)}", file=sys.stderr)


def notice(message: str) -> None:
    """A warning on standard error; not with ``-q``."""
    if not common_options.quiet():
        print(f"tiepoint: warning: {as_flags(message)}", file=sys.stderr)


def print_status(message: str) -> None:
    """Something to know while the work goes on, on standard error; not with ``-q``."""
    if not common_options.quiet():
        print(f"tiepoint: {as_flags(message)}", file=sys.stderr)


def print_verbose(message: str) -> None:
    """What is told with ``-v`` only, on standard error, with the seconds since the command began."""
    if common_options.verbose():
        print(f"tiepoint: {as_flags(message)} ({common_options.elapsed_s():.2f} s)", file=sys.stderr)


def dump_json(found: Any, **how: Any) -> None:
    """One JSON value on standard output, in ASCII."""
    print(json.dumps(found, indent=1, **how).replace("\x7f", "\\u007f"))


@contextlib.contextmanager
def open_store_for_reading(where: str | None) -> Iterator[Store]:
    """A store opened only to be read, with what there is to say about it as warnings."""
    from ..store.store import Store

    with Store.open(where, mode="read") as opened:
        print_verbose(f"store: {opened.root.absolute()}, opened to be read")
        for line in opened.notices:
            notice(line)
        yield opened


@contextlib.contextmanager
def open_store_for_writing(where: str | None, *, create: bool = True) -> Iterator[Store]:
    """Open a store for writing and print its notices as warnings.

    One that is not there is made when something is asked of it: what is refused before leaves nothing.
    """
    from ..store.store import Store

    with Store.open(where, create=create, later=create) as opened:
        print_verbose(f"store: {opened.root.absolute()}, opened to be written")
        for line in opened.notices:
            notice(line)
        yield opened


class RunInterrupted(TiepointError):
    """Ctrl-C or a signal stopped a command; the message says what becomes of the work."""

    exit_code = 130


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Work that goes on from where it was when the command is run again."""
    try:
        yield
    except KeyboardInterrupt as e:
        said = "Interrupted. Finished work is saved; rerun the command to resume."
        raise RunInterrupted(" ".join([said, *getattr(e, "__notes__", ())])) from e


def without_effect(context: Any, names: Iterable[str], why: str) -> None:
    """Refuse options that have no effect here, all at once; one that has its default value is no mistake."""
    wanted = set(names)
    found = []
    for parameter in context.command.params:
        if parameter.name not in wanted:
            continue
        value, usual = context.params.get(parameter.name), parameter.get_default(context)
        if value not in (None, [], ()) and value != usual:
            flag = next((f for f in parameter.opts if f.startswith("--")), parameter.opts[0])
            found.append(flag if flag.startswith("-") else (parameter.metavar or flag).strip("[]."))
    if found:
        has, them = ("has", "it") if len(found) == 1 else ("have", "them")
        raise InputError(f"{', '.join(found)} {has} no effect {why}; leave {them} out")


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def as_text(name: str | None) -> str | None:
    """A name from the command line as text, also where the locale knows ASCII only."""
    if name is None or name.isprintable():
        return name
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeError as e:
        raise InputError(f"the name {name!r} is no text in UTF-8") from e


def split_values(given: Sequence[str] | None) -> list[str]:
    """Values of an option that may be repeated or comma-separated.

    >>> split_values(["a,b", "c"]), split_values(None)
    (['a', 'b', 'c'], [])
    """
    return [part.strip() for text in given or () for part in text.split(",") if part.strip()]


def key_values(given: Sequence[str] | None) -> dict[str, Any]:
    """``key=value`` options; numbers, true and false are understood, several values come in a list.

    >>> key_values(["tau_px=3", "policy=mutual", "sizes=[1, 2]"])
    {'tau_px': 3, 'policy': 'mutual', 'sizes': [1, 2]}
    """
    found: dict[str, Any] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"option {text!r} is not of the form key=value")
        name, read = key.replace("-", "_"), _read(value)
        if found.setdefault(name, read) != read:
            raise InputError(f"option {name} is given twice, as {found[name]!r} and as {read!r}")
    return found


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def task_options(option: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """Options of a task from ``-o key=value`` and from flags of their own, where these are given."""
    found = key_values(option)
    for name, value in flags.items():
        if value is None:
            continue
        if name in found:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"option {name} is given twice, with -o and with {flag}")
        found[name] = value
    return found


def merge_warnings(runs: Sequence[Any]) -> list[str]:
    """Warnings of runs, each once; what does not concern all of them says which methods and tasks it does."""
    methods, tasks = (list(dict.fromkeys(getattr(r, k) for r in runs)) for k in ("method", "task"))
    where: dict[str, list[Any]] = {}
    for run in runs:
        for warning in run.warnings:
            where.setdefault(warning, []).append(run)
    lines = []
    for warning, concerned in where.items():
        own = [m for m in methods if any(r.method == m for r in concerned)]
        of = [t for t in tasks if any(r.task == t for r in concerned)]
        about = [", ".join(own)] if len(own) < len(methods) else []
        about += [", ".join(of)] if len(of) < len(tasks) else []
        lines.append(": ".join([" on ".join(about), warning]) if about else warning)
    return lines


def print_json(scores: Sequence[dict[str, Any]], warnings: Sequence[str]) -> None:
    """The one object of ``--json``."""
    dump_json({"scores": list(scores), "warnings": [as_flags(w) for w in warnings]})


def print_plan(plan: Sequence[dict[str, Any]], as_json: bool, **also: Any) -> None:
    """What ``--dry-run`` prints: a line a run, or one JSON object."""
    if as_json:
        dump_json({"plan": list(plan), **also})
        return
    for one in plan:
        spec = f"{one['spec']}, " if "spec" in one else ""
        rows = f", {count_text(one['rows'], 'row')}" if one.get("rows") else ""
        sizes = f"{count_text(one['items'], 'item')}{rows}, {count_text(one['units'], 'unit')}"
        print(f"{one['method']} on {one['task']}: {spec}{sizes}, protocols {', '.join(one['protocols'])}")


def print_columns(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: int = 0,
    keys: int = 1,
    spare: Sequence[str] = (),
    wraps: Sequence[str] = (),
) -> None:
    """Rows below columns as plain text; the last `right` columns are numbers.

    Where the terminal is too narrow, columns to `spare` are left out, those of prose (`wraps`) broken into
    lines, and the others, beside the `keys` of a row, set in several tables or a line each.
    """
    grid = [list(columns), *([printable(text) for text in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    first = len(columns) - right
    out = console() if sys.stdout.isatty() else None
    room = width_of(sys.stdout) if out is None else out.width
    if sum(widths) + 2 * (len(widths) - 1) <= (room or PIPED):
        for row in grid:
            cells = [
                t.rjust(w) if k >= first else t.ljust(w)
                for k, (t, w) in enumerate(zip(row, widths, strict=True))
            ]
            print("  ".join(cells).rstrip())
        return
    from ..report.terminal.rich_table import FittingTable

    table = FittingTable(box=None, header_style="bold", keys=keys, spare=spare, wraps=wraps)
    for k, name in enumerate(columns):
        table.add_column(name, justify="right" if k >= first else "left")
    for cells_of in rows:
        table.add_row(*cells_of)
    (out or console()).print(table)


def print_tables(runs: Sequence[Any], warnings: Sequence[str]) -> None:
    """Warnings, then one table a task and protocol, with the ids of the runs."""
    from ..report.terminal.scores import score_tables

    for warning in warnings:
        notice(warning)
    for run in runs:
        print_verbose(f"run {run.id}: {run.method} on {run.task}, made {run.created_at}")
    out = console()
    for table in score_tables(runs):
        out.print(table)


STORE = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store.")


def confirm(question: str, yes: bool) -> None:
    """Ask before something is deleted; where nobody can answer, `yes` must have been given."""
    if yes:
        return
    if not can_ask():
        raise InputError("nobody can be asked here; give `yes` to delete, or `dry_run` to see what would be")
    typer.confirm(question, abort=True, err=True)


def print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> None:
    """Print rows below columns as plain text, nothing cut; the last `right` columns are numbers."""
    print_columns(columns, rows, right=right, keys=2 if columns[0] == "run" else 1, spare=("dataset", "made"))
