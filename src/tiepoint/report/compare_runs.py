# SPDX-License-Identifier: BSD-3-Clause
"""Comparing stored runs: scene values from their records, then `compare`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..model.errors import InputError
from ..model.scores import Score
from ..run.result import Run
from .collect import LOWER_IS_BETTER, headline
from .compare import compare
from .comparison import Comparison
from .rescore import scores_of, shared_protocol, unique_names


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

    The protocol is `exact`, or, where no run has it (imported results), the one that all runs have.
    Runs whose data or lists differ are refused unless `allow` names what may differ. `rescore` gives the
    scores of a run with their scene values, where the caller has them; else they are made from the records.
    """
    if not runs:
        raise InputError("there are no runs to compare; `tiepoint list runs` shows what the store has")
    tasks = sorted({r.task for r in runs})
    if len(tasks) > 1:
        raise InputError(
            f"runs of different tasks cannot be compared: {', '.join(tasks)}; name one with --task"
        )
    protocol = protocol or shared_protocol(runs)
    names = unique_names(runs)
    give = rescore or (lambda run: scores_of(run, protocol))
    scored = {name: give(run) for name, run in zip(names, runs, strict=True)}
    metric, group = _chosen(tasks[0], scored, metric, group)
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
        if table is None:
            raise InputError(f"{metric!r} for {group!r} has no scene values, so it cannot be compared")
        tables[name] = table
        values[name] = score.value
    return compare(
        tables,
        baseline=baseline,
        values=values,
        task=tasks[0],
        metric=metric,
        group=group,
        protocol=protocol,
        higher_is_better=metric not in LOWER_IS_BETTER,
        meta={name: _meta(run) for name, run in zip(names, runs, strict=True)},
        allow=allow,
    )


def _chosen(
    task: str, scored: dict[str, list[Score]], metric: str | None, group: str | None
) -> tuple[str, str]:
    columns = list(
        dict.fromkeys(
            (s.metric, s.group) for found in scored.values() for s in found if "scene=" not in s.group
        )
    )
    if metric is not None:
        mine = [c for c in columns if c[0] == metric]
        best = headline(task, mine)
        return metric, group if group is not None else (best[1] if best else "all")
    best = headline(task, [c for c in columns if group in (None, c[1])])
    if best is None:
        raise InputError(f"{task} has no score to compare by")
    return best


def _meta(run: Run) -> dict[str, Any]:
    if run.manifest["dataset"].get("imported"):
        return {"dataset": None, "lists": None}
    return {"dataset": run.manifest["dataset"]["hash"], "lists": run.manifest.get("lists")}
