# SPDX-License-Identifier: BSD-3-Clause
"""Comparing stored runs by the scores and scene values they hold; the one way for tables and reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...core.hashing import hash_json
from ...core.scores import ScoreRow
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import Task
from ...tasks.info import headline_column, metric_info
from ..runs.lazy_records import scene_tables
from ..runs.names import data_names, distinct_names, options_of
from ..runs.sections import is_canary, is_single
from ..runs.selection import split_summary
from .comparability import REMEDY, SCENES, VALUES, WEIGHTS, check_differences, check_metadata
from .comparison import Comparison, MethodRow
from .methods import compare_methods

ALLOWED = ("dataset", "lists", "split", SCENES, VALUES, WEIGHTS, "all")
"""What may differ between runs that are compared."""

Scores = dict[tuple[str, str], ScoreRow]


def compare_runs(
    runs: Sequence[Run],
    *,
    metric: str | None = None,
    group: str | None = None,
    protocol: str | None = None,
    baseline: str | None = None,
    allow: Collection[str] = (),
    ranks_only: bool = False,
) -> Comparison:
    """Compare runs of one task by a score; the task's headline score if none is named.

    What is printed is what is stored: values come from the scores of the runs, intervals and tests from the
    scene values behind them. Runs whose data or lists differ are refused unless `allow` names what may differ
    (`ALLOWED`). Three sorts of runs stand in the table without being tested: canaries (`constant`, `random`,
    `oracle`; one that is the `baseline` is tested), runs of which one number is known, and runs stored
    without scene values. They belong to no family, so that no letter, rank or p-value depends on them. With
    `ranks_only` intervals and differences to the baseline are left out.

    Raises:
        InputError: no runs, runs of several tasks, a run without the protocol or the score.
    """
    runs = list({r.id: r for r in runs}.values())
    if not runs:
        raise InputError("there are no finished runs to compare in this store")
    tasks = sorted({r.task for r in runs})
    if len(tasks) > 1:
        raise InputError(
            f"runs of different tasks cannot be compared: {', '.join(tasks)}; name one with `task`"
        )
    for key in allow:
        if key not in ALLOWED:
            raise UnknownNameError("difference to allow", key, ALLOWED)
    protocol = protocol or shared_protocol(runs)
    task = stored_task(tasks[0])
    known = {*task.protocols, *(p for r in runs for p in _protocols(r))}
    if protocol not in known:
        raise UnknownNameError(f"protocol of {task.name}", protocol, known)
    named = dict(zip(distinct_names(runs), runs, strict=True))
    scores = {name: _scores(name, run, protocol) for name, run in named.items()}
    metric, group = _chosen(task, scores, metric, group)
    baseline = None if baseline is None else _called(baseline, named)
    sorted_ = _sorted(named, {name: _score(name, s, metric, group) for name, s in scores.items()}, baseline)
    if baseline is not None and baseline not in sorted_.tables:
        raise InputError(f"{baseline} has no scene values, so nothing can be tested against it")
    words: dict[str, Any] = {
        "task": task.name,
        "metric": metric,
        "group": group,
        "protocol": protocol,
        "higher_is_better": not metric_info(task.info, metric).lower,
    }
    remedy = _remedy(list(named), runs)
    own = [
        name for name in (*sorted_.numbers, *sorted_.without_values) if not named[name].manifest.is_imported
    ]
    notes = check_metadata({n: _meta(named[n]) for n in own}, allow, remedy) if not sorted_.tables else []
    foreign = [name for name in sorted_.numbers if named[name].manifest.is_imported]
    notes += _unchecked(named, foreign, allow, remedy) if foreign else []
    if sorted_.tables:
        made = compare_methods(
            sorted_.tables,
            baseline=baseline,
            values=sorted_.values,
            meta={name: _meta(named[name]) for name in sorted_.tables},
            allow=allow,
            remedy=remedy,
            ranks_only=ranks_only,
            **words,
        )
    else:
        made = Comparison((), percent=all(0 <= r.value <= 1 for r in sorted_.untested), **words)
    sign = -1.0 if made.higher_is_better else 1.0
    ordered = sorted([*made.rows, *sorted_.untested], key=lambda r: sign * r.value)
    rows = (replace(r, run=named[r.method].id, base_name=named[r.method].method) for r in ordered)
    shift = _shift(made, sorted_.values)
    return replace(made, rows=tuple(rows), notes=(*notes, *made.notes, *shift, *sorted_.notes()))


def _called(baseline: str, named: Mapping[str, Run]) -> str:
    """The name in the table of a method: itself, or what the table calls a method or the run with this id."""
    if baseline in named:
        return baseline
    found = [name for name, run in named.items() if run.method == baseline]
    if not found and len(baseline) >= 4:
        found = [name for name, run in named.items() if run.id.startswith(baseline)]
    if not found:
        raise UnknownNameError("baseline", baseline, named)
    if len(found) > 1:
        which = ", ".join(f"{name!r} ({named[name].id})" for name in sorted(found))
        raise InputError(
            f"baseline {baseline!r} fits {len(found)} runs; name one as here, or by its id: {which}"
        )
    return found[0]


def _shift(c: Comparison, stored: Mapping[str, float]) -> list[str]:
    """How far values lie from the stored scores because scenes that are the same count once."""
    apart = max((abs(r.value - stored[r.method]) for r in c.rows), default=0.0)
    if apart < 1e-9 or not any("are the same scene" in n for n in c.notes):
        return []
    size = f"{100 * apart:.2g} points" if c.percent else f"{apart:.2g}"
    return [
        f"values and differences of this comparison count them once, so they lie up to {size} from the "
        "stored scores, which count them as often as the dataset has them"
    ]


@dataclass
class _Sorted:
    """Runs by what their scores allow: `tables` and `values` of those that are tested, rows of the others."""

    tables: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    untested: list[MethodRow] = field(default_factory=list)
    canaries: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    without_values: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Why runs are not tested."""
        notes = []
        if self.canaries:
            notes.append(f"canaries are not tested: {first_few(self.canaries)}")
        if self.numbers:
            has = "has one number" if len(self.numbers) == 1 else "have one number each"
            notes.append(f"{first_few(self.numbers)} {has} and no scene values, so there is nothing to test")
        if self.without_values:
            lack = "lacks" if len(self.without_values) == 1 else "lack"
            notes.append(
                f"{first_few(self.without_values)} {lack} the scene values that tests need; "
                "run the method again to compute them"
            )
        if self.empty:
            notes.append(f"{first_few(self.empty)} left out: this score has no value there")
        return notes


