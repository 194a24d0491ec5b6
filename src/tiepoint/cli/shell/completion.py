# SPDX-License-Identifier: BSD-3-Clause
"""Shell completion of arguments and option values, without slow imports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

_V2 = ("exact", "hpatches-python", "hpatches-matlab")
_WXBS = ("exact", "wxbs-benchmark")
_SFM = ("exact", "colmap", "colmap-absolute", "imc2021", "imc2023", "imc2024", "imc2025", "evo")
PROTOCOLS: dict[str, tuple[str, ...]] = {
    **{f"hpatches-v1/{t}": ("exact", "hbench-2016") for t in ("classification", "matching", "retrieval")},
    **{f"hpatches/{t}": _V2 for t in ("verification", "matching", "retrieval")},
    "keypoints/ranking": ("exact", "workbench"),
    "keypoints/images": ("exact", "workbench"),
    "keypoints/matching": ("exact", "bojanic"),
    "keypoints/retrieval": ("exact", "workbench", "bojanic"),
    "keypoints/verification": ("exact", "workbench", "bojanic"),
    "keypoints/geometry": (
        "exact", "loftr", "dkm", "roma", "dad", "glue-factory", "toolbox", "d2net",
    ),
    "dense/flow": ("exact",),
    "dense/pck": ("exact",),
    "tss": ("exact", "tss-cpp", "tss-matlab"),
    "pose/relative": (
        "exact", "superglue", "loftr", "eloftr", "roma", "roma-poselib", "dad", "xfeat", "glue-factory",
        "zeb", "imc",
    ),
    "sfm/poses": _SFM,
    "sfm/reconstruct": _SFM,
    "semantic/pck": ("exact", "hpf", "dhpf", "cats", "dift", "geoaware", "distilldift-stretched"),
    **{f"stress/{k}": ("exact",) for k in ("rotation", "scale", "tilt", "blur", "gamma", "jpeg", "noise")},
    "evd/homography": _WXBS,
    "homography/pairs": ("exact",),
    "mmim/homography": ("exact", "minima"),
    "satast/points": ("exact", "romav2-homography", "romav2-warp"),
    "wxbs/fundamental": (*_WXBS, "loma"),
    "wxbs/points": _WXBS,
}  # fmt: skip
"""Protocols by task, listed here so that no task is imported."""
SPLITS = ("a", "b", "c", "illum", "view", "full")
MAX_COMPLETIONS = 500


def tasks() -> Iterator[str]:
    """Yield names of tasks, including plug-ins."""
    from ...tasks import TASKS

    return (entry.name for entry in TASKS)


def methods(task: str | None = None) -> Iterator[str]:
    """Yield names of methods. If the task is known, yield only methods of its family."""
    from ...core.plugins import PLUGGED
    from ...methods.registry import METHODS
    from ...tasks import TASKS

    family = TASKS.entry(task).family if task and task in TASKS else None
    for entry in METHODS:
        if family is None or entry.family in (family, PLUGGED):
            yield entry.name.split(":")[-1]
    yield from ("files:", "onnx:", "torch:", "kornia:")


def datasets() -> Iterator[str]:
    """Yield names of published datasets that `data get` can download."""
    from importlib.resources import files

    with contextlib.suppress(ImportError, OSError, ValueError, KeyError, TypeError):
        place = files("tiepoint.datasets.download").joinpath("sources.json")
        listed = json.loads(place.read_text(encoding="utf-8"))["sources"]
        yield from sorted(listed if isinstance(listed, dict) else (one["name"] for one in listed))


def run_completions(store: str | None, task: str | None) -> Iterator[str]:
    """Yield methods, then run ids, newest first. `task` restricts both to one task."""
    yield from stored_methods(store, task)
    yield from stored_run_ids(store, task)


def stored_run_ids(store: str | None, task: str | None) -> Iterator[str]:
    """Yield ids of stored runs, newest first, optionally only of one task."""
    of = "where runs.task = ?" if task else ""
    return _column(store, f"select id from runs {of} order by created_at desc", (task,) if task else ())


def stored_methods(store: str | None, task: str | None) -> Iterator[str]:
    """Yield methods of stored runs, newest first, optionally only of one task."""
    of = "where runs.task = ?" if task else ""
    return _column(
        store,
        "select name from (select methods.name as name, max(runs.created_at) as made from runs join methods "
        f"on runs.method_id = methods.id {of} group by methods.name) order by made desc",
        (task,) if task else (),
    )


def stored_datasets(store: str | None, _task: str | None) -> Iterator[str]:
    """Yield names of datasets with stored runs."""
    return _column(store, "select distinct name from datasets order by name")


def keypoint_sets(store: str | None, _task: str | None) -> Iterator[str]:
    """Yield names of keypoint sets."""
    return _column(store, "select distinct name from keypoint_sets order by name")


def stored_tasks(store: str | None, _task: str | None) -> Iterator[str]:
    """Yield tasks with stored runs."""
    return _column(store, "select distinct task from runs order by task")


def counts(store: str | None) -> dict[str, int] | None:
    """Count runs, methods, tasks and datasets in a store's database file. None if the file is missing."""
    joined = "runs join methods on runs.method_id = methods.id"
    columns = {
        "runs": "*",
        "method": "distinct methods.name",
        "task": "distinct task",
        "dataset": "distinct dataset_id",
    }
    found = {
        k: [*_column(store, f"select 'n' || count({what}) from {joined}")] for k, what in columns.items()
    }
    return {k: int(n[0][1:]) for k, n in found.items()} if all(found.values()) else None


