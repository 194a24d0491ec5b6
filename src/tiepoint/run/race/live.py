# SPDX-License-Identifier: BSD-3-Clause
"""Race methods that compute features and records. Cache keys equal those of runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...core.errors import InputError
from ...methods.base import Method
from ...store.maintenance.journal import FOLDER as JOURNAL_FOLDER
from ...store.maintenance.journal import finish_changes
from ...store.maintenance.usage import note_uses
from ...store.races import RacedMethod, StoredRace, race_id, same_question
from ...store.status_files import track_progress
from ...store.store import Store
from ...store.stored_run import Manifest, run_id
from ..compute import MIN_PARALLEL_WORK_S, ComputedRecords, compute_missing
from ..context import Progress, RunContext, no_progress, set_kernel_device
from ..engine import discard_if_files_changed
from ..preparation import PreparedRun, initial_manifest, make_context, prepare_all, worker_recipe
from ..request import RunRequest
from ..scoring import discard_damaged, read_intact_records
from ..session import RunSession
from .engine import OnStep, RaceSettings, make_question, no_step, run_race, stored_race
from .units import Plan, Step, UnitScore, data_facts, plan_race, unit_score


def race_methods(
    requests: Sequence[RunRequest],
    settings: RaceSettings,
    store: Store,
    progress: Progress = no_progress,
    *,
    cluster: Any = None,
    report: Callable[[str], None] = print,
    on_step: OnStep = no_step,
) -> StoredRace:
    """Race the methods of requests for one task, protocol and dataset. Store and return the race.

    A finished race is returned from the store. An interrupted race continues with the stored records.

    Raises:
        InputError: The score cannot be raced, there are fewer than two methods, or two methods are equal.
        UnitError: A unit failed. The race ends without a claim and continues when it is started again.
    """
    settings.check()
    methods = ", ".join(str(r.name or r.method) for r in requests)
    with (
        track_progress(store.root, f"race of {methods} on {requests[0].task}", progress) as progress,
        RunSession(store.root, cluster, report) as session,
    ):
        return _race(requests, settings, store, progress, session, on_step)


def _race(
    requests: Sequence[RunRequest],
    settings: RaceSettings,
    store: Store,
    progress: Progress,
    session: RunSession,
    on_step: OnStep,
) -> StoredRace:
    if len(requests) < 2:
        raise InputError(f"a race needs at least two methods, found {len(requests)}; add a method")
    prepared = prepare_all(requests, store.root, progress)
    first = prepared[0]
    protocol = first.protocols[0]
    facts = data_facts(first.task, first.opened)
    score = unit_score(first.task, facts, protocol, settings.metric, settings.group)
    plan = plan_race(score, settings.about, settings.seed)
    racers = _racers(prepared, store, session)
    described = [RacedMethod(name=r.name, run=run_id(r.manifest), spec=r.context.method.spec) for r in racers]
    facts_of_run = racers[0].manifest
    question = make_question(
        score, plan, settings, described,
        dataset=facts_of_run.dataset, options=facts_of_run.options, split=facts_of_run.split,
    )  # fmt: skip
    known = stored_race(store, question, settings)
    if known is not None:
        return known
    own = race_id(question, settings.alpha, settings.seed)
    others = same_question(store.root, question, own) if store.exists else []
    if others:
        nth = len(others) + 1
        session.report(f"race {nth} of this question; its error probabilities add up")
    if (store.root / JOURNAL_FOLDER).is_dir():
        finish_changes(store)
    note_uses(store, own, question.task, (k for r in racers for k in r.context.feature_keys.values()))
    set_kernel_device(first.request.method_options)
    for racer in racers:
        discard_damaged(racer.context)
    source = LiveSource(racers, score, store, session, progress, plan, settings)
    warnings = list(dict.fromkeys(w for r in racers for w in r.manifest.warnings))
    made = run_race(
        question, source.settings, score, plan, source,
        on_step=partial(_count, on_step, progress), store=store, warnings=warnings,
    )  # fmt: skip
    for racer in racers:
        discard_if_files_changed(racer.context)
    return made


def _count(on_step: OnStep, progress: Progress, running: Any) -> None:
    progress("race", running.race.steps, len(running.plan.steps))
    on_step(running)


class Racer:
    """A method in a race: its context, and the manifest that its run would have."""

    def __init__(self, name: str, prepared: PreparedRun, store: Store, session: RunSession) -> None:
        method, fit = prepared.fit_transforms(store.root)
        self.name, self.prepared = name, prepared
        self.context: RunContext = make_context(prepared, store, session, method)
        self.manifest: Manifest = initial_manifest(prepared, self.context.method, fit)
        if self.context.temporary_key is not None:
            raise InputError(
                f"{name}: its features cannot be cached, so a race could not resume; run the methods and "
                "race the stored runs with `replay`"
            )

    @property
    def method(self) -> Method:
        """Method that races."""
        return self.context.method


def _racers(prepared: Sequence[PreparedRun], store: Store, session: RunSession) -> list[Racer]:
    """Return the methods of a race under distinct names. Raise an error if two of them are equal."""
    names = [p.method.name for p in prepared]
    if len(set(names)) < len(names):
        names = [p.method.spec or p.method.name for p in prepared]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"method {twice!r} is in the race twice; remove one, or give objects different names"
        )
    racers = [Racer(name, one, store, session) for name, one in zip(names, prepared, strict=True)]
    seen: dict[tuple[Any, ...], str] = {}
    for racer in racers:
        own = (tuple(racer.context.feature_keys.values()), racer.context.method.distance)
        if own in seen:
            raise InputError(f"{seen[own]} and {racer.name} are equal by content; race different methods")
        seen[own] = racer.name
    return racers


class LiveSource:
    """Source of unit values that methods compute, in this process, in workers or on a cluster."""

    def __init__(
        self,
        racers: Sequence[Racer],
        score: UnitScore,
        store: Store,
        session: RunSession,
        progress: Progress,
        plan: Plan,
        settings: RaceSettings,
    ) -> None:
        self.racers = {racer.name: racer for racer in racers}
        self.score, self.store, self.session, self.progress = score, store, session, progress
        self.comparison = score.task.comparison(score.protocol)
        self.records: dict[str, dict[str, str]] = {name: {} for name in self.racers}
        self._cluster = session.connect([r.prepared for r in racers], store) if session.cluster else None
        self._numbers = {name: k for k, name in enumerate(self.racers)}
        self._recipes = {r.name: worker_recipe(r.prepared.request, r.method, store) for r in racers}
        self._spent_s = 0.0
        jobs = racers[0].prepared.request.jobs
        workers = jobs if self._cluster is None else self._cluster.executor.cluster.most
        self.settings = replace(settings, batch=settings.batch or max(1, workers))

    def values(self, steps: Sequence[Step], active: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Compute the units of some steps with all active methods. Return their values by method and unit."""
        keys = [key for step in steps for key in step.units]
        if self._cluster is not None:
            for name in active:
                racer = self.racers[name]
                units = [racer.context.units[key] for key in keys]
                self._cluster.submit_units(self._numbers[name], racer.prepared, racer.context, units)
        return {name: self._values_of(self.racers[name], keys) for name in active}

    def _values_of(self, racer: Racer, keys: Sequence[str]) -> Mapping[str, float]:
        started = time.perf_counter()
        collected = None if self._cluster is None else self._cluster.collect(self._numbers[racer.name])

        def compute() -> Mapping[str, Mapping[str, str]]:
            return self._compute(racer, keys).keys

        found = compute() if collected is None else collected.keys
        records, found, repairs = read_intact_records(self.store.records, found, compute)
        for message in repairs:
            self.session.report(message)
        self._spent_s += time.perf_counter() - started
        self.records[racer.name].update({key: found[key][self.comparison] for key in keys})
        return self.score.values({key: records[key][self.comparison] for key in keys})

    def _compute(self, racer: Racer, keys: Sequence[str]) -> ComputedRecords:
        units = [racer.context.units[key] for key in keys]
        # Workers start when the race has cost more than starting them is worth.
        late = self._spent_s > MIN_PARALLEL_WORK_S
        return compute_missing(
            racer.context,
            (self.score.protocol,),
            self.session.pool(racer.prepared.request.jobs),
            self._recipes[racer.name],
            no_progress,
            units=units,
            worth_s=0.0 if late else MIN_PARALLEL_WORK_S,
        )
