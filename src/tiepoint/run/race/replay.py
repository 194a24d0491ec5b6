# SPDX-License-Identifier: BSD-3-Clause
"""Race stored runs, and compare the work that the race needs with that of the complete runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...core.errors import InputError
from ...core.processes import cores
from ...core.records import Records
from ...store.races import RacedMethod, StoredRace, write_race
from ...store.store import Store
from ...store.stored_run import StoredRun
from ...tasks import load_task
from ...tasks.base import Task
from .engine import OnStep, RaceSettings, make_question, no_step, run_race
from .units import Step, UnitScore, plan_race, stored_facts, unit_score


def replay_runs(
    runs: Mapping[str, StoredRun],
    settings: RaceSettings,
    store: Store,
    protocol: str | None = None,
    *,
    keep: bool = False,
    on_step: OnStep = no_step,
) -> StoredRace:
    """Race complete stored runs by name, without their data.

    No features or records are computed. Nothing is written unless `keep` is set. The attribute `full` of the
    result has the scores of the complete runs.
    """
    settings.check()
    if len(runs) < 2:
        raise InputError(f"a race needs at least two methods, found {len(runs)}; add a run")
    first = next(iter(runs.values()))
    task = load_task(first.task)
    own = _protocol(task, list(runs.values()), protocol)
    _check_same_units(runs)
    comparison = task.comparison(own)
    records = {name: stored_records(store, run, comparison, own) for name, run in runs.items()}
    scores = {
        name: unit_score(task, stored_facts(task, found), own, settings.metric, settings.group)
        for name, found in records.items()
    }
    score = next(iter(scores.values()))
    for name, other in scores.items():
        if other.units.weights != score.units.weights:
            raise InputError(
                f"{name}: its units or their weights differ from those of {next(iter(runs))}; race "
                "runs on the same data"
            )
    source = StoredSource(score, records, {n: _keys(run, comparison) for n, run in runs.items()})
    plan = plan_race(score, settings.about, settings.seed)
    manifest = first.manifest
    described = [RacedMethod(name=n, run=run.id, spec=run.manifest.method.spec) for n, run in runs.items()]
    question = make_question(
        score, plan, settings, described,
        dataset=manifest.dataset, options=manifest.options, split=manifest.split,
    )  # fmt: skip
    made = run_race(question, settings, score, plan, source, on_step=on_step, replayed=True)
    made = made.model_copy(update={"full": source.full_scores()})
    if keep:
        write_race(store.root, made)
    return made


def _protocol(task: Task, runs: Sequence[StoredRun], wanted: str | None) -> str:
    shared = set.intersection(*({s.protocol for s in run.scores} for run in runs))
    if wanted is not None:
        if wanted not in shared:
            raise InputError(
                f"not all of these runs have scores under {wanted}; run all methods under {wanted} first"
            )
        return wanted
    chosen = next((p for p in task.protocols if p in shared), None)
    if chosen is None:
        raise InputError("these runs share no protocol; run all methods under one protocol first")
    return chosen


def _check_same_units(runs: Mapping[str, StoredRun]) -> None:
    """Raise an error if the runs differ in task, data or lists, or if two runs are equal."""
    names = list(runs)
    first = runs[names[0]]
    seen: dict[str, str] = {}
    for name, run in runs.items():
        if run.status != "done":
            raise InputError(f"run {run.id} of {name} failed; rerun the method first")
        for what, a, b in (
            ("task", first.task, run.task),
            ("dataset", first.manifest.dataset.hash, run.manifest.dataset.hash),
            ("pair lists", first.manifest.lists, run.manifest.lists),
        ):
            if a != b:
                raise InputError(
                    f"the runs of {names[0]} and {name} differ in their {what}; race runs with equal {what}"
                )
        own = str(sorted((unit, sorted(by.items())) for unit, by in run.manifest.units.items()))
        if own in seen:
            raise InputError(f"{seen[own]} and {name} are equal by content; race different methods")
        seen[own] = name


def _keys(run: StoredRun, comparison: str) -> dict[str, str]:
    return {unit: by[comparison] for unit, by in run.manifest.units.items() if comparison in by}


def stored_records(store: Store, run: StoredRun, comparison: str, protocol: str) -> dict[str, Records]:
    """Return the records of all units of a run. Raise an error if it has none under the protocol."""
    keys = _keys(run, comparison)
    if not keys or len(keys) < len(run.manifest.units):
        raise InputError(f"run {run.id} has no records under {protocol}; rerun the method first")
    with ThreadPoolExecutor(cores()) as pool:
        return dict(zip(keys, pool.map(store.records.get, keys.values()), strict=True))


class StoredSource:
    """Source of unit values from stored runs."""

    def __init__(
        self,
        score: UnitScore,
        records: Mapping[str, Mapping[str, Records]],
        keys: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.score, self._keys = score, keys
        self.records: dict[str, dict[str, str]] = {name: {} for name in records}
        self.by_unit = {name: score.values(found) for name, found in records.items()}
        for name, found in self.by_unit.items():
            if missing := sorted(set(score.units.weights) - set(found)):
                raise InputError(f"{name}: unit {missing[0]} has no value; rerun the method first")

    def values(self, steps: Sequence[Step], active: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return the stored values of the units of some steps, by active method and unit."""
        for name in active:
            own = self._keys[name]
            keys = [k for step in steps for k in step.units]
            # Imported results may have one record for all units.
            self.records[name].update({k: own[k] for k in keys} if own.keys() >= set(keys) else own)
        return {name: self.by_unit[name] for name in active}

    def full_scores(self) -> dict[str, float]:
        """Return the score of every run over all units, as a value of the metric."""
        weights = self.score.units.weights
        means = {n: math.fsum(w * v[k] for k, w in weights.items()) for n, v in self.by_unit.items()}
        return {n: 1.0 - m if self.score.lower else m for n, m in means.items()}
