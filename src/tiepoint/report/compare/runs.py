# SPDX-License-Identifier: BSD-3-Clause
"""Compare stored runs by their scores and scene values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...core.hashing import hash_json
from ...core.scores import ScoreRow
from ...run.result import Run
from ...stats.paired import SIGN_FLIP
from ...tasks import stored_task
from ...tasks.base import Task
from ...tasks.info import MetricInfo, headline_column, metric_info
from ..runs.lazy_records import scene_tables
from ..runs.names import data_names, distinct_names, options_of
from ..runs.sections import is_canary, is_single
from ..runs.selection import split_summary
from .by_units import (
    compare_on_subset,
    compare_over_pairs,
    is_over_pairs,
    named_runs,
    subset_of_runs,
)
from .common_units import with_common_units
from .comparability import (
    REMEDY,
    SCENES,
    VALUES,
    WEIGHTS,
    DifferingRunsError,
    check_differences,
    check_metadata,
)
from .comparison import Comparison, MethodRow
from .margin import reference_of
from .methods import compare_methods
from .protocol_order import order_sentence, protocol_scores

ALLOWED = ("dataset", "lists", "split", SCENES, VALUES, WEIGHTS, "all")
"""Differences between compared runs that a caller may allow."""

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
    test: str = SIGN_FLIP,
    margin: float | None = None,
) -> Comparison:
    """Compare runs of one task by a score, by default the task's headline score.

    Values are the stored scores of the runs. Intervals and tests come from their scene values. Runs with
    different data or pair lists raise an error unless `allow` names the difference (see `ALLOWED`). Methods
    that were scored on different queries of the same data are listed with a `caution` and not tested.

    Three sorts of runs are listed but not tested: reference methods (`constant`, `random`, `oracle`, unless
    one is the `baseline`), runs with a single value, and runs without scene values. Letters, ranks and
    p-values do not depend on them. `ranks_only` skips intervals and differences to the baseline. `test` is
    `sign-flip` or `bootstrap-t`. `margin` tests whether each method loses at most that much against the
    baseline. Without a baseline, it requires two runs, and the second is the baseline.

    Raises:
        InputError: There are no runs, the runs have several tasks, or a run lacks the protocol or the score.
    """
    runs = list({r.id: r for r in runs}.values())
    if not runs:
        raise InputError("the store has no finished runs to compare; run a method on a task first")
    tasks = sorted({r.task for r in runs})
    if len(tasks) > 1:
        raise InputError(
            f"runs of different tasks cannot be compared: {', '.join(tasks)}; name one with `task`"
        )
    for key in allow:
        if key not in ALLOWED:
            raise UnknownNameError("difference to allow", key, ALLOWED)
    subset = subset_of_runs(runs)
    if subset is not None:
        named = named_runs(runs)
        if margin is not None:
            raise InputError(
                "`margin` needs complete runs, because a subset has no values by scene; omit `margin`"
            )
        base = None if baseline is None else _table_name(baseline, named)
        about: dict[str, Any] = {"metric": metric, "group": group, "protocol": protocol, "baseline": base}
        return compare_on_subset(named, subset, **about)
    protocol = protocol or shared_protocol(runs)
    runs, common = with_common_units(runs, protocol, allow)
    how = {"ranks_only": ranks_only, "test": test, "margin": margin}
    found = _compare_complete(runs, metric, group, protocol, baseline, allow, how)
    return replace(found, notes=(*common, *found.notes))


def _compare_complete(
    runs: Sequence[Run],
    metric: str | None,
    group: str | None,
    protocol: str,
    baseline: str | None,
    allow: Collection[str],
    how: Mapping[str, Any],
) -> Comparison:
    """Compare runs on all units. `how` has `ranks_only`, `test` and `margin`."""
    margin = how["margin"]
    task = stored_task(runs[0].task)
    known = {*task.protocols, *(p for r in runs for p in _protocols(r))}
    if protocol not in known:
        raise UnknownNameError(f"protocol of {task.name}", protocol, known)
    named = named_runs(runs)
    if margin is not None and baseline is None:
        baseline = reference_of(list(named))
    scores = {name: _scores(name, run, protocol) for name, run in named.items()}
    metric, group = _choose_score(task, scores, metric, group)
    baseline = None if baseline is None else _table_name(baseline, named)
    chosen = {name: _score(name, s, metric, group) for name, s in scores.items()}
    if is_over_pairs(group):
        if margin is not None:
            raise InputError("`margin` needs a test over scenes or sets; choose a group without cluster=pair")
        told = check_metadata(
            {name: _meta(run) for name, run in named.items()}, allow, _remedy(list(named), runs)
        )
        return compare_over_pairs(
            named, chosen, protocol=protocol, metric=metric, group=group, baseline=baseline,
            notes=told,
        )  # fmt: skip
    classes = _classify(named, chosen, baseline)
    if baseline is not None and baseline not in classes.tables:
        raise InputError(f"baseline {baseline} has no scene values to test against; choose another baseline")
    info = metric_info(task.info, metric)
    score: dict[str, Any] = {
        "task": task.name,
        "metric": metric,
        "group": group,
        "protocol": protocol,
        "higher_is_better": not info.lower,
    }
    remedy = _remedy(list(named), runs)
    imported = {name for name, run in named.items() if _is_unknown(run)}
    comparison, notes = None, []
    if not classes.tables:
        own = [n for n in (*classes.numbers, *classes.without_values) if n not in imported]
        notes = check_metadata({n: _meta(named[n]) for n in own}, allow, remedy)
    if foreign := [name for name in classes.numbers if name in imported]:
        notes += _check_imported(named, foreign, allow, remedy)
    if classes.tables:
        try:
            comparison = compare_methods(
                classes.tables,
                baseline=baseline,
                values=classes.values,
                meta={name: _meta(named[name]) for name in classes.tables},
                allow=allow,
                remedy=remedy,
                bounded=info.bounded,
                **how,
                **score,
            )
        except DifferingRunsError as e:
            if margin is not None or not set(e.keys) <= _from_methods([named[n] for n in classes.tables]):
                raise
            score["caution"] = f"the methods are scored on different queries: {'; '.join(e.problems)}"
            classes.untested += [_untested_row(name, chosen[name]) for name in classes.tables]
    if comparison is None:
        comparison = Comparison((), percent=_percent(info, classes.untested), **score)
    rows = [*comparison.rows, *classes.untested]
    rows.sort(key=lambda r: r.value, reverse=comparison.higher_is_better)
    rows = [replace(r, run=named[r.method].id, base_name=named[r.method].method) for r in rows]
    ids = {run.id: name for name, run in named.items()}
    order = order_sentence(protocol_scores(ids, runs, metric, group, protocol), lower=info.lower)
    notes += [*comparison.notes, *_shift(comparison, classes.values), *classes.notes()]
    notes += [order.removesuffix(".")] if order else []
    cautions = {name: text for name, run in named.items() if (text := run.manifest.caution)}
    return replace(comparison, rows=tuple(rows), notes=tuple(notes), cautions=cautions)


def _from_methods(runs: Sequence[Run]) -> set[str]:
    """Return the kinds of differences that methods can cause on the same data, pair lists and options.

    A method that finds other keypoints has other queries, so scenes have other weights. It may lack values
    or scenes. Keypoint methods and pair matchers process different items, so their pair lists differ.
    """
    if any(r.manifest.is_imported for r in runs):
        return {WEIGHTS}
    facts = [
        hash_json([m.dataset.hash, m.split, options_of(r), sorted(m.units)])
        for r in runs
        for m in [r.manifest]
    ]
    if len(set(facts)) > 1:
        return {WEIGHTS}
    lists: dict[str, set[str]] = {}
    for r in runs:
        lists.setdefault(r.manifest.method.family, set()).add(r.manifest.lists)
    own_lists = {"lists"} if all(len(own) == 1 for own in lists.values()) else set()
    return {WEIGHTS, VALUES, SCENES} | own_lists


def _untested_row(name: str, score: ScoreRow) -> MethodRow:
    assert score.value is not None
    return MethodRow(name, score.value, score.low, score.high, tested=False)


def _percent(info: MetricInfo, rows: Sequence[MethodRow]) -> bool:
    """Return whether scores are shown in percent, which requires fractions between 0 and 1."""
    return info.bounded is not False and all(0 <= r.value <= 1 for r in rows)


def _table_name(baseline: str, named: Mapping[str, Run]) -> str:
    """Return the table name of a baseline that is given as table name, method name or run id."""
    if baseline in named:
        return baseline
    names = [name for name, run in named.items() if run.method == baseline]
    if not names and len(baseline) >= 4:
        names = [name for name, run in named.items() if run.id.startswith(baseline)]
    if not names:
        raise UnknownNameError("baseline", baseline, named)
    if len(names) > 1:
        choices = ", ".join(f"{name!r} ({named[name].id})" for name in sorted(names))
        raise InputError(
            f"baseline {baseline!r} matches {len(names)} runs; choose one of these names or ids: {choices}"
        )
    return names[0]


def _shift(c: Comparison, stored: Mapping[str, float]) -> list[str]:
    """Return a note if compared scores differ from the stored ones because duplicate scenes count once."""
    distance = max((abs(r.value - stored[r.method]) for r in c.rows), default=0.0)
    if distance < 1e-9 or not any("are the same scene" in n for n in c.notes):
        return []
    size = f"{100 * distance:.2g} points" if c.percent else f"{distance:.2g}"
    return [
        f"this comparison counts them once, so its values and differences lie up to {size} from the "
        "stored scores, which count them as often as the dataset has them"
    ]


@dataclass
class _Classes:
    """Tested runs (`tables`, `values`) and the rows of runs that are not tested."""

    tables: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    untested: list[MethodRow] = field(default_factory=list)
    canaries: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    without_values: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return the reasons why runs are not tested."""
        notes = []
        if self.canaries:
            notes.append(f"canaries are not tested: {first_few(self.canaries)}")
        if self.numbers:
            notes.append(f"runs without scene values cannot be tested: {first_few(self.numbers)}")
        notes += self.reasons
        if self.without_values:
            notes.append(
                f"the scene values that tests need are missing in {first_few(self.without_values)}; "
                "run the method again to compute them"
            )
        if self.empty:
            notes.append(f"runs without a value of this score are excluded: {first_few(self.empty)}")
        return notes


