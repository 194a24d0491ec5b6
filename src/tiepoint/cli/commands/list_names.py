# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint list``: methods, tasks, datasets, runs, races, or an overview."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import typer

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import count_text
from ..common import console, dump_json, notice, open_store_for_reading
from ..shell.common_options import columns as terminal_columns
from ..shell.completion import PROTOCOLS, counts, datasets


def list_things(
    what: str = typer.Argument(
        None, metavar="methods|tasks|datasets|runs|races", help="What to list; without it, print an overview."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    data: list[Path] = typer.Option(
        None, "--data", help="Folder to search for datasets, besides $TIEPOINT_DATA; may be repeated."
    ),
    json_: bool = typer.Option(False, "--json", help="Print one JSON list."),
) -> None:
    """List methods, tasks, datasets, runs or races; without an argument, print an overview.

    `list datasets` prints the datasets of the store's runs, and those it finds below --data, below
    $TIEPOINT_DATA and where `tiepoint data get` put them.

    Examples: `tiepoint list`, `tiepoint list methods`, `tiepoint list datasets --data /data`
    """
    if data and what != "datasets":
        raise InputError("`data` affects only `list datasets`; remove it")
    if what is None:
        found = _overview(store)
        if json_:
            dump_json(found)
        else:
            print(_text(found))
        return
    from ...store.store import default_store

    if what not in _LISTS:
        raise UnknownNameError("list", what, _LISTS)
    if what in _BUILT_IN and store not in (None, default_store()):
        raise InputError(f"--store has no effect on `list {what}`: {what} are built in; omit --store")
    rows: list[dict[str, Any]] = _LISTS[what](store, data or ())
    if json_:
        dump_json(rows)
        return
    if not rows:
        more = "; `tiepoint data get` lists published ones, --data FOLDER searches a folder"
        print(f"no {what} yet" + more * (what == "datasets"))
        return
    columns = [c for c in rows[0] if c not in _ONLY_JSON.get(what, ())]
    cautions = list(dict.fromkeys(f"* {row['caution']}" for row in rows if "caution" in row))
    for row in rows:
        row |= {"name": f"{row['name']} *"} if "caution" in row else {}
    texts = [
        [", ".join(v) if isinstance(v, dict) else str(v or "") for v in map(row.get, columns)] for row in rows
    ]
    if len(texts) > _LONG and (lines := _long_list(columns, texts, console().width)) is not None:
        sys.stdout.write("\n".join([*lines, *cautions, ""]))
        return
    from rich.text import Text

    from ...report.terminal.rich_table import FittingTable

    table = FittingTable(box=None, header_style="bold", keys=_KEYS.get(what, 2), spare=_SPARE, wraps=_PROSE)
    for column in columns:
        table.add_column(column)
    for line in texts:
        table.add_row(*map(Text, line))
    console().print(table, *map(Text, cautions), sep="\n")


_LONG = 500
"""Number of rows above which a table is printed without rich, which takes 0.5 ms per row."""


def _long_list(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str] | None:
    """Format a long table. Drop spare columns if the terminal is too narrow."""
    shown = list(range(len(columns)))
    for name in (None, *_SPARE):
        shown = [k for k in shown if columns[k] != name]
        lines = _plain_lines([columns[k] for k in shown], [[row[k] for k in shown] for row in rows], width)
        if lines is not None:
            return lines
    return None


def _plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str] | None:
    """Format a table without borders in the style of rich. None if a line does not fit.

    >>> _plain_lines(["a", "name"], [["1", "x"]], 80)
    [' a  name ', ' 1  x    ']
    """
    if not all(text.isascii() and text.isprintable() for row in rows for text in row):
        return None
    grid = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    if sum(widths) + 2 * len(widths) > width:
        return None
    form = "".join(f" {{:<{w}}} " for w in widths)
    return [form.format(*row) for row in grid]


_ONLY_JSON = {"tasks": ("protocols", "licence", "cite"), "runs": ("method", "caution")}
"""Fields that only ``--json`` prints."""


def _methods(_: str | None, __: Sequence[Path]) -> list[dict[str, str | None]]:
    from ...methods.registry import METHODS

    return [
        {"family": e.family, "name": e.name.split(":")[-1], "about": e.summary, "extra": e.needs}
        for e in METHODS
    ]


def _tasks(_: str | None, __: Sequence[Path]) -> list[dict[str, Any]]:
    from ...tasks import TASKS

    rows: list[dict[str, Any]] = []
    for entry in TASKS:
        try:
            task = TASKS.load_entry(entry)
        except InputError as e:  # a broken plug-in must not hide the other tasks
            rows.append({"family": entry.family, "name": entry.name, "about": str(e), "options": {}})
            continue
        row = {"family": task.family, "name": task.name, "about": task.info.sentence}
        more = {"protocols": list(task.protocols), "licence": task.info.licence, "cite": list(task.info.cite)}
        rows.append({**row, "options": task.options.describe(), **more})
    for problem in TASKS.problems:
        notice(problem)
    return sorted(rows, key=lambda row: (row["family"], row["name"]))


