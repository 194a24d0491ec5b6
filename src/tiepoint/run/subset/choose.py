# SPDX-License-Identifier: BSD-3-Clause
"""Choose informative subsets from stored runs, and restrict prepared runs to them."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.errors import InputError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_json
from ...core.records import Records
from ...stats.subsets import DESIGNS, ORDERED, sample_units
from ...store.run_queries import load_runs
from ...store.store import Store
from ...store.stored_run import StoredRun, SubsetFacts, SubsetStratum, protocols_of
from ...tasks.base import Task, TaskData
from ...tasks.unit_values import NotRaceableError, UnitFacts
from ..preparation import PreparedRun
from ..race.replay import stored_records
from ..race.units import UnitScore, data_facts, stored_facts, unit_score

KIND = "informative"
ADVICE = (
    "a subset helps to estimate the score of a method and hardly a difference of two methods, because what "
    "the references predict cancels; to find out which method is ahead use `tiepoint race`"
)


@dataclass(frozen=True)
class SubsetRequest:
    """Request of a subset: n units of every stratum.

    `references` are names or ids of complete runs; empty for all of them. The units are chosen by the score
    of `metric` and `group`, by default the headline score.
    """

    n: int
    design: str = ORDERED
    seed: int = 0
    references: tuple[str, ...] = ()
    metric: str | None = None
    group: str | None = None

    def check(self) -> None:
        """Raise an error for impossible settings."""
        if self.n < 1:
            raise InputError(f"a subset needs at least 1 unit of every stratum, found {self.n}")
        if self.design not in DESIGNS:
            raise InputError(f"`design` is {self.design!r}; expected {' or '.join(DESIGNS)}")


def parse_subset(text: str) -> int:
    """Return the number of units of ``informative:NUMBER``.

    >>> parse_subset("informative:100")
    100
    """
    found = re.fullmatch(rf"{KIND}:(\d{{1,9}})", text)
    if found is None:
        raise InputError(f"`subset` is {text!r}; expected {KIND}:NUMBER, such as {KIND}:100")
    return int(found[1])


def reference_runs(
    store: Store, task: Task, protocol: str, dataset: str | None, names: Sequence[str] = ()
) -> dict[str, StoredRun]:
    """Return complete runs by method, the newest of each; by default all except reference methods.

    Raises:
        InputError: There is no complete run, or a named run does not fit.
    """
    runs = load_runs(store, task=task.name, singles=False) if store.exists else []
    fit = [
        run
        for run in runs
        if run.status == "done"
        and run.manifest.subset is None
        and run.manifest.method.canary is None
        and protocol in protocols_of(run)
        and (dataset is None or run.manifest.dataset.hash == dataset)
    ]
    if not names:
        found = {run.method: run for run in fit}
    else:
        found = {}
        for name in names:
            own = [run for run in fit if run.method == name or (len(name) >= 4 and run.id.startswith(name))]
            if not own:
                known = first_few(sorted({run.method for run in fit})) or "none"
                raise InputError(
                    f"reference {name!r} has no complete run of {task.name} under {protocol} on this data; "
                    f"complete runs: {known}"
                )
            found[own[-1].method] = own[-1]
    if not found:
        raise InputError(
            f"a subset needs a complete run of {task.name} under {protocol} on this data as reference; run a "
            "method on all units first"
        )
    return found


def choose_subset(
    request: SubsetRequest,
    task: Task,
    protocol: str,
    facts: Mapping[str, UnitFacts] | None,
    references: Mapping[str, StoredRun],
    store: Store,
    dataset: str,
) -> SubsetFacts:
    """Choose the units of a subset from the values of complete runs. `facts` describe all units."""
    request.check()
    try:
        score = unit_score(task, facts, protocol, request.metric, request.group)
    except NotRaceableError as e:
        raise InputError(str(e).replace("cannot be raced", "cannot be estimated from a subset")) from e
    comparison = task.comparison(protocol)
    values = {}
    for name, run in references.items():
        records = stored_records(store, run, comparison, protocol)
        own = unit_score(task, stored_facts(task, records), protocol, request.metric, request.group)
        if own.units.weights != score.units.weights:
            raise InputError(
                f"reference {name} has different units than this data; choose runs on the same data"
            )
        values[name] = _values(score, records)
    strata = _sampled(score, list(values.values()), request)
    listed = sorted((key, p) for s in strata.values() for key, p in zip(s.units, s.probability, strict=True))
    scores = [(score.metric, score.group)]
    if request.design == ORDERED:
        scores += _other_scores(score, facts or {}, next(iter(references.values())))
    return SubsetFacts(
        name=f"{KIND}-{request.n}-{hash_json([list(pair) for pair in listed])[:8]}",
        design=request.design,
        n=request.n,
        seed=request.seed,
        protocol=protocol,
        metric=score.metric,
        group=score.group,
        unit=score.units.unit,
        total=len(score.units.weights),
        dataset=dataset,
        references={name: run.id for name, run in references.items()},
        strata=strata,
        scores=tuple(scores),
    )


def _values(score: UnitScore, records: Mapping[str, Records]) -> dict[str, float]:
    """Return the unit values of a run as values of the metric, not oriented to 1 = best."""
    found = score.values(records)
    return {key: 1.0 - v for key, v in found.items()} if score.lower else found


def _sampled(
    score: UnitScore, references: Sequence[Mapping[str, float]], request: SubsetRequest
) -> dict[str, SubsetStratum]:
    members: dict[str, list[str]] = {}
    for key in score.units.weights:
        members.setdefault(score.units.strata[key], []).append(key)
    made = {}
    for stratum, keys in members.items():
        weights = [score.units.weights[key] for key in keys]
        if max(weights) - min(weights) > 1e-12:
            raise InputError(
                f"the {score.units.unit}s of {score.metric} have different weights, so a subset cannot be "
                "sampled from them; choose another score"
            )
        sample = sample_units(
            [{key: own[key] for key in keys} for own in references],
            request.n, design=request.design, seed=request.seed, stratum=stratum,
        )  # fmt: skip
        made[stratum] = SubsetStratum(
            size=sample.size,
            weight=sum(weights),
            units=sample.units,
            probability=sample.probability,
            expected=sample.expected,
            expected_mean=sample.expected_mean,
        )
    return made


def _other_scores(
    score: UnitScore, facts: Mapping[str, UnitFacts], reference: StoredRun
) -> list[tuple[str, str]]:
    """Return the other scores of a reference run that are means over the same units with the same weights."""
    found = []
    seen = {(score.metric, score.group)}
    for row in reference.scores:
        column = (row.metric, row.group)
        if row.protocol != score.protocol or column in seen:
            continue
        seen.add(column)
        try:
            other = unit_score(score.task, facts, score.protocol, *column)
        except (NotRaceableError, InputError):
            continue
        if other.units.weights == score.units.weights:
            found.append(column)
    return found


def restrict_to_subset(
    prepared: Sequence[PreparedRun], request: SubsetRequest, store: Store
) -> list[PreparedRun]:
    """Return prepared runs on a subset of their units, chosen from stored complete runs.

    Runs on the same data get the same subset.
    """
    request.check()
    chosen: dict[tuple[str, str], tuple[SubsetFacts, Mapping[str, StoredRun]]] = {}
    made = []
    for one in prepared:
        if len(one.protocols) > 1:
            raise InputError(f"a subset is for one protocol, found {', '.join(one.protocols)}; choose one")
        task, opened, (protocol,) = one.task, one.opened, one.protocols
        place = (task.name, opened.data_hash)
        if place not in chosen:
            references = reference_runs(store, task, protocol, opened.data_hash, request.references)
            facts = data_facts(task, opened)
            found = choose_subset(request, task, protocol, facts, references, store, opened.data_hash)
            chosen[place] = found, references
        subset, complete = chosen[place]
        notices = (*one.notices, *subset_notices(subset, one, complete))
        made.append(replace(one, opened=_restricted(opened, subset), subset=subset, notices=notices))
    return made


def _restricted(opened: TaskData, subset: SubsetFacts) -> TaskData:
    """Return task data with only the units and items of a subset."""
    chosen = set(subset.units)
    units = tuple(unit for unit in opened.units if unit.key in chosen)
    used = {item for unit in units for item in unit.items}
    made = copy.copy(opened)
    vars(made).update(
        units=units,
        items=tuple(item for item in opened.items if item.key in used),
        data_hash=hash_json([opened.data_hash, subset.name]),
    )
    return made


def subset_notices(
    subset: SubsetFacts, prepared: PreparedRun, references: Mapping[str, StoredRun]
) -> list[str]:
    """Return notes on how a subset was chosen and what it is for, and whether the method is a reference."""
    notices = [
        f"{subset.name}: {count_text(len(subset.units), subset.unit)} of {subset.total:,}, "
        f"{subset.design}, chosen by {first_few(list(subset.references))}; {ADVICE}"
    ]
    own = hash_json(dict(prepared.method.config))
    if any(hash_json(run.manifest.method.config) == own for run in references.values()):
        notices.append(
            f"{prepared.method.name} is one of the references that chose the units, so its interval "
            "does not hold; do not choose or tune methods on a subset that estimates their scores"
        )
    return notices
