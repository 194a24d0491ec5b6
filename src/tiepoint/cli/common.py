# SPDX-License-Identifier: BSD-3-Clause
"""Helpers shared by commands: printing, progress, option values, task options."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ..core.errors import InputError, TiepointError, kind_of
from ..core.formatting import count_text, printable
from .shell import common_options
from .shell.console import PIPED, TABLE, console, progress_bars, width_of
from .shell.flag_names import as_flags
from .shell.streams import can_ask, result_stream

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
    """Print an error to standard error."""
    print(f"tiepoint: {as_flags(message)}", file=sys.stderr)


def notice(message: str) -> None:
    """Print a warning to standard error, unless ``-q`` is set."""
    if not common_options.quiet():
        print(f"tiepoint: warning: {as_flags(message)}", file=sys.stderr)


def print_status(message: str) -> None:
    """Print a status message to standard error, unless ``-q`` is set."""
    if not common_options.quiet():
        print(f"tiepoint: {as_flags(message)}", file=sys.stderr)


def print_verbose(message: str) -> None:
    """Print a message with the elapsed seconds to standard error, only with ``-v``."""
    if common_options.verbose():
        print(f"tiepoint: {as_flags(message)} ({common_options.elapsed_s():.2f} s)", file=sys.stderr)


def dump_json(value: Any, **how: Any) -> None:
    """Print one JSON value to standard output, with non-ASCII characters escaped."""
    text = json.dumps(value, indent=1, **how).replace("\x7f", "\\u007f")
    print(text, file=result_stream())


@contextlib.contextmanager
def open_store_for_reading(where: str | None) -> Iterator[Store]:
    """Open a store for reading and print its notices as warnings."""
    from ..store.store import Store

    with Store.open(where, mode="read") as opened:
        print_verbose(f"store: {opened.root.absolute()}, read-only")
        for line in opened.notices:
            notice(line)
        yield opened


@contextlib.contextmanager
def open_store_for_writing(where: str | None, *, create: bool = True) -> Iterator[Store]:
    """Open a store for writing and print its notices as warnings.

    A missing store is created at the first write. A command that fails earlier creates nothing.
    """
    from ..store.store import Store

    with Store.open(where, create=create, later=create) as opened:
        print_verbose(f"store: {opened.root.absolute()}")
        for line in opened.notices:
            notice(line)
        yield opened


class RunInterrupted(TiepointError):
    """Raised if Ctrl-C or a signal stops a command. The message says whether the work is saved."""

    exit_code = 130


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Convert Ctrl-C to an error with the hint that the command can be resumed."""
    try:
        yield
    except KeyboardInterrupt as e:
        message = "Interrupted. Finished work is saved; rerun the command to resume."
        raise RunInterrupted(" ".join([message, *getattr(e, "__notes__", ())])) from e


def without_effect(context: Any, names: Iterable[str], why: str) -> None:
    """Raise one error for all options that have no effect. Options at their default are accepted."""
    names = set(names)
    useless = []
    for parameter in context.command.params:
        if parameter.name not in names:
            continue
        value = context.params.get(parameter.name)
        if value not in (None, [], ()) and value != parameter.get_default(context):
            flag = next((f for f in parameter.opts if f.startswith("--")), parameter.opts[0])
            useless.append(flag if flag.startswith("-") else (parameter.metavar or flag).strip("[]."))
    if useless:
        has, them = ("has", "it") if len(useless) == 1 else ("have", "them")
        raise InputError(f"{', '.join(useless)} {has} no effect {why}; remove {them}")