def _classify(named: Mapping[str, Run], scores: Mapping[str, ScoreRow], baseline: str | None) -> _Classes:
    found = _Classes()
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
            about = [part for part in (score.note or "").split("; ") if "exact area" in part]
            found.reasons += [text for text in about if text not in found.reasons]
            continue
        found.untested.append(_untested_row(name, score))
        (found.canaries if canary else found.without_values if tables is None else found.numbers).append(name)
        if not canary and tables:
            found.reasons += [text for text in _reasons(score, tables) if text not in found.reasons]
    return found


def _reasons(score: ScoreRow, tables: Mapping[tuple[str, str], Any]) -> list[str]:
    """Return why a score has no interval over scenes, and the groups of the same metric that have one."""
    parts = [part for part in (score.note or "").split("; ") if "interval" in part]
    groups = [group for metric, group in tables if metric == score.metric and _threshold(group, score.group)]
    groups.sort(key=lambda group: "cluster=" not in group)
    return [*parts, *([f"groups with intervals: {first_few(groups, 3)}"] if parts and groups else [])]


def _threshold(group: str, like: str) -> bool:
    """Return whether a group has all ``key=value`` parts of the group `like`.

    >>> _threshold("cluster=set,threshold_deg=5", "threshold_deg=5"), _threshold("all", "threshold_deg=5")
    (True, False)
    """
    return set(like.split(",")) <= set(group.split(","))