def _sorted(named: Mapping[str, Run], scores: Mapping[str, ScoreRow], baseline: str | None) -> _Sorted:
    found = _Sorted()
    for name, run in named.items():
        score = scores[name]
        protocol, column = score.protocol, (score.metric, score.group)
        if score.value is None:
            found.empty.append(name)
            continue
        canary = is_canary(run) and name != baseline
        tables = {} if canary else scene_tables(run, protocol)
        if tables is not None and column in tables:
            found.tables[name], found.values[name] = tables[column], score.value
            continue
        row = MethodRow(name, score.value, score.low, score.high, tested=False)
        found.untested.append(row)
        (found.canaries if canary else found.without_values if tables is None else found.numbers).append(name)
    return found


def shared_protocol(runs: Sequence[Run]) -> str:
    """The protocol runs are compared under if none is named.

    One that all were scored under, `exact` before others. Where there is none it is that of imported results,
    which can be scored under no other; without any, `exact`, or the one most runs have.
    """
    have = [_protocols(r) for r in runs]
    foreign = [own for own, r in zip(have, runs, strict=True) if r.manifest.is_imported]
    every = [p for own in foreign or have for p in own]
    common = set.intersection(*have) if have else set()
    return min(common or every, key=lambda p: (p != "exact", -every.count(p), p), default="exact")


