# SPDX-License-Identifier: BSD-3-Clause
"""Completion by the shell: Typer asks, here is what the answers are; nothing heavy is imported."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer

from .names import (
    PROTOCOLS,
    datasets,
    groups,
    keypoint_sets,
    methods,
    metrics,
    ran_on,
    run_completions,
    splits,
    stored_datasets,
    stored_methods,
    stored_run_ids,
    tasks,
)

_WHOLE = re.compile(r"[A-Za-z0-9_.,:/+?=@%~^*-]+")
"""Names that no shell reads anything into; others are not offered."""

Names = Callable[[str | None, str | None], Iterator[str]]
"""Names by the store and the task that the line has so far."""


def _fixed(*names: str) -> Names:
    return lambda _store, _task: iter(names)


def _protocols(_store: str | None, task: str | None) -> Iterator[str]:
    yield from PROTOCOLS.get(task or "", sorted({p for known in PROTOCOLS.values() for p in known}))


_EVERYWHERE: dict[str, Names] = {
    "task": ran_on, "dataset": stored_datasets, "methods": run_completions, "run": run_completions, "runs": run_completions, "baseline": run_completions,
    "protocol": _protocols,
    "split": splits, "metric": metrics, "group": groups, "device": _fixed("cpu", "cuda"),
    "on_bad": _fixed("error", "miss", "keep-zeros"), "missing": _fixed("error", "skip", "zero"),
    "results_form": _fixed("final", "document"),
    "form": _fixed("html", "md", "latex", "csv", "json", "parquet"),
    "table": _fixed("combined", "tasks", "scores"), "suite": _fixed("hpatches-v1", "hpatches"),
    "lists": _fixed("official", "clean"), "what": _fixed("methods", "tasks", "datasets", "runs"),
    "kind": _fixed("scores", "scenes", "time", "bytes", "differences"),
    "detector": _fixed("sift", "orb", "akaze", "brisk", "kaze", "fast", "agast", "gftt", "harris", "surf"),
    "allow": _fixed("dataset", "lists", "scenes", "split"),
}  # fmt: skip
_OF_A_COMMAND: dict[tuple[str, str], Names] = {
    ("run", "methods"): lambda _store, task: methods(task),
    ("run", "task"): lambda _store, _task: tasks(),
    ("score", "task"): lambda _store, _task: tasks(),
    ("describe", "method"): lambda _store, _task: methods("hpatches/matching"),
    ("get", "name"): lambda _store, _task: datasets(),
    ("ls", "method"): stored_methods,
    ("rm", "runs"): stored_run_ids,
    ("rename", "old"): stored_methods,
    ("export", "name"): keypoint_sets,
    ("intersect", "first"): keypoint_sets,
    ("intersect", "second"): keypoint_sets,
    ("subset", "source"): keypoint_sets,
}


def complete(app: typer.Typer, build: Callable[[], Any]) -> int:
    """Answer the shell on standard output; whatever goes wrong, nothing else is printed."""
    answer, code = io.StringIO(), 0
    nowhere = io.StringIO()
    with contextlib.suppress(Exception), contextlib.redirect_stderr(nowhere):
        attach(app)
        root = build()
        begun = _rejoined()
        try:
            with contextlib.redirect_stdout(answer):
                root.main(args=[], prog_name="tiepoint", standalone_mode=False)
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0
        text = answer.getvalue()
        if begun:
            text = "".join(f"{line.removeprefix(begun)}\n" for line in text.splitlines())
        sys.stdout.write(text)
        sys.stdout.flush()
    return code


def attach(app: typer.Typer) -> None:
    """Give the parameters of every command their names."""
    for info in app.registered_commands:
        function = info.callback
        defaults = getattr(function, "__defaults__", None) or ()
        names = function.__code__.co_varnames[: function.__code__.co_argcount] if function else ()
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            found = _OF_A_COMMAND.get((info.name or "", name), _EVERYWHERE.get(name))
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
            said = before.split(",")
            return [before + comma + n for n in known if n not in said and _WHOLE.fullmatch(n)]
        return []

    return found


def _rejoined() -> str:
    """Words that bash has broken at ``=`` and ``:`` as one again; what of the last one is there already."""
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