def join_words(words: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def as_text(name: str | None) -> str | None:
    """Decode a command-line argument as UTF-8, even in an ASCII locale."""
    if name is None or name.isprintable():
        return name
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeError as e:
        raise InputError(f"the name {name!r} is not valid UTF-8; choose another name") from e


def split_values(given: Sequence[str] | None) -> list[str]:
    """Split the values of an option that may be repeated or comma-separated.

    >>> split_values(["a,b", "c"]), split_values(None)
    (['a', 'b', 'c'], [])
    """
    return [part.strip() for text in given or () for part in text.split(",") if part.strip()]


def key_values(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse ``key=value`` options. A value is parsed as JSON if possible, otherwise it is text.

    ``null`` is text, because an option that is None counts as not given.

    >>> key_values(["tau_px=3", "policy=mutual", "sizes=[1, 2]"])
    {'tau_px': 3, 'policy': 'mutual', 'sizes': [1, 2]}
    """
    options: dict[str, Any] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"option {text!r} is not of the form key=value; write for example -o tau_px=3")
        name, read = key.replace("-", "_"), _parse_value(value)
        if options.setdefault(name, read) != read:
            raise InputError(f"option {name} is given twice, as {options[name]!r} and {read!r}; remove one")
    return options


def _parse_value(value: str) -> Any:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if parsed is None else parsed


def task_options(option: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """Collect the options of a task from ``-o key=value`` and from dedicated flags."""
    found = key_values(option)
    for name, value in flags.items():
        if value is None:
            continue
        if name in found:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"option {name} is given twice, with -o and with {flag}; remove one")
        found[name] = value
    return found


def merge_warnings(runs: Sequence[Any], *, by_kind: bool = False) -> list[str]:
    """Collect the distinct warnings of runs. Add methods and tasks to warnings that not all runs share.

    With `by_kind`, warnings that differ only in numbers and paths are one line with a count.
    """
    methods, tasks = (list(dict.fromkeys(getattr(r, k) for r in runs)) for k in ("method", "task"))
    where: dict[str, list[Any]] = {}
    for run in runs:
        for warning in run.warnings:
            where.setdefault(warning, []).append(run)
    kinds: dict[str, list[str]] = {}
    for warning in where:
        kinds.setdefault(kind_of(warning) if by_kind else warning, []).append(warning)
    lines = []
    for warning, *others in kinds.values():
        concerned = where[warning]
        own = [m for m in methods if any(r.method == m for r in concerned)]
        of = [t for t in tasks if any(r.task == t for r in concerned)]
        about = [", ".join(own)] if len(own) < len(methods) else []
        about += [", ".join(of)] if len(of) < len(tasks) else []
        more = f" (and {len(others)} more of this kind; `verbose` prints all)" if others else ""
        lines.append(": ".join([" on ".join(about), warning] if about else [warning]) + more)
    return lines


def print_json(scores: Sequence[dict[str, Any]], warnings: Sequence[str]) -> None:
    """Print the JSON object that ``--json`` requests."""
    dump_json({"scores": list(scores), "warnings": [as_flags(w) for w in warnings]})


def print_runs_json(runs: Sequence[Any], warnings: Sequence[str]) -> None:
    """Print the scores of runs as the JSON object of ``--json``. Cautions of the scores become warnings."""
    from ..report.leaderboard import cautions_of

    cautions = cautions_of(s for r in runs for s in r.score_rows)
    print_json([row for r in runs for row in r.rows()], [*warnings, *cautions])


def print_plan(plan: Sequence[dict[str, Any]], as_json: bool, **also: Any) -> None:
    """Print the plan of ``--dry-run``: one line per run, or one JSON object."""
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
    """Print a plain-text table. The last `right` columns are right-aligned numbers.

    On a narrow terminal, drop the columns in `spare`, wrap the columns in `wraps`, and split the table. Each
    part repeats the first `keys` columns.
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


def print_tables(runs: Sequence[Any], warnings: Sequence[str] = (), *, by_document: bool = False) -> None:
    """Print warnings of the runs, then one table per task.

    With `by_document`, tables have the layout of published documents. Without a terminal, tables are 100
    columns wide. With ``-v``, all warnings and notes are printed.
    """
    from ..report.terminal.scores import score_tables

    verbose = common_options.verbose()
    for warning in dict.fromkeys([*warnings, *merge_warnings(runs, by_kind=not verbose)]):
        notice(warning)
    for run in runs:
        print_verbose(f"run {run.id}: {run.method} on {run.task}, created {run.created_at}")
    out = console(piped=TABLE)
    for k, table in enumerate(score_tables(runs, by_document=by_document, more=verbose)):
        if k:
            print()
        out.print(table)


STORE = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store.")


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation. Without a terminal, require `yes`."""
    if yes:
        return
    if not can_ask():
        raise InputError("no terminal to confirm; pass `yes` to delete or `dry_run` to preview")
    typer.confirm(question, abort=True, err=True)


def print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> None:
    """Print a plain-text table of runs or sizes. The last `right` columns are right-aligned numbers."""
    print_columns(columns, rows, right=right, keys=2 if columns[0] == "run" else 1, spare=("dataset", "made"))
