# SPDX-License-Identifier: BSD-3-Clause
"""Comparing stored runs: scene values from their records, then `compare`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ...model.errors import InputError, UnknownNameError
from ...model.scores import Score
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import Task
from ..runs.names import distinct_names, is_imported, some
from ..runs.rescore import scores_of, shared_protocol
from ..runs.splits import split_words
from .comparable import REMEDY, SCENES, VALUES, WEIGHTS, settle
from .methods import compare
from .result import Comparison
from .rows import beside, values_only

ALLOWED = ("dataset", "lists", "split", SCENES, VALUES, WEIGHTS, "all")
"""What may differ between runs that are compared."""


def compare_runs(
    runs: Sequence[Run],
    *,
    metric: str | None = None,
    group: str | None = None,
    protocol: str | None = None,
    baseline: str | None = None,
    allow: Collection[str] = (),
    rescore: Callable[[Run], list[Score]] | None = None,
) -> Comparison:
    """Compare runs of one task by a score; the task's headline score if none is named.

    The protocol is `exact`, or that of imported results, which can be scored under no other.
    Runs whose data or lists differ are refused unless `allow` names what may differ (`ALLOWED`). Runs with
    one number and no scene values are shown beside the others, without interval and test. `rescore` gives the
    scores of a run with their scene values, where the caller has them; else they are made from the records.
    """
    if not runs:
        raise InputError("there are no runs to compare; `tiepoint list runs` shows what the store has")
    tasks = sorted({r.task for r in runs})
    if len(tasks) > 1:
        raise InputError(
            f"runs of different tasks cannot be compared: {', '.join(tasks)}; name one with --task"
        )
    task = stored_task(tasks[0])
    protocol = protocol or shared_protocol(runs)
    for key in allow:
        if key not in ALLOWED:
            raise UnknownNameError("difference to allow", key, ALLOWED)
    names = distinct_names(runs)
    give = rescore or (lambda run: scores_of(run, protocol))
    scored = {name: give(run) for name, run in zip(names, runs, strict=True)}
    metric, group = _chosen(task, scored, metric, group)
    tables: dict[str, Any] = {}
    values: dict[str, float] = {}
    for name, found in scored.items():
        score = next((s for s in found if (s.metric, s.group) == (metric, group)), None)
        if score is None:
            known = ", ".join(
                sorted({f"{s.metric} ({s.group})" for s in found if "scene=" not in s.group})[:20]
            )
            raise InputError(f"{name} has no score {metric!r} for {group!r} under {protocol}; it has {known}")
        table = score.scenes if score.scenes is not None else score.pooled
        if table is not None:
            tables[name] = table
        values[name] = score.value
    untested = {name: v for name, v in values.items() if name not in tables}
    remedy = _remedy(names, runs)
    notes = _unchecked(names, runs, untested, allow, remedy) if untested else []
    if baseline in untested:
        raise InputError(f"{baseline} has no scene values, so nothing can be tested against it")
    words: dict[str, Any] = {
        "task": tasks[0],
        "metric": metric,
        "group": group,
        "protocol": protocol,
        "higher_is_better": not task.metric(metric).lower,
    }
    if not tables:
        return values_only(untested, notes=tuple(notes), **words)
    made = compare(
        tables,
        baseline=baseline,
        values={name: values[name] for name in tables},
        meta={name: _meta(run) for name, run in zip(names, runs, strict=True) if name in tables},
        allow=allow,
        remedy=remedy,
        **words,
    )
    return beside(replace(made, notes=(*notes, *made.notes)), untested)


def _remedy(names: Sequence[str], runs: Sequence[Run]) -> str:
    """What to do about runs that differ: choose a split, or repeat what can be repeated."""
    splits = split_words(names, runs)
    if splits:
        return f"choose one split with --split: {splits}"
    if any(is_imported(r) for r in runs):
        return "imported results cannot be repeated: run the others on the same scenes"
    return REMEDY


def _unchecked(
    names: Sequence[str], runs: Sequence[Run], untested: Collection[str], allow: Collection[str], remedy: str
) -> list[str]:
    """Where there are no scenes only the split can be checked; what else is not known is noted."""
    splits = split_words(names, runs)
    notes = settle([("split", f"split differs: {splits}")], allow, remedy) if splits else []
    if not all(is_imported(r) for r in runs):
        notes.append(f"dataset and lists of {some(list(untested))} are not known (imported)")
    return notes


def _chosen(
    task: Task, scored: dict[str, list[Score]], metric: str | None, group: str | None
) -> tuple[str, str]:
    columns = list(
        dict.fromkeys(
            (s.metric, s.group) for found in scored.values() for s in found if "scene=" not in s.group
        )
    )
    if metric is not None:
        mine = [c for c in columns if c[0] == metric]
        best = task.headline(mine)
        return metric, group if group is not None else (best[1] if best else "all")
    best = task.headline([c for c in columns if group in (None, c[1])])
    if best is None:
        raise InputError(f"{task.name} has no score to compare by")
    return best


def _meta(run: Run) -> dict[str, Any]:
    if is_imported(run):
        return {"dataset": None, "lists": None}
    return {"dataset": run.manifest.dataset.hash, "lists": run.manifest.lists}