def _datasets(store: str | None, folders: Sequence[Path]) -> list[dict[str, str | None]]:
    """Return the datasets of a store, then the other datasets found on this machine."""
    from ...datasets.local import data_folders, local_datasets
    from ...store.store import default_store, store_root

    absent = [folder for folder in folders if not folder.is_dir()]
    if absent:
        raise InputError(f"{absent[0]} is not a folder; pass existing folders as `data`")
    found = {os.path.abspath(d.path): d for d in local_datasets([*folders, *data_folders()])}
    implied = store in (None, default_store()) and not store_root(store).exists()
    rows = [] if implied else _stored_datasets(store)
    for row in rows:
        path = os.path.abspath(row["path"]) if row["path"] else ""
        local = found.pop(path, None)
        row["present"] = "yes" if os.path.exists(path) else "no"
        row["published"] = None if local is None else local.published
    for d in found.values():
        own = {"name": d.path.resolve().name, "family": d.layout, "path": str(d.path), "hash": None}
        rows.append({**own, "present": "yes", "published": d.published})
    return rows


def _stored_datasets(store: str | None) -> list[dict[str, str | None]]:
    import sqlalchemy as sa

    from ...store.schema import datasets

    with open_store_for_reading(store) as opened, opened.reading() as connection:
        rows = connection.execute(sa.select(datasets).order_by(datasets.c.name, datasets.c.id)).mappings()
        return [
            {"name": r["name"], "family": r["family"], "path": r["path"], "hash": r["id"][:12]} for r in rows
        ]


def _runs(store: str | None, _: Sequence[Path]) -> list[dict[str, str | None]]:
    from ...report.runs.names import distinct_names
    from ...store.run_queries import load_heads

    with open_store_for_reading(store) as opened:
        found = load_heads(opened)
        names = distinct_names(found)
        return [
            {
                "run": r.id,
                "method": r.method,
                "name": name,
                "task": r.task,
                "dataset": r.dataset,
                "status": r.status,
                "protocols": ",".join(sorted(r.protocols)),
                "made": r.created_at,
                **({} if r.is_deterministic else {"caution": r.manifest.caution}),
            }
            for r, name in zip(found, names, strict=True)
        ]


def _races(store: str | None, _: Sequence[Path]) -> list[dict[str, str | None]]:
    from ...report.race_text import state_of
    from ...store.races import load_races

    with open_store_for_reading(store) as opened:
        return [
            {
                "race": race.id,
                "name": ", ".join(m.name for m in race.question.methods),
                "task": race.question.task,
                "score": race.question.metric,
                "about": race.question.about,
                "goal": race.question.goal,
                "state": state_of(race),
                "dataset": race.question.dataset.name,
                "made": race.created_at,
            }
            for race in load_races(opened.root)
        ]


_KEYS = {"datasets": 1}
_SPARE = ("protocols", "dataset", "status", "made", "options", "extra", "published", "hash")
"""Columns that a narrow terminal drops, in this order."""
_PROSE = ("about", "options")
_BUILT_IN = ("methods", "tasks")
_LISTS = {"methods": _methods, "tasks": _tasks, "datasets": _datasets, "runs": _runs, "races": _races}


def _overview(store: str | None) -> dict[str, Any]:
    """Collect tasks and methods by family, protocols, datasets, and the run counts of the store."""
    from ...methods.registry import METHODS
    from ...tasks import TASKS

    protocols = dict.fromkeys(p for known in PROTOCOLS.values() for p in known)
    return {
        "tasks": _by_family((e.family, e.name) for e in TASKS),
        "methods": _by_family((e.family, e.name.split(":")[-1]) for e in METHODS),
        "protocols": list(protocols),
        "datasets": list(datasets()),
        "store": _store(store),
    }


def _by_family(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for family, name in pairs:
        found.setdefault(family, []).append(name)
    return found


def _store(store: str | None) -> dict[str, Any] | None:
    """Count the runs of a store. None if the default store does not exist."""
    where = store or os.environ.get("TIEPOINT_STORE") or "tiepoint-store"
    if (found := counts(where)) is not None:
        return {"path": where, **found}
    from ...store.store import store_root

    if store is None and not store_root(where).exists():
        return None
    from ...store.run_queries import load_heads

    with open_store_for_reading(where) as opened:
        heads = load_heads(opened)
        several = {k: len({getattr(h, k) for h in heads}) for k in ("method", "task", "dataset")}
        return {"path": str(opened.root), "runs": len(heads), **several}


def _text(found: dict[str, Any]) -> str:
    """Format the overview for the width of the terminal."""
    width = terminal_columns()
    lines: list[str] = []
    for title, by_family in (("Tasks", found["tasks"]), ("Methods", found["methods"])):
        lines.append(f"{title}:")
        for family, names in by_family.items():
            lines += _names(f"  {family:<10}", names, width)
    lines += ["", *_names("Protocols: ", found["protocols"], width)]
    if found["datasets"]:
        lines += _names("Datasets: ", found["datasets"], width)
    lines += ["", *_next(found["store"])]
    return "\n".join(lines)


def _names(head: str, names: Iterable[str], width: int) -> list[str]:
    return wrap(
        ", ".join(dict.fromkeys(names)),
        width,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if width > 50 else 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _next(store: dict[str, Any] | None) -> list[str]:
    about = [
        "  tiepoint list methods|tasks   describe each of them",
        "  tiepoint run --help           score a method",
    ]
    if store is None or not store["runs"]:
        first = "No store here yet." if store is None else f"Store {store['path']}: no runs yet."
        return [first, "Next:", "  tiepoint demo                 run everything once", *about]
    runs = [count_text(store[k], k) for k in ("method", "task", "dataset")]
    count = count_text(store["runs"], "run")
    return [
        f"Store {store['path']}: {count}, {', '.join(runs)}.",
        "Next:",
        "  tiepoint list runs|datasets   list the content of the store",
        "  tiepoint compare --task TASK  compare methods",
        *about,
    ]