def under_protocol(runs: Sequence[Run], protocol: str) -> tuple[list[Run], list[str]]:
    """The runs that were scored under a protocol, and a note that names the others."""
    kept = [r for r in runs if protocol in _protocols(r)]
    left = [
        f"{name} ({', '.join(sorted(_protocols(r)))})"
        for name, r in zip(distinct_names(runs), runs, strict=True)
        if protocol not in _protocols(r)
    ]
    if not kept or not left:
        return list(runs), []
    how = f'run them with `protocol="{protocol}"`'
    return kept, [f"left out, because they were not scored under {protocol}: {first_few(left)}; {how}"]


def _protocols(run: Run) -> set[str]:
    return {s.protocol for s in run.score_rows}


def _scores(name: str, run: Run, protocol: str) -> Scores:
    found = {(s.metric, s.group): s for s in run.score_rows if s.protocol == protocol}
    if not found and run.manifest.is_imported:
        have = min(_protocols(run), default="")
        raise InputError(f'{name} is imported and was scored under {have} alone; use `protocol="{have}"`')
    if not found:
        raise InputError(
            f'run {run.id} of {name} was not scored under {protocol}; run it with `protocol="{protocol}"`'
        )
    return found


def _score(name: str, scores: Scores, metric: str, group: str) -> ScoreRow:
    if (metric, group) not in scores:
        under = f"of {name} under {next(iter(scores.values())).protocol}"
        groups = {g for m, g in scores if m == metric}
        if not groups:
            raise UnknownNameError(f"metric {under}", metric, {m for m, _ in scores})
        near = {g for g in groups if not is_single(g)} or groups
        raise UnknownNameError(f"group of {metric} {under}", group, near)
    return scores[metric, group]


def _chosen(
    task: Task, scores: Mapping[str, Scores], metric: str | None, group: str | None
) -> tuple[str, str]:
    columns = list(dict.fromkeys(c for own in scores.values() for c in own if not is_single(c[1])))
    if metric is not None:
        if not any(c[0] == metric for c in columns):
            metric = task.info.other_names.get(metric, metric)
        best = headline_column(task.info, [c for c in columns if c[0] == metric])
        return metric, group if group is not None else (best[1] if best else "all")
    best = headline_column(task.info, [c for c in columns if group in (None, c[1])])
    groups = {c[1] for c in columns}
    if best is None and group is not None and group not in groups:
        raise UnknownNameError(f"group of scores of {task.name}", group, groups)
    if best is None:
        raise InputError(f"{task.name} has no score to compare by")
    return best


def _remedy(names: Sequence[str], runs: Sequence[Run]) -> str:
    """What to do about runs that differ: choose a split or a dataset, or repeat what can be repeated."""
    splits = split_summary(names, runs)
    if splits:
        return f"choose one split with `split`: {splits}"
    if len(data := data_names(runs)) > 1:
        return f"choose one with `dataset`: {first_few(sorted(data.values()))}"
    if len({hash_json(options_of(r)) for r in runs if not r.manifest.is_imported}) > 1:
        return "name runs of the same options by their ids"
    if any(r.manifest.is_imported for r in runs):
        return "imported results cannot be repeated: run the others on the same scenes"
    return REMEDY


def _unchecked(
    named: Mapping[str, Run], numbers: Sequence[str], allow: Collection[str], remedy: str
) -> list[str]:
    """Where there are no scenes only the split can be checked; what else is not known is noted."""
    splits = split_summary(list(named), list(named.values()))
    notes = check_differences([("split", f"split differs: {splits}")], allow, remedy) if splits else []
    if not all(r.manifest.is_imported for r in named.values()):
        notes.append(f"dataset and lists of {first_few(numbers)} are not known (imported)")
    return notes


def _meta(run: Run) -> dict[str, Any]:
    if run.manifest.is_imported:
        return {"dataset": None, "lists": None}
    return {"dataset": run.manifest.dataset.hash, "lists": run.manifest.lists}
