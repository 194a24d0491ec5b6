# SPDX-License-Identifier: BSD-3-Clause
"""Choosing runs of a store by method name or id."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.errors import UnknownNameError
from ...run.result import Run
from ...store.runs import StoredRun, load_runs
from ...store.store import Store
from .records import Kept, LazyRecords


def runs_of(store: Store, wanted: Sequence[str] | None, *, task: str | None = None) -> list[Run]:
    """Finished runs of a task, all or those named by method or (abbreviated) run id; newest of a kind only.

    A method that ran several times on the same data with the same lists appears once, as its newest run.
    """
    found = [r for r in load_runs(store, task=task) if r.status == "done"]
    if wanted:
        chosen: list[StoredRun] = []
        for name in wanted:
            match = [r for r in found if r.method == name] or [r for r in found if r.id.startswith(name)]
            if not match:
                raise UnknownNameError("method or run in the store", name, {r.method for r in found})
            chosen += match
        found = chosen
    newest: dict[tuple[object, ...], StoredRun] = {}
    for r in found:
        m = r.manifest
        # Where the lists lie does not matter, only what is in them.
        options = {k: v for k, v in m.options.items() if k != "tasks"}
        newest[(r.task, r.method, m.dataset.hash, m.lists, str(options))] = r
    kept = Kept(store.records)
    return [
        Run(
            r,
            {unit: LazyRecords(by, kept) for unit, by in r.manifest.units.items()},
            r.manifest.warnings,
        )
        for r in newest.values()
    ]