def shared_protocol(runs: Sequence[Run]) -> str:
    """Return the default protocol of a comparison.

    The default is a protocol that all runs have, preferably `exact`. If the runs share no protocol, it is the
    protocol of the imported results. Without imported results it is `exact` or the most frequent protocol.
    """
    have = [_protocols(r) for r in runs]
    foreign = [own for own, r in zip(have, runs, strict=True) if r.manifest.is_imported]
    every = [p for own in foreign or have for p in own]
    common = set.intersection(*have) if have else set()
    return min(common or every, key=lambda p: (p != "exact", -every.count(p), p), default="exact")


def under_protocol(runs: Sequence[Run], protocol: str) -> tuple[list[Run], list[str]]:
    """Return the runs that were scored under a protocol, and a note that lists all other runs."""
    scored = [r for r in runs if protocol in _protocols(r)]
    excluded = [
        f"{name} ({', '.join(sorted(_protocols(r)))})"
        for name, r in zip(distinct_names(runs), runs, strict=True)
        if protocol not in _protocols(r)
    ]
    if not scored or not excluded:
        return list(runs), []
    remedy = f'run them with `protocol="{protocol}"`'
    return scored, [f"excluded, because not scored under {protocol}: {first_few(excluded)}; {remedy}"]


def _protocols(run: Run) -> set[str]:
    return {s.protocol for s in run.score_rows}


def _scores(name: str, run: Run, protocol: str) -> Scores:
    found = {(s.metric, s.group): s for s in run.score_rows if s.protocol == protocol}
    if not found and run.manifest.is_imported:
        have = min(_protocols(run), default="")
        raise InputError(f'{name} is imported and was scored only under {have}; use `protocol="{have}"`')
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


def _choose_score(
    task: Task, scores: Mapping[str, Scores], metric: str | None, group: str | None
) -> tuple[str, str]:
    """Return the metric and group to compare by. Missing arguments get the task's defaults."""
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
        raise InputError(f"these runs of {task.name} have no score to compare; rerun the methods")
    if metric_info(task.info, best[0]).better is None:
        raise InputError(
            f"these runs of {task.name} have no score, only counts such as {best[0]}; run the methods on "
            "data with ground truth, or name a count with `metric`"
        )
    return best


def _remedy(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Return advice for runs that are not comparable: choose a split or a dataset, or rerun."""
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


def _check_imported(
    named: Mapping[str, Run], numbers: Sequence[str], allow: Collection[str], remedy: str
) -> list[str]:
    """Check that imported results without scenes have one split. Return notes about unknown properties."""
    splits = split_summary(list(named), list(named.values()))
    notes = check_differences([("split", f"split differs: {splits}")], allow, remedy) if splits else []
    if not all(r.manifest.is_imported for r in named.values()):
        notes.append(f"dataset and lists of {first_few(numbers)} are not known (imported)")
    return notes


def _is_unknown(run: Run) -> bool:
    """Return whether data and pair lists of a run are unknown: imported results without their pairs."""
    return run.manifest.is_imported and run.manifest.dataset.items is None


def _meta(run: Run) -> dict[str, Any]:
    if _is_unknown(run):
        return {"dataset": None, "lists": None}
    return {"dataset": run.manifest.dataset.hash, "lists": run.manifest.lists}
