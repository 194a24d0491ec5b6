# SPDX-License-Identifier: BSD-3-Clause
"""Compare runs by the values of their units: on a subset, or over the pairs of given scenes.

These comparisons have intervals but no tests, because they concern a fixed list of units instead of new
scenes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...run.race.units import UnitScore, stored_facts, unit_score
from ...run.result import Run
from ...run.subset_scores import subset_difference, subset_score
from ...stats.subsets import Z_95
from ...store.stored_run import SubsetFacts
from ...tasks import stored_task
from ...tasks.base import Task
from ...tasks.capabilities import unit_values_of
from ...tasks.info import MetricInfo, metric_info
from ..runs.names import distinct_names
from .comparison import Comparison, MethodRow, UnitDifference

PAIRS = "cluster=pair"
PAIRS_DESIGN = (
    "Intervals: 95 %, normal, over other pairs of these scenes. They say nothing about other scenes, and "
    "nothing is tested."
)


def is_over_pairs(group: str) -> bool:
    """Return whether a group requests intervals over pairs instead of scenes.

    >>> is_over_pairs("cluster=pair,threshold_deg=5"), is_over_pairs("all")
    (True, False)
    """
    return PAIRS in group.split(",")


def subset_of_runs(runs: Sequence[Run]) -> SubsetFacts | None:
    """Return the subset of runs; None if all are complete. Raise an error for runs of several subsets."""
    found = {r.manifest.subset.name: r.manifest.subset for r in runs if r.manifest.subset is not None}
    if len(found) > 1:
        raise InputError(
            f"runs of different subsets cannot be compared: {', '.join(sorted(found))}; "
            "choose one with `subset`"
        )
    return next(iter(found.values()), None)


def compare_on_subset(
    named: Mapping[str, Run],
    subset: SubsetFacts,
    *,
    metric: str | None,
    group: str | None,
    protocol: str | None,
    baseline: str | None,
) -> Comparison:
    """Compare runs of a subset, and complete runs restricted to its units, by paired estimates."""
    task = stored_task(next(iter(named.values())).task)
    if protocol not in (None, subset.protocol):
        raise InputError(f"{subset.name} is for protocol {subset.protocol}, not {protocol}; omit `protocol`")
    chosen = task.info.other_names.get(metric, metric) if metric else subset.metric
    own = group or next((g for m, g in subset.scores if m == chosen), "all")
    if (chosen, own) not in subset.scores:
        known = sorted({f"{m} {g}" for m, g in subset.scores})
        raise UnknownNameError(f"score of {subset.name}", f"{chosen} {own}", known)
    values = {name: subset_values(task, run, subset, chosen, own) for name, run in named.items()}
    info = metric_info(task.info, chosen)
    rows = []
    for name, run in named.items():
        score = subset_score(subset, values[name], chosen, own)
        rows.append(_row(name, run, score.value, score.low, score.high))
    complete = [
        f"{name}{_complete_score(run, subset.protocol, chosen, own, info)}"
        for name, run in named.items()
        if run.manifest.subset is None
    ]
    restricted = first_few(complete)
    notes = [f"complete runs, restricted to the units of the subset: {restricted}"] if complete else []
    references = [name for name, run in named.items() if run.id in subset.references.values()]
    if references:
        names = first_few(references)
        notes.append(
            f"the intervals of references do not hold, because these methods chose the units: {names}"
        )
    design = (
        f"Intervals: 95 %, about the complete benchmark, from {len(subset.units):,} of {subset.total:,} "
        f"{subset.unit}s ({subset.name}, {subset.design}). They say nothing about new scenes: comparing by "
        "scenes needs complete runs. A subset hardly helps to compare methods; use `tiepoint race`."
    )

    def difference(first: str, second: str) -> tuple[float, float | None]:
        return subset_difference(subset, values[first], values[second])

    about = (chosen, own, subset.protocol)
    return _assembled(task, about, rows, difference, baseline, design, notes)


def compare_over_pairs(
    named: Mapping[str, Run],
    scores: Mapping[str, Any],
    *,
    protocol: str,
    metric: str,
    group: str,
    baseline: str | None,
    notes: Sequence[str],
) -> Comparison:
    """Compare runs with intervals from the spread of pairs within strata, such as the sets of a benchmark."""
    task = stored_task(next(iter(named.values())).task)
    plain = ",".join(part for part in group.split(",") if part != PAIRS) or "all"
    found = {name: _unit_values(task, run, protocol, metric, plain) for name, run in named.items()}
    score = next(iter(found.values()))[0]
    for name, (other, _) in found.items():
        if other.units.weights != score.units.weights:
            raise InputError(
                f"{name} has different pairs than the first method; compare runs on the same pairs"
            )
    rows = [
        _row(name, run, scores[name].value, scores[name].low, scores[name].high)
        for name, run in named.items()
    ]

    def difference(first: str, second: str) -> tuple[float, float | None]:
        return _stratified(score, found[first][1], found[second][1])

    return _assembled(task, (metric, group, protocol), rows, difference, baseline, PAIRS_DESIGN, notes)


def _stratified(
    score: UnitScore, first: Mapping[str, float], second: Mapping[str, float]
) -> tuple[float, float | None]:
    """Return the difference first - second and its standard error over pairs within strata."""
    members: dict[str, list[str]] = {}
    for key in score.units.weights:
        members.setdefault(score.units.strata[key], []).append(key)
    sign = -1.0 if score.lower else 1.0
    total, squares = 0.0, 0.0
    for keys in members.values():
        weight = sum(score.units.weights[key] for key in keys)
        gap = np.array([first[key] - second[key] for key in keys])
        total += weight * float(gap.mean())
        squares += weight**2 * float(gap.var(ddof=1)) / len(gap) if len(gap) > 1 else math.nan
    return sign * total, None if math.isnan(squares) else math.sqrt(squares)


def _unit_values(
    task: Task, run: Run, protocol: str, metric: str, group: str
) -> tuple[UnitScore, Mapping[str, float]]:
    comparison = task.comparison(protocol)
    records = {unit: by[comparison] for unit, by in run.unit_records.items() if comparison in by}
    score = unit_score(task, stored_facts(task, records), protocol, metric, group)
    return score, score.values(records)


def subset_values(task: Task, run: Run, subset: SubsetFacts, metric: str, group: str) -> Mapping[str, float]:
    """Return the unit values of a run on a subset, or of a complete run on the units of the subset."""
    if run.manifest.subset is None and run.manifest.dataset.hash != subset.dataset:
        raise InputError(
            f"run {run.id} of {run.method} is on different data than {subset.name}; choose runs on the "
            "same data"
        )
    comparison = task.comparison(subset.protocol)
    # Imported results have one record for all units.
    keys = subset.units if set(subset.units) <= set(run.unit_records) else tuple(run.unit_records)
    records = {k: run.unit_records[k][comparison] for k in keys if comparison in run.unit_records[k]}
    if not records:
        raise InputError(
            f"run {run.id} of {run.method} has no records under {subset.protocol}; rerun the method"
        )
    return unit_values_of(task, records, subset.protocol, metric, group)


def _complete_score(run: Run, protocol: str, metric: str, group: str, info: MetricInfo) -> str:
    """Return the stored score of a complete run as text."""
    factor, symbol = info.scale
    of = (protocol, metric, group)
    value = next((s.value for s in run.score_rows if (s.protocol, s.metric, s.group) == of), None)
    return "" if value is None else f" ({factor * value:.2f} {symbol} on all units)"


def _row(name: str, run: Run, value: float, low: float | None, high: float | None) -> MethodRow:
    return MethodRow(name, value, low, high, tested=False, run=run.id, base_name=run.method)


def _assembled(
    task: Task,
    about: tuple[str, str, str],
    rows: list[MethodRow],
    difference: Any,
    baseline: str | None,
    design: str,
    notes: Sequence[str],
) -> Comparison:
    metric, group, protocol = about
    info = metric_info(task.info, metric)
    rows.sort(key=lambda r: r.value, reverse=not info.lower)
    base = baseline or rows[0].method
    differences = []
    for row in rows:
        if row.method != base:
            value, se = difference(row.method, base)
            low, high = (None, None) if se is None else (value - Z_95 * se, value + Z_95 * se)
            differences.append(UnitDifference(row.method, base, value, low, high))
    return Comparison(
        tuple(rows), task.name, metric, group, protocol, not info.lower, info.bounded is not False,
        baseline=base, baseline_given=baseline is not None, design=design,
        unit_differences=tuple(differences), notes=tuple(notes),
    )  # fmt: skip


def named_runs(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by their distinct names."""
    return dict(zip(distinct_names(runs), runs, strict=True))
