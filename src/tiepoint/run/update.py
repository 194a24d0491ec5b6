# SPDX-License-Identifier: BSD-3-Clause
"""Runs that are in the store already: made by older rules, or under other protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._version import __version__
from ..core.errors import InputError, StoreError, UnknownNameError
from ..core.scores import Score, ScoreRow
from ..store.store import Store
from ..store.stored_run import StoredRun
from ..store.writers import save_run
from ..tasks import load_task
from ..tasks.base import Task
from ..tasks.info import protocol_version
from .scoring import (
    SCORING,
    UnitRecords,
    record_warnings,
    score_rows_with_intervals,
    scores_under,
    time_scores,
)


def protocols_of(run: StoredRun) -> list[str]:
    """Protocols a run has scores under, in the order of its scores."""
    return list(dict.fromkeys(s.protocol for s in run.scores))


def is_current(store: Store, run: StoredRun) -> bool:
    """Whether the scores of a run were made by the rules of this version and their scene values are there."""
    known = run.manifest
    if known.versions.get("tiepoint") != __version__ or known.scoring != SCORING:
        return False
    return all(p in known.values and known.values[p] in store.values for p in protocols_of(run))


def outdated_protocols(run: StoredRun) -> list[str]:
    """Protocols of a run whose rules of comparing have changed since: only a new run has their scores."""
    try:
        task = load_task(run.task)
    except InputError:  # its package is not installed any more
        return []
    known = run.manifest
    return [
        p
        for p in protocols_of(run)
        if not known.is_imported and known.rules.get(p, 1) < protocol_version(task.info, p)
    ]


def mark_outdated(run: StoredRun) -> StoredRun:
    """The run with a warning for scores that were made by older rules of comparing."""
    old = outdated_protocols(run)
    if not old:
        return run
    said = f"scores under {', '.join(old)} were made by older rules; run it again to have those of today"
    warnings = (*run.manifest.warnings, said)
    return replace(run, manifest=run.manifest.model_copy(update={"warnings": warnings}))


def update_run(store: Store, run: StoredRun) -> StoredRun | None:
    """Make the scores of an older run again from its records, by the rules of this version, and save it.

    Returns:
        The run as it is now stored; None where nothing is to be done, and where the run has to stay as it is
        because its records are gone, or it came without any.
    """
    if run.status != "done" or is_current(store, run):
        return None
    made = rescore(store, run)
    if protocols_of(made) != protocols_of(run):
        return None
    return save_run(store, made, merge=lambda stored: merge_with_stored(store, stored, made))


def rescore(store: Store, run: StoredRun) -> StoredRun:
    """The run with scores made from its records now, under those of its protocols whose records are there.

    Times were measured, so they stay as they are, and so do scores of `outdated_protocols` protocols.
    """
    rows: list[ScoreRow] = []
    values, old = {}, outdated_protocols(run)
    warnings = list(run.manifest.warnings)
    for protocol in protocols_of(run):
        stored = [s for s in run.scores if s.protocol == protocol]
        alone = run.manifest.is_imported and not run.manifest.units  # numbers of another tool, and no records
        if alone or protocol in old:
            rows += stored
            key = run.manifest.values.get(protocol, "")
            values[protocol] = key if key in store.values else store.values.put(())
            continue
        found = _scores_again(store, run, protocol)
        if found is None:
            continue
        task, records, scores = found
        if run.manifest.scoring == SCORING:  # by the same rules; another order of units may move a last digit
            rows += stored
        else:
            timed = {s.metric for s in time_scores(task, protocol, 0.0, 0.0)}
            rows += [*score_rows_with_intervals(task, scores), *(s for s in stored if s.metric in timed)]
        values[protocol] = store.values.put(scores)
        if not run.manifest.is_imported:
            told = record_warnings(task, [record for by in records.values() for record in by.values()])
            warnings += [w for w in told if w not in warnings]
    manifest = run.manifest.model_copy(
        update={
            "protocols": tuple(sorted(values)),
            "values": values,
            "scoring": SCORING,
            "versions": run.manifest.versions | {"tiepoint": __version__},
            "warnings": tuple(warnings),
        }
    )
    return replace(run, manifest=manifest, scores=rows)


def _scores_again(
    store: Store, run: StoredRun, protocol: str
) -> tuple[Task, UnitRecords, Sequence[Score]] | None:
    """Task, records and scores of a run under a protocol; None where they cannot be made."""
    units = run.manifest.units
    try:
        task = load_task(run.task)
        comparison = task.comparison(protocol)
        if not units or not all(comparison in by for by in units.values()):
            return None
        records = {unit: {comparison: store.records.get(by[comparison])} for unit, by in units.items()}
        return task, records, scores_under(task, protocol, records)
    except (UnknownNameError, StoreError):
        return None


def merge_with_stored(store: Store, stored: StoredRun | None, made: StoredRun) -> StoredRun:
    """What to save of a run that was just made, where one of its identity is `stored` already.

    Scores under protocols that were not asked for now stay, made again where the rules have changed since.
    A failure does not replace scores.
    """
    if stored is None or stored.status != "done":
        return made
    if made.status != "done":
        return stored
    own, notes = set(protocols_of(made)), list(made.manifest.warnings)
    if is_current(store, stored):
        notes += [w for w in stored.manifest.warnings if w not in notes]
    elif not own.issuperset(asked := protocols_of(stored)):
        stored = rescore(store, stored)
        lost = sorted(set(asked) - set(protocols_of(stored)) - own)
        if lost:
            notes.append(f"older scores under {', '.join(lost)} are left out: their records are gone")
    rows = [*(s for s in stored.scores if s.protocol not in own), *made.scores]
    before, now = stored.manifest, made.manifest
    units = {
        unit: {**before.units.get(unit, {}), **now.units.get(unit, {})}
        for unit in dict.fromkeys([*before.units, *now.units])
    }
    manifest = now.model_copy(
        update={
            "protocols": tuple(sorted({r.protocol for r in rows})),
            "values": {**before.values, **now.values},
            "rules": {p: n for p, n in before.rules.items() if p not in own} | now.rules,
            "units": units,
            "warnings": tuple(notes),
        }
    )
    keypoint_set = made.keypoint_set or stored.keypoint_set
    return replace(made, manifest=manifest, scores=rows, keypoint_set=keypoint_set)
