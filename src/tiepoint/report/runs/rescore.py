# SPDX-License-Identifier: BSD-3-Clause
"""Scores of stored runs with their scene values, made again from the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...model.errors import InputError, TiepointError
from ...model.records import Records
from ...model.scores import Score
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import Task
from .names import is_imported


def records_of(run: Run, task: Task, protocol: str) -> list[Records]:
    """The records of a run that a protocol scores; empty where it was not run under it."""
    if protocol not in task.protocols:
        return []
    comparison = task.comparison(protocol)
    return [by[comparison] for by in run.unit_records.values() if comparison in by]


def scores_of(run: Run, protocol: str) -> list[Score]:
    """The scores of a run with their scene values, from its records."""
    task = stored_task(run.task)
    if protocol not in task.protocols:
        raise InputError(f"{run.task} knows no protocol {protocol!r}; it has {', '.join(task.protocols)}")
    records = records_of(run, task, protocol)
    if not records and (kept := numbers_of(run, protocol)):
        return kept
    if not records:
        raise InputError(
            f"run {run.id} of {run.method} was not made under {protocol}; run it with --protocol {protocol}"
        )
    return task.score(records, protocol)


def numbers_of(run: Run, protocol: str) -> list[Score]:
    """The scores of imported results that came without records: numbers without scene values."""
    if not is_imported(run) or any(run.unit_records.values()):
        return []
    return [
        Score(str(s["metric"]), str(s["group"]), float(s["value"]), int(s["n"] or 0), protocol)
        for s in run.stored.scores
        if s["protocol"] == protocol and s["value"] is not None
    ]


def shared_protocol(runs: Sequence[Run]) -> str:
    """The protocol runs are compared under if none is named.

    Imported results can be scored under theirs only, so it is that one where all of them share it. Else
    `exact` if any run was scored under it, else the first protocol that all runs have, else `exact`.
    """
    have = [{str(s["protocol"]) for s in r.stored.scores} for r in runs]
    foreign = [h for h, r in zip(have, runs, strict=True) if is_imported(r)]
    if foreign and (theirs := set.intersection(*foreign)):
        return min(theirs)
    common = set.intersection(*have) if have else set()
    if any("exact" in h for h in have) or not common:
        return "exact"
    return min(common)


def opened_again(run: Run) -> Any:
    """The task of a run bound to its dataset, None where that is not there any more or has changed."""
    data = Path(run.manifest.dataset.path)
    if not run.manifest.dataset.path or not data.is_dir():
        return None
    try:
        return stored_task(run.task).open(data, run.manifest.options)
    except TiepointError:
        return None