def metrics(store: str | None, task: str | None) -> Iterator[str]:
    """Yield metrics of a task."""
    return _scores(store, task, "metric")


def groups(store: str | None, task: str | None) -> Iterator[str]:
    """Yield groups of a task's scores, except single scenes and pairs."""
    return (g for g in _scores(store, task, "group") if "scene=" not in g and "pair=" not in g)


def splits(store: str | None, _task: str | None) -> Iterator[str]:
    """Yield splits of HPatches and of stored runs."""
    yield from SPLITS
    yield from _column(store, "select distinct json_extract(manifest, '$.split') from runs")


def _scores(store: str | None, task: str | None, column: str) -> Iterator[str]:
    of = "where run_id in (select id from runs where task = ?)" if task else ""
    query = f'select distinct "{column}" from scores {of} order by 1'
    return _column(store, query, (task,) if task else ())


def _column(store: str | None, query: str, given: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the first column of a query on the store's database, or nothing if that is unreadable."""
    where = _database(store or os.environ.get("TIEPOINT_STORE") or "tiepoint-store")
    if where is None or not where.is_file():
        return
    with contextlib.suppress(sqlite3.Error):
        place = f"file:{quote(str(where.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=0.3)) as connection:
            for (value,) in connection.execute(f"{query} limit {MAX_COMPLETIONS}", given):
                if value:
                    yield str(value)


def _database(store: str) -> Path | None:
    """Return the database file of a store. None for a database server."""
    if store.startswith("sqlite:///"):
        return Path(store.removeprefix("sqlite:///").partition("?")[0])
    return None if "://" in store else Path(store) / "tiepoint.sqlite"


_SAFE = re.compile(r"[A-Za-z0-9_.,:/+?=@%~^*-]+")
"""Pattern of names without special shell characters. Other names are not completed."""

Names = Callable[[str | None, str | None], Iterator[str]]
"""Completion function: takes the store and the task of the command line and yields names."""


def _fixed(*names: str) -> Names:
    return lambda _store, _task: iter(names)


def _protocols(_store: str | None, task: str | None) -> Iterator[str]:
    yield from PROTOCOLS.get(task or "", sorted({p for known in PROTOCOLS.values() for p in known}))


_BY_PARAMETER: dict[str, Names] = {
    "task": stored_tasks, "dataset": stored_datasets, "protocol": _protocols,
    "methods": run_completions, "run": run_completions, "runs": run_completions, "baseline": run_completions,
    "split": splits, "metric": metrics, "group": groups, "device": _fixed("cpu", "cuda"),
    "on_bad": _fixed("error", "miss", "keep-zeros"), "missing": _fixed("error", "skip", "zero"),
    "results_form": _fixed("auto", "final", "document"),
    "form": _fixed("html", "md", "latex", "csv", "json", "parquet"),
    "table": _fixed("combined", "tasks", "scores"), "suite": _fixed("hpatches-v1", "hpatches"),
    "lists": _fixed("official", "clean"), "what": _fixed("methods", "tasks", "datasets", "runs"),
    "kind": _fixed("scores", "scenes", "time", "bytes", "differences"),
    "detector": _fixed("sift", "orb", "akaze", "brisk", "kaze", "fast", "agast", "gftt", "harris", "surf"),
    "allow": _fixed("dataset", "lists", "scenes", "split"),
}  # fmt: skip
_BY_COMMAND: dict[tuple[str, str], Names] = {
    ("run", "methods"): lambda _store, task: methods(task),
    ("run", "task"): lambda _store, _task: tasks(),
    ("score", "task"): lambda _store, _task: tasks(),
    ("describe", "method"): lambda _store, _task: methods("hpatches/matching"),
    ("get", "name"): lambda _store, _task: datasets(),
    ("ls", "method"): stored_methods,
    ("rm", "runs"): stored_run_ids,
    ("rename", "old"): stored_methods,
    ("export", "name"): keypoint_sets,
    ("export", "form"): _fixed("npz", "hloc", "glue-factory"),
    ("intersect", "first"): keypoint_sets,
    ("intersect", "second"): keypoint_sets,
    ("subset", "source"): keypoint_sets,
}


def complete(app: typer.Typer, build: Callable[[], Any]) -> int:
    """Print completions for the shell. Print nothing else, even on errors."""
    answer, code = io.StringIO(), 0
    nowhere = io.StringIO()
    with contextlib.suppress(Exception), contextlib.redirect_stderr(nowhere):
        attach(app)
        root = build()
        prefix = _rejoin_words()
        try:
            with contextlib.redirect_stdout(answer):
                root.main(args=[], prog_name="tiepoint", standalone_mode=False)
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0
        text = answer.getvalue()
        if prefix:
            text = "".join(f"{line.removeprefix(prefix)}\n" for line in text.splitlines())
        sys.stdout.write(text)
        sys.stdout.flush()
    return code


def attach(app: typer.Typer) -> None:
    """Attach completion functions to the parameters of every command."""
    for info in app.registered_commands:
        function = info.callback
        defaults = getattr(function, "__defaults__", None) or ()
        names = function.__code__.co_varnames[: function.__code__.co_argcount] if function else ()
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            found = _BY_COMMAND.get((info.name or "", name), _BY_PARAMETER.get(name))
            if found is not None and getattr(default, "autocompletion", False) is None:
                default.autocompletion = _completer(found)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance)


