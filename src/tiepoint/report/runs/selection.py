# SPDX-License-Identifier: BSD-3-Clause
"""Select runs of a store by method, id, split, dataset or protocol."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...run.result import Run
from ...store.run_queries import RunHead, load_heads, load_run, load_runs, run_names
from ...store.store import Store
from ...store.stored_run import StoredRun
from .lazy_records import RecordCache, lazy_run
from .names import data_names, distinct_names


def runs_of(
    store: Store, wanted: Sequence[str] | None = None, *, task: str | None = None, singles: bool = True
) -> list[Run]:
    """Return finished runs of a store, optionally selected by method, name, run id or task.

    Ids may be abbreviated. Names are display names such as ``sift (split a)``. Each run is returned once.
    Without `singles`, scores of single scenes and pairs are read on demand (`Run.load_single_scores`).
    """
    ids: dict[str, None] | None = None
    if wanted:
        known = [(i, method) for i, method, status in run_names(store, task=task) if status == "done"]
        ids = {}
        for name in wanted:
            match = (
                [i for i, method in known if method == name]
                or [i for i, _ in known if i.startswith(name)]
                or _ids_by_label(store, name, task)
            )
            if not match:
                raise UnknownNameError(_kind(task), name, {method for _, method in known})
            ids.update(dict.fromkeys(match))
    found = [r for r in load_runs(store, task=task, ids=ids, singles=singles) if r.status == "done"]
    if ids is not None:
        by_id = {r.id: r for r in found}
        found = [by_id[i] for i in ids if i in by_id]
    cache = RecordCache(store.records)
    return [lazy_run(r, store, cache, singles=singles) for r in found]


def has_runs(store: Store, task: str) -> None:
    """Raise an error if a task has no runs but other tasks have. Suggest similar names."""
    if not run_names(store, task=task) and (known := {h.task for h in load_heads(store)}):
        raise UnknownNameError("task with runs in the store", task, known)


def one_run(store: Store, name: str, *, task: str | None = None) -> tuple[StoredRun, list[str]]:
    """Return a run by its method name, display name or (abbreviated) id, and notes.

    A method name selects its newest finished run, of `task` if given. A note lists older runs. A run on a
    subset is selected if the method has no other.

    Raises:
        InputError: The run does not exist, or the method has runs of several tasks. The error lists them.
    """
    heads = load_heads(store, task=task)
    done = [h for h in heads if h.status == "done"]
    own = [h for h in done if h.method == name]
    if not own and not any(h.id.startswith(name) for h in heads):
        own = [h for h in done if h.id in _ids_by_label(store, name, task)]
        if not own:
            raise UnknownNameError(_kind(task), name, {h.method for h in heads})
    if not own:
        return load_run(store, name), []
    own = [h for h in own if h.manifest.subset is None] or own
    if len({h.task for h in own}) > 1:
        newest = {h.task: h for h in own}
        listed = "\n".join(f"  {h.id}  {h.task}" for _, h in sorted(newest.items()))
        raise InputError(
            f"{name!r} has runs of {len(newest)} tasks; choose one with `task`, or a run by its id:\n{listed}"
        )
    return load_run(store, own[-1].id), _older(name, own)


def _kind(task: str | None) -> str:
    return "method or run in the store" if task is None else f"method or run of {task} in the store"


def _ids_by_label(store: Store, name: str, task: str | None) -> list[str]:
    """Return the ids of the finished runs with a display name."""
    done = [h for h in load_heads(store, task=task) if h.status == "done"]
    return [h.id for h, label in zip(done, distinct_names(done), strict=True) if label == name]


def _older(name: str, heads: Sequence[RunHead]) -> list[str]:
    """Return a note if a name selects the newest of several runs."""
    if len(heads) < 2:
        return []
    labels = [f"{h.id} {label}" for h, label in zip(heads, distinct_names(heads), strict=True)]
    return [
        f"this is the newest of {len(heads)} runs of {name} on {heads[0].task}, {labels[-1]}; "
        f"older: {first_few(labels[-2::-1])}"
    ]


def of_split(runs: Sequence[Run], split: str, requested: Collection[str] = ()) -> list[Run]:
    """Return the runs of a split. Raise an error if no run, or no run of a requested method, matches."""
    selected = [r for r in runs if r.manifest.split == split]
    if not selected:
        known = {s for r in runs if (s := r.manifest.split) is not None}
        if not known:
            raise InputError(
                f'`split="{split}"` has no effect: the tasks of these runs have no splits; omit it'
            )
        raise UnknownNameError("split with runs", split, known)
    for name in requested:
        own = {r.manifest.split for r in runs if name == r.method or r.id.startswith(name)}
        if own and split not in own:
            have = ", ".join(sorted(s or "an unknown split" for s in own))
            raise InputError(f"{name} has no run of split {split!r}; its splits are {have}")
    return selected


def of_subset(
    runs: Sequence[Run], subset: str | None, requested: Collection[str] = ()
) -> tuple[list[Run], list[str]]:
    """Return the runs on a subset and complete runs on the same data, and notes.

    Without `subset`, return the complete runs. In that case a run on a subset is selected only if it is named
    by its id, or if its method has no other run. A note lists the excluded subsets.
    """
    if subset is not None:
        own = [r for r in runs if r.manifest.subset is not None and r.manifest.subset.name == subset]
        if not own or own[0].manifest.subset is None:
            known = {r.manifest.subset.name for r in runs if r.manifest.subset is not None}
            raise UnknownNameError("subset with runs", subset, known)
        data, methods = own[0].manifest.subset.dataset, {r.method for r in own}
        complete = [
            r
            for r in runs
            if r.manifest.subset is None and r.manifest.dataset.hash == data and r.method not in methods
        ]
        return [*own, *complete], []
    complete = [r for r in runs if r.manifest.subset is None]
    methods = {r.method for r in complete}
    named = [name for name in requested if len(name) >= 4]
    kept = [
        r
        for r in runs
        if r.manifest.subset is None
        or any(r.id.startswith(name) for name in named)
        or (r.method not in methods and (bool(requested) or not complete))
    ]
    ids = {r.id for r in kept}
    left = sorted({r.manifest.subset.name for r in runs if r.manifest.subset is not None and r.id not in ids})
    notes = [f"runs on subsets are excluded: {first_few(left)}; `subset` compares them"] if left else []
    return kept, notes


def of_dataset(runs: Sequence[Run], dataset: str) -> list[Run]:
    """Return the runs on a dataset, given by its name or its display name (see `data_names`)."""
    names = data_names(runs)
    own = [r for r in runs if not r.manifest.is_imported]
    selected = [r for r in own if dataset in (r.manifest.dataset.name, names[r.manifest.dataset.hash])]
    if not selected:
        raise UnknownNameError("dataset with runs", dataset, set(names.values()))
    return selected


def of_protocol(runs: Sequence[Run], protocol: str) -> list[Run]:
    """Return the runs that were scored under a protocol, with only the scores of this protocol."""
    found = [r for r in runs if any(s.protocol == protocol for s in r.score_rows)]
    if not found:
        known = {s.protocol for r in runs for s in r.score_rows}
        raise UnknownNameError("protocol of these runs", protocol, known)
    return [replace(r, protocols=(protocol,)) for r in found]


def choose_split(
    runs: Sequence[Run], requested: Collection[str] = (), allow: Collection[str] = ()
) -> tuple[list[Run], list[str]]:
    """Choose one split for methods with runs on several splits, if only one split suits all methods.

    Return the selected runs and notes. Runs without a known split are always selected.

    Args:
        runs: runs to compare.
        requested: names given by the user, empty for all. A run given by its id is always selected.
        allow: differences to accept. `split` selects all runs.

    Raises:
        InputError: Several splits match, or none.
    """
    if {"split", "all"} & set(allow):
        return list(runs), []
    splits: dict[str, dict[str, None]] = {}
    for r in runs:
        splits.setdefault(r.method, {}).update({s: None for s in (r.manifest.split,) if s is not None})
    ambiguous = {m: own for m, own in splits.items() if len(own) > 1 and (not requested or m in requested)}
    if not ambiguous:
        return list(runs), []
    shared = set.intersection(*(set(own) for own in ambiguous.values()))
    fixed = {s for m, own in splits.items() if m not in ambiguous for s in own}
    fit = shared & fixed if fixed else shared
    who = first_few(list(ambiguous))
    every = sorted({s for own in ambiguous.values() for s in own})
    if len(fit) != 1:
        raise InputError(
            f"there are runs of {who} on the splits {', '.join(every)}; choose one with `split`, "
            f'e.g. `split="{every[-1]}"`, or name runs by their ids'
        )
    (split,) = fit
    other = next(s for s in every if s != split)
    why = "the only split that all methods have" if fixed <= {split} else "a split the others have"
    notes = [f'{who}: using the runs on split {split}, {why}; pass `split="{other}"` for others']
    return [r for r in runs if r.method not in ambiguous or r.manifest.split in (split, None)], notes


def split_summary(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Return a text of runs by split: ``a (orb); full (sift, rootsift)``. Empty if there is one split."""
    holders: dict[str, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        if (split := run.manifest.split) is not None:
            holders.setdefault(split, []).append(name)
    if len(holders) < 2:
        return ""
    return "; ".join(f"{split} ({first_few(who)})" for split, who in sorted(holders.items()))