def _completer(names: Names) -> Callable[[typer.Context, str], list[str]]:
    def found(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        given = ctx.params.get("task")
        task = given[-1] if isinstance(given, list | tuple) and given else given
        with contextlib.suppress(Exception):
            known = dict.fromkeys(names(ctx.params.get("store"), task if isinstance(task, str) else None))
            given_before = before.split(",")
            return [before + comma + n for n in known if n not in given_before and _SAFE.fullmatch(n)]
        return []

    return found


def _rejoin_words() -> str:
    """Rejoin words that bash splits at ``=`` and ``:``. Return the prefix that bash already has."""
    if not os.environ.get("_TIEPOINT_COMPLETE", "").endswith("_bash") or "COMP_WORDS" not in os.environ:
        return ""
    words = _split(os.environ["COMP_WORDS"])
    at = int(os.environ.get("COMP_CWORD", len(words) - 1))
    last = words[at] if at < len(words) else ""
    joined: list[str] = []
    gap = True
    for word in [*words[:at], last]:
        breaks = bool(word) and not word.strip("=:")
        if joined and len(joined) > 1 and (breaks or not gap):
            joined[-1] += word
        else:
            joined.append(word)
        gap = not breaks
    os.environ["COMP_WORDS"] = "\n".join(map(shlex.quote, joined))
    os.environ["COMP_CWORD"] = str(len(joined) - 1)
    value = joined[-1].partition("=")[2] if joined[-1].startswith("--") else joined[-1]
    return value[: max(value.rfind("="), value.rfind(":")) + 1]


def _split(text: str) -> list[str]:
    words: Sequence[str] = text.split("\n") if "\n" in text else text.split(" ")
    found = []
    for word in words:
        try:
            found += shlex.split(word) or [word]
        except ValueError:
            found.append(word.strip("'\""))
    return found
